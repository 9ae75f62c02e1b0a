"""Releasing: the last stage first, and one stuck stage keeps only its own."""

from __future__ import annotations

import threading

import pytest

from realtime_engine.core.streaming.errors import StreamingActorFailedError
from realtime_engine.core.streaming.graph import PipelineGraph
from realtime_engine.core.streaming.metrics import PipelineTotals
from realtime_engine.core.streaming.release import SessionReleaser
from realtime_engine.core.streaming.session import StreamingSession
from realtime_engine.core.streaming.types import StreamingSessionContext
from realtime_engine.core.streaming.work import ActorLane

from .manual_actors import ManualActor
from .pipelines import chain

STAGES = ("encode", "denoise", "decode")


class PendingDetaches:
    """A releaser, and what it has reported."""

    def __init__(self, restartable: bool = False, timeout: float = 5.0) -> None:
        self.done: dict[str, BaseException | None] = {}
        self._reported = threading.Condition()
        self.releaser = SessionReleaser(STAGES, [restartable] * 3, self._report, timeout)

    def _report(self, session: StreamingSession, error: BaseException | None) -> None:
        with self._reported:
            self.done[session.session_id] = error
            self._reported.notify_all()

    def wait(self, session_id: str) -> BaseException | None:
        with self._reported:
            assert self._reported.wait_for(lambda: session_id in self.done, 5)
        return self.done[session_id]


def session(session_id: str, actors: list[ManualActor]) -> StreamingSession:
    lanes = tuple(ActorLane(actor) for actor in actors)
    return StreamingSession(
        StreamingSessionContext(session_id, 1), PipelineGraph(chain()), lanes, None, 8, PipelineTotals()
    )


def three() -> list[ManualActor]:
    return [ManualActor({}) for _ in STAGES]


def test_a_stuck_stage_delays_only_sessions_that_need_it() -> None:
    releases, stuck, fine = PendingDetaches(), three(), three()
    stuck[0].closer_gate.clear()
    releases.releaser.release(session("stuck", stuck))
    other = three()
    other[0] = fine[0]
    releases.releaser.release(session("behind", fine))
    assert "stuck" not in releases.done
    stuck[0].closer_gate.set()
    assert releases.wait("stuck") is None and releases.wait("behind") is None
    releases.releaser.close()


def test_a_stage_that_takes_too_long_is_a_failure_and_the_others_go_on() -> None:
    releases, actors = PendingDetaches(timeout=0.01), three()
    actors[1].closer_gate.clear()
    releases.releaser.release(session("s", actors))
    error = releases.wait("s")
    assert isinstance(error.__cause__ if error else None, TimeoutError)
    assert len(actors[2].closings) == len(actors[0].closings) == 1
    releases.releaser.close()


@pytest.mark.parametrize("restartable", [True, False])
def test_what_a_dead_actor_held_is_gone_if_it_is_replaced(restartable: bool) -> None:
    releases, actors = PendingDetaches(restartable), three()
    actors[1].die()
    releases.releaser.release(session("s", actors))
    error = releases.wait("s")
    assert (error is None) is restartable
    assert restartable or isinstance(error.__cause__ if error else None, StreamingActorFailedError)
    releases.releaser.close()


def test_a_late_session_is_released_after_the_close() -> None:
    releases, actors = PendingDetaches(), three()
    releases.releaser.release(session("early", actors))
    assert releases.wait("early") is None
    releases.releaser.close()
    releases.releaser.release(session("late", actors))
    assert releases.wait("late") is None
    assert [len(actor.closings) for actor in actors] == [2, 2, 2]


class Bare(ManualActor):
    """An actor whose ``close_session`` has no timeout."""

    def close_session(self, context: object, reason: object) -> None:
        self.closings.append((context, reason))


def test_actors_of_the_bare_protocol_are_released_too() -> None:
    releases, actors = PendingDetaches(), [Bare({}) for _ in STAGES]
    releases.releaser.release(session("s", actors))
    assert releases.wait("s") is None and [len(actor.closings) for actor in actors] == [1, 1, 1]
    releases.releaser.close()
