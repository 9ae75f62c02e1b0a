"""The actors of a pipeline: made, found dead, replaced, closed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from realtime_engine.core.streaming import supervisor as stage_actors
from realtime_engine.core.streaming.actors import LocalStageActor
from realtime_engine.core.streaming.errors import StreamingActorFailedError
from realtime_engine.core.streaming.graph import PipelineGraph
from realtime_engine.core.streaming.supervisor import StageActors
from realtime_engine.core.streaming.types import StreamingActorState
from realtime_engine.core.streaming.work import ActorLane
from realtime_engine.core.streaming.worker_actor import ParallelWorkerStageActor

from .manual_actors import ManualActor
from .pipelines import chain
from .workers import Calculator

GRAPH = PipelineGraph(chain())


def none_replaced(index: int, lane: ActorLane, error: BaseException) -> None:
    raise AssertionError


def no_failure(index: int, lane: ActorLane, error: StreamingActorFailedError) -> None:
    raise AssertionError(error)


def test_factories_that_fail_close_what_was_made() -> None:
    made, given = ManualActor({}), ManualActor({})

    def broken() -> ManualActor:
        raise OSError("no device")

    with pytest.raises(OSError, match="no device"):
        StageActors(GRAPH, {"encode": lambda: made, "denoise": given, "decode": broken}, no_failure)
    assert made.state is StreamingActorState.CLOSED and given.state is StreamingActorState.RUNNING


def test_only_dead_actors_are_replaced() -> None:
    made: list[ManualActor] = []

    def factory() -> ManualActor:
        made.append(ManualActor({}))
        return made[-1]

    actors = StageActors(GRAPH, dict.fromkeys(GRAPH.index, factory), no_failure)
    assert actors.restartable == [True] * 3
    actors.revive(none_replaced)
    made[1].die()
    replaced: list[tuple[int, ActorLane, str]] = []
    actors.revive(lambda index, lane, error: replaced.append((index, lane, str(error))))
    ((index, lane, reason),) = replaced
    assert index == 1 and lane is actors.lanes[1] and lane.actor is made[3]
    assert reason == "the actor of stage 'denoise' is failed: a test said so"


def test_a_factory_that_fails_later_is_the_reason() -> None:
    first = ManualActor({})
    answers: list[ManualActor] = [first]
    actors = StageActors(
        GRAPH, {"encode": lambda: answers.pop(), "denoise": ManualActor({}), "decode": ManualActor({})}, no_failure
    )
    first.die()
    with pytest.raises(StreamingActorFailedError, match="a new one failed: IndexError: pop from empty list"):
        actors.revive(none_replaced)


def test_closing_is_bounded_and_survives_errors() -> None:
    gate = threading.Event()

    class Stuck(ManualActor):
        def close(self) -> None:
            gate.wait(10)

    class Broken(ManualActor):
        def close(self) -> None:
            raise OSError("gone")

    actors = StageActors(GRAPH, {"encode": Stuck({}), "denoise": Broken({}), "decode": ManualActor({})}, no_failure)
    assert actors.close(lambda: 0.01) == ["encode"]
    gate.set()
    assert actors.lanes[2].actor.health().state is StreamingActorState.CLOSED


def dead_encode(factory: Callable[[], Any]) -> StageActors:
    """A stage whose actor is dead, and which ``factory`` is to make again."""
    first = ManualActor({})
    answers = [lambda: first]
    actors = StageActors(
        GRAPH,
        {
            "encode": lambda: (answers.pop() if answers else factory)(),
            "denoise": ManualActor({}),
            "decode": ManualActor({}),
        },
        no_failure,
    )
    first.die()
    return actors


def test_a_new_actor_is_visible_only_after_its_replacement_was_reported() -> None:
    """Otherwise a session could begin with the failed one in between."""
    actors = dead_encode(lambda: ManualActor({}))
    seen: list[StreamingActorState] = []
    actors.revive(lambda *_: seen.append(actors.health()["encode"].state))
    assert seen == [StreamingActorState.FAILED]
    assert actors.health()["encode"].state is StreamingActorState.RUNNING


def test_an_actor_created_after_the_close_is_closed() -> None:
    made = ManualActor({})

    def late() -> ManualActor:
        actors.close(lambda: 5.0)
        return made

    actors = dead_encode(late)
    with pytest.raises(StreamingActorFailedError, match="the pipeline was closed"):
        actors.revive(lambda *_: None)
    assert made.state is StreamingActorState.CLOSED


@pytest.mark.parametrize("by_factory", [False, True])
def test_two_stages_with_one_actor_are_refused(by_factory: bool) -> None:
    shared = ManualActor({})
    actors: dict[str, Any] = {"encode": shared, "denoise": ManualActor({}), "decode": shared}
    if by_factory:
        actors |= {"encode": lambda: shared, "decode": lambda: shared}
    with pytest.raises(ValueError, match="stages 'encode' and 'decode' have the same actor"):
        StageActors(GRAPH, actors, no_failure)


def test_two_actors_with_one_worker_are_refused() -> None:
    worker = Calculator()

    def worker_actor() -> ParallelWorkerStageActor:
        return ParallelWorkerStageActor(worker, "double", lambda _: ((), {}), lambda *_: {}, close_worker=False)

    actors = {"encode": worker_actor(), "denoise": worker_actor(), "decode": ManualActor({})}
    with pytest.raises(ValueError, match="stages 'encode' and 'denoise' have the same worker"):
        StageActors(GRAPH, actors, no_failure)
    for actor in actors.values():
        actor.close()


def test_a_replacement_that_belongs_to_another_stage_is_refused() -> None:
    actors = dead_encode(lambda: actors.lanes[1].actor)
    with pytest.raises(StreamingActorFailedError, match="'denoise' and 'encode' have the same actor"):
        actors.revive(none_replaced)


@pytest.mark.parametrize("made", [None, 3, "actor"])
def test_a_factory_makes_actors(made: object) -> None:
    with pytest.raises(TypeError, match="must return an actor"):
        StageActors(GRAPH, dict.fromkeys(GRAPH.index, lambda: made), no_failure)
    with pytest.raises(StreamingActorFailedError, match="must return an actor"):
        dead_encode(lambda: made).revive(none_replaced)


def test_a_factory_that_raises_system_exit_does_not_exit() -> None:
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(StreamingActorFailedError, match="SystemExit: 3"):
        dead_encode(leave).revive(none_replaced)


def test_a_class_is_a_factory() -> None:
    class Ready(ManualActor):
        def __init__(self) -> None:
            super().__init__({})

    actors = StageActors(GRAPH, dict.fromkeys(GRAPH.index, Ready), no_failure)
    assert len({lane.actor for lane in actors.lanes}) == 3


@pytest.mark.parametrize("actors", [None, 3, ["encode", "denoise", "decode"]])
def test_actors_are_a_mapping(actors: Any) -> None:
    with pytest.raises(ValueError, match="actors must be a mapping"):
        StageActors(GRAPH, actors, no_failure)


def test_an_actor_that_ends_at_once_is_not_late_after_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_actors, "_GRACE_S", 0.5)  # as a loaded machine needs
    gate = threading.Event()

    class Stuck(ManualActor):
        def close(self) -> None:
            gate.wait()

    made = {name: Stuck({}) if name == "encode" else LocalStageActor(lambda _: {}) for name in GRAPH.index}
    assert StageActors(GRAPH, made, no_failure).close(lambda: 0.0) == ["encode"]
    gate.set()
