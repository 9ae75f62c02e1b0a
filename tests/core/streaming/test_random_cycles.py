"""Many epochs of few ids, ended in every way and at every moment: nothing leaks, and every closer runs once."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter

from realtime_engine.core.streaming.actors import LocalStageActor
from realtime_engine.core.streaming.errors import SessionEndedError, UnknownSessionError
from realtime_engine.core.streaming.orchestrator import StreamingPipelineOrchestrator
from realtime_engine.core.streaming.types import (
    StreamingSessionCloseReason,
    StreamingSessionContext,
    StreamingSessionStatus,
    StreamingStageInvocation,
)

from .manual_actors import ManualActor
from .pipelines import chain

CYCLES = 10_000
PRODUCES = {"encode": "y", "denoise": "z", "decode": "out"}


class RandomFailure(Exception):
    """Raised by handlers."""


class RandomSession:
    """One session id, driven through its epochs at random."""

    def __init__(self, orchestrator: StreamingPipelineOrchestrator, session_id: str, rng: random.Random) -> None:
        self.orchestrator = orchestrator
        self.session_id = session_id
        self.rng = rng
        self.epochs: list[int] = []
        self.next_input = 0
        self.read: list[int] = []

    @property
    def status(self) -> StreamingSessionStatus:
        return self.orchestrator.status(self.session_id)

    def create(self) -> None:
        self.epochs.append(self.orchestrator.create_session(self.session_id))
        self.next_input, self.read = 0, []

    def push(self) -> None:
        if self.orchestrator.try_push_inputs(self.session_id, self.next_input, {"x": self.rng.random()}):
            self.next_input += 1

    def poll(self) -> None:
        self.read += [sequence_id for sequence_id, _, _ in self.orchestrator.poll_outputs(self.session_id)]
        assert self.read == list(range(len(self.read)))

    def cancel_or_close(self, share_cancelled: float) -> None:
        if self.rng.random() < share_cancelled:
            self.orchestrator.cancel_session(self.session_id)
        else:
            self.orchestrator.close_session(self.session_id)

    def drain(self) -> None:
        """Drain while reading. A drain loses nothing, unless a handler fails."""
        while self.status is StreamingSessionStatus.RUNNING:
            with contextlib.suppress(TimeoutError, RandomFailure):
                self.orchestrator.drain_session(self.session_id, timeout=0.01)
            if self.status is StreamingSessionStatus.RUNNING:
                self.poll()
        if self.status is StreamingSessionStatus.CLOSED:
            self.poll()
            assert len(self.read) == self.next_input

    def run_epoch(self) -> None:
        """One epoch beside other threads."""
        self.create()
        with contextlib.suppress(SessionEndedError):
            for _ in range(self.rng.randrange(12)):
                self.push()
                self.poll()
        if self.rng.random() < 0.3 and self.status is StreamingSessionStatus.RUNNING:
            self.drain()
        else:
            self.cancel_or_close(0.4)
        with contextlib.suppress(UnknownSessionError):
            self.poll()
            assert self.orchestrator.wait_until_idle(self.session_id)


class ManualStages:
    """Manual actors, which complete invocations at random."""

    def __init__(self, rng: random.Random) -> None:
        self.actors = {name: ManualActor({artifact: 0}) for name, artifact in PRODUCES.items()}
        self._rng = rng

    def act(self) -> None:
        """Complete, fail or begin one invocation, or none."""
        choice = self._rng.random()
        first = self.actors["encode"]
        if choice < 0.6:
            self._answer(None if choice < 0.5 else RandomFailure())
        elif choice < 0.7 and first.taken and not first.taken[0][1].running():
            first.begin()

    def answer_running(self) -> None:
        """Complete what has begun: no other thread would, while this one waits for the end of a session."""
        for actor in self.actors.values():
            while any(future.running() for _, future in actor.taken):
                actor.answer(next(place for place, (_, future) in enumerate(actor.taken) if future.running()))

    def answer_all(self) -> None:
        for actor in self.actors.values():
            while actor.taken:
                actor.answer()

    def _answer(self, error: BaseException | None) -> None:
        busy = [actor for actor in self.actors.values() if actor.taken]
        if busy:
            self._rng.choice(busy).answer(error=error)


def assert_regular(orchestrator: StreamingPipelineOrchestrator) -> None:
    counts = orchestrator.diagnostics()
    assert counts.slot_leaks == counts.cleanup_failures == counts.duplicate_results == counts.stale_epoch_results == 0


def test_ten_thousand_cycles_leave_nothing() -> None:
    rng = random.Random(5)
    stages = ManualStages(rng)
    orchestrator = StreamingPipelineOrchestrator(chain(2), stages.actors)
    sessions = [RandomSession(orchestrator, f"s{n}", rng) for n in range(5)]
    for session in sessions:
        session.create()
    cycles = len(sessions)
    while cycles < CYCLES:
        session = rng.choice(sessions)
        for _ in range(rng.randrange(4)):
            with contextlib.suppress(SessionEndedError):
                session.push()
            stages.act()
            session.poll()
        if session.status is StreamingSessionStatus.FAILED or rng.random() < 0.6:
            stages.answer_running()
            session.cancel_or_close(0.4)
            session.create()
            cycles += 1
    stages.answer_all()
    orchestrator.close(10.0)
    epochs = Counter(epoch for session in sessions for epoch in session.epochs)
    assert len(epochs) == CYCLES
    for actor in stages.actors.values():
        assert Counter(context.session_epoch for context, _ in actor.closings) == epochs
    assert {reason for _, reason in stages.actors["encode"].closings} == set(StreamingSessionCloseReason)
    assert_regular(orchestrator)
    assert all(not lane.works and not lane.backlog for lane in orchestrator._actors.lanes)
    assert all(len(session.slots) == len(session.outputs) for session in orchestrator._sessions.all())


def failing_actor(name: str, artifact: str, closings: list[tuple[str, int]]) -> LocalStageActor:
    """Fails two of a hundred invocations; ``closings`` gets the epochs that were closed."""
    rng = random.Random(name)

    def handle(invocation: StreamingStageInvocation) -> dict[str, object]:
        if rng.random() < 0.02:
            raise RandomFailure
        return {artifact: invocation.key.sequence_id}

    def close(context: StreamingSessionContext, reason: StreamingSessionCloseReason) -> None:
        closings.append((name, context.session_epoch))

    return LocalStageActor(handle, session_closer=close)


def test_threads_that_do_the_same_to_actors_with_threads() -> None:
    closings: list[tuple[str, int]] = []
    actors = {name: failing_actor(name, artifact, closings) for name, artifact in PRODUCES.items()}
    orchestrator = StreamingPipelineOrchestrator(chain(2), actors)
    sessions = [RandomSession(orchestrator, f"s{n}", random.Random(n)) for n in range(4)]
    errors: list[BaseException] = []

    def run(session: RandomSession) -> None:
        try:
            for _ in range(150):
                session.run_epoch()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    orchestrator.close(10.0)
    assert not errors, errors
    assert_regular(orchestrator)
    expected = {(name, epoch) for name in PRODUCES for session in sessions for epoch in session.epochs}
    assert len(closings) == len(expected) and set(closings) == expected
