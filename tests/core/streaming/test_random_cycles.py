"""Many lives of few ids, ended in every way and at every moment: nothing leaks, and every closer runs once."""

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


class Chance(Exception):
    """Why a handler fails."""


class SessionEpoch:
    """One id, driven through its lives by chance."""

    def __init__(self, orchestrator: StreamingPipelineOrchestrator, session_id: str, rng: random.Random) -> None:
        self.orchestrator = orchestrator
        self.session_id = session_id
        self.rng = rng
        self.epochs: list[int] = []
        self.next_input = 0
        self.read: list[int] = []

    def begin(self) -> None:
        self.epochs.append(self.orchestrator.create_session(self.session_id))
        self.next_input, self.read = 0, []

    def push(self) -> None:
        if self.orchestrator.try_push_inputs(self.session_id, self.next_input, {"x": self.rng.random()}):
            self.next_input += 1

    def poll(self) -> None:
        self.read += [sequence_id for sequence_id, _, _ in self.orchestrator.poll_outputs(self.session_id)]
        assert self.read == list(range(len(self.read)))


def test_ten_thousand_cycles_leave_nothing() -> None:
    rng = random.Random(5)
    actors = {name: ManualActor({artifact: 0}) for name, artifact in PRODUCES.items()}
    orchestrator = StreamingPipelineOrchestrator(chain(2), actors)
    lives = [SessionEpoch(orchestrator, f"s{n}", rng) for n in range(5)]
    stages = list(actors.values())

    def answer_one(error: BaseException | None = None) -> None:
        busy = [actor for actor in stages if actor.taken]
        if busy:
            rng.choice(busy).answer(error=error)

    def end(life: SessionEpoch) -> None:
        """Nobody answers while a thread waits for the end, so what has begun is answered first."""
        for actor in stages:
            while any(future.running() for _, future in actor.taken):
                actor.answer(next(place for place, (_, future) in enumerate(actor.taken) if future.running()))
        how = rng.random()
        if how < 0.4:
            orchestrator.cancel_session(life.session_id)
        else:
            orchestrator.close_session(life.session_id)

    for life in lives:
        life.begin()
    cycles = len(lives)
    while cycles < CYCLES:
        life = rng.choice(lives)
        for _ in range(rng.randrange(4)):
            with contextlib.suppress(SessionEndedError):
                life.push()
            what = rng.random()
            if what < 0.5:
                answer_one()
            elif what < 0.6:
                answer_one(Chance())
            elif what < 0.7 and stages[0].taken and not stages[0].taken[0][1].running():
                stages[0].begin()
            life.poll()
        if orchestrator.status(life.session_id) is StreamingSessionStatus.FAILED or rng.random() < 0.6:
            end(life)
            life.begin()
            cycles += 1
    for actor in stages:
        while actor.taken:
            actor.answer()
    orchestrator.close(10.0)
    epochs = Counter(epoch for life in lives for epoch in life.epochs)
    assert len(epochs) == CYCLES
    for actor in stages:
        assert Counter(context.session_epoch for context, _ in actor.closings) == epochs
    reasons = {reason for _, reason in stages[0].closings}
    assert reasons == set(StreamingSessionCloseReason)
    counts = orchestrator.diagnostics()
    assert counts.slot_leaks == counts.cleanup_failures == counts.duplicate_results == counts.stale_epoch_results == 0
    assert all(not lane.works and not lane.backlog for lane in orchestrator._actors.lanes)
    assert all(len(session.slots) == len(session.outputs) for session in orchestrator._sessions.all())


def test_threads_that_do_the_same_to_actors_with_threads() -> None:
    closings: list[tuple[str, int]] = []

    def actor(name: str, artifact: str) -> LocalStageActor:
        chance = random.Random(name)

        def handle(invocation: StreamingStageInvocation) -> dict[str, object]:
            if chance.random() < 0.02:
                raise Chance
            return {artifact: invocation.key.sequence_id}

        def close(context: StreamingSessionContext, reason: StreamingSessionCloseReason) -> None:
            closings.append((name, context.session_epoch))

        return LocalStageActor(handle, session_closer=close)

    orchestrator = StreamingPipelineOrchestrator(chain(2), {name: actor(name, made) for name, made in PRODUCES.items()})
    lives = [SessionEpoch(orchestrator, f"s{n}", random.Random(n)) for n in range(4)]

    def live(life: SessionEpoch) -> None:
        for _ in range(150):
            life.begin()
            with contextlib.suppress(SessionEndedError):
                for _ in range(life.rng.randrange(12)):
                    life.push()
                    life.poll()
            how = life.rng.random()
            if how < 0.3 and orchestrator.status(life.session_id) is StreamingSessionStatus.RUNNING:
                while True:
                    with contextlib.suppress(TimeoutError, Chance):
                        orchestrator.drain_session(life.session_id, timeout=0.01)
                    if orchestrator.status(life.session_id) is not StreamingSessionStatus.RUNNING:
                        break
                    life.poll()
                if orchestrator.status(life.session_id) is StreamingSessionStatus.CLOSED:
                    life.poll()
                    assert len(life.read) == life.next_input  # a drain loses nothing
            elif how < 0.6:
                orchestrator.cancel_session(life.session_id)
            else:
                orchestrator.close_session(life.session_id)
            with contextlib.suppress(UnknownSessionError):
                life.poll()
                assert orchestrator.wait_until_idle(life.session_id)

    errors: list[BaseException] = []

    def run(life: SessionEpoch) -> None:
        try:
            live(life)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(life,)) for life in lives]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    orchestrator.close(10.0)
    assert not errors, errors
    counts = orchestrator.diagnostics()
    assert counts.slot_leaks == counts.cleanup_failures == counts.duplicate_results == counts.stale_epoch_results == 0
    expected = {(name, epoch) for name in PRODUCES for life in lives for epoch in life.epochs}
    assert len(closings) == len(expected) and set(closings) == expected
