"""The actors of a pipeline: made, found dead, replaced, closed."""

from __future__ import annotations

import threading

import pytest

from realtime_engine.core.streaming.actor import StreamingActorState
from realtime_engine.core.streaming.errors import StreamingActorFailedError
from realtime_engine.core.streaming.graph import PipelineGraph
from realtime_engine.core.streaming.stage_actors import StageActors
from realtime_engine.core.streaming.work import ActorLane

from .manual_actors import ManualActor
from .pipelines import chain

GRAPH = PipelineGraph(chain())


def none_replaced(index: int, lane: ActorLane, error: BaseException) -> None:
    raise AssertionError


def test_factories_that_fail_close_what_was_made() -> None:
    made, given = ManualActor({}), ManualActor({})

    def broken() -> ManualActor:
        raise OSError("no device")

    with pytest.raises(OSError, match="no device"):
        StageActors(GRAPH, {"encode": lambda: made, "denoise": given, "decode": broken})
    assert made.state is StreamingActorState.CLOSED and given.state is StreamingActorState.RUNNING


def test_only_dead_actors_are_replaced() -> None:
    made: list[ManualActor] = []

    def factory() -> ManualActor:
        made.append(ManualActor({}))
        return made[-1]

    actors = StageActors(GRAPH, dict.fromkeys(GRAPH.index, factory))
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
        GRAPH, {"encode": lambda: answers.pop(), "denoise": ManualActor({}), "decode": ManualActor({})}
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

    actors = StageActors(GRAPH, {"encode": Stuck({}), "denoise": Broken({}), "decode": ManualActor({})})
    assert actors.close(lambda: 0.01) == ["encode"]
    gate.set()
    assert actors.lanes[2].actor.health().state is StreamingActorState.CLOSED
