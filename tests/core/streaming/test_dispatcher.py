"""Between the scheduler and the actors: full mailboxes, answers within submit, actors that misbehave."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from realtime_engine.core.streaming.dispatcher import Dispatcher
from realtime_engine.core.streaming.errors import StreamingActorBusyError, StreamingActorFailedError
from realtime_engine.core.streaming.orchestrator import StreamingPipelineOrchestrator
from realtime_engine.core.streaming.scheduler import Effects
from realtime_engine.core.streaming.specs import StreamingEdgeSpec, StreamingPipelineSpec
from realtime_engine.core.streaming.types import StreamingSessionStatus, StreamingStageInvocation

from .manual_actors import Answer, InlineActor, ManualActor
from .pipelines import chain, stage, unordered


def one_stage(in_flight: int) -> StreamingPipelineSpec:
    return StreamingPipelineSpec(
        (unordered("only", "x", "out", in_flight),),
        (StreamingEdgeSpec("x", "only", None, in_flight),),
        frozenset({"out"}),
        output_capacity_per_session=100,
    )


def test_what_a_full_mailbox_refuses_is_offered_again() -> None:
    actor = ManualActor({"out": 0}, mailbox_capacity=2)
    with StreamingPipelineOrchestrator(one_stage(4), {"only": actor}) as o:
        o.create_session("s")
        for sequence_id in range(6):
            o.push_input("s", sequence_id, "x", 0)
        assert len(actor.taken) == 2
        while actor.taken:
            actor.answer(len(actor.taken) - 1)
        assert [sequence_id for sequence_id, _, _ in o.poll_outputs("s")] == list(range(6))


class BusyOnce(InlineActor):
    """Refuses its first invocation, with nothing else to do."""

    def __init__(self) -> None:
        super().__init__(lambda _: {"out": 0})
        self.refused = threading.Event()

    def submit(self, invocation: StreamingStageInvocation) -> Answer:
        if not self.refused.is_set():
            self.refused.set()
            raise StreamingActorBusyError("not now")
        return super().submit(invocation)


def test_an_actor_that_is_busy_with_others_is_asked_again_later() -> None:
    with StreamingPipelineOrchestrator(one_stage(1), {"only": BusyOnce()}) as o:
        o.create_session("s", final_sequence_id=0)
        o.push_input("s", 0, "x", 0)
        assert o.wait_until_idle("s")
        assert len(o.poll_outputs("s")) == 1


def test_work_that_waits_for_a_mailbox_is_dropped_with_its_session() -> None:
    actor = ManualActor({"out": 0}, mailbox_capacity=1)
    with StreamingPipelineOrchestrator(one_stage(3), {"only": actor}) as o:
        o.create_session("a")
        o.push_input("a", 0, "x", 0)
        o.create_session("b")
        o.push_input("b", 0, "x", 0)
        o.cancel_session("b")
        actor.answer()
        assert not actor.taken and len(o.poll_outputs("a")) == 1


def test_answers_within_submit_do_not_nest() -> None:
    length = 400  # stages: nested calls would end the stack
    spec = StreamingPipelineSpec(
        tuple(stage(f"s{n}", f"a{n}", f"a{n + 1}") for n in range(length)),
        tuple(StreamingEdgeSpec(f"a{n}", f"s{n}", f"s{n - 1}" if n else None) for n in range(length)),
        frozenset({f"a{length}"}),
    )
    actors = {f"s{n}": InlineActor(lambda _, n=n: {f"a{n + 1}": n}) for n in range(length)}
    o = StreamingPipelineOrchestrator(spec, actors)
    o.create_session("s")
    o.push_input("s", 0, "a0", 0)
    assert o.poll_outputs("s") == [(0, f"a{length}", length - 1)]


class Dropping(ManualActor):
    """Cancels what it was given."""

    def submit(self, invocation: StreamingStageInvocation) -> Answer:
        future: Answer = Future()
        future.cancel()
        return future


class Raising(ManualActor):
    """Cannot even take anything."""

    def submit(self, invocation: StreamingStageInvocation) -> Answer:
        raise LookupError("no mailbox")


class Absent(ManualActor):
    """Takes it and gives nothing back."""

    def submit(self, invocation: StreamingStageInvocation) -> Answer:
        return None


class Leaving(ManualActor):
    """Wants to end the thread that submits."""

    def submit(self, invocation: StreamingStageInvocation) -> Answer:
        raise SystemExit(3)


class Wrong(ManualActor):
    """Answers something that is no mapping."""

    def submit(self, invocation: StreamingStageInvocation) -> Answer:
        future: Answer = Future()
        future.set_result(3)
        return future


class Unreadable(dict[str, object]):
    """A mapping that cannot be read."""

    def keys(self) -> object:
        raise LookupError("torn pages")

    __iter__ = keys


class Torn(ManualActor):
    """Answers such a mapping."""

    def submit(self, invocation: StreamingStageInvocation) -> Answer:
        future: Answer = Future()
        future.set_result(Unreadable())
        return future


def test_whatever_an_actor_does_ends_the_session_only() -> None:
    for actor, message in (
        (Dropping({}), "the actor of stage 'encode' dropped an invocation"),
        (Raising({}), "no mailbox"),
        (Absent({}), "NoneType"),
        (Leaving({}), "the actor of stage 'encode' raised SystemExit: 3"),
        (Torn({}), "torn pages"),
        (Wrong({}), "expected a mapping of ['y'], got int"),
    ):
        rest = {"denoise": ManualActor({"z": 0}), "decode": ManualActor({"out": 0})}
        with StreamingPipelineOrchestrator(chain(), {"encode": actor, **rest}) as o:
            o.create_session("s")
            o.push_input("s", 0, "x", 0)
            assert o.status("s") is StreamingSessionStatus.FAILED
            assert message in str(o.error("s"))
            assert o.wait_until_idle("s")
            assert isinstance(o.error("s"), StreamingActorFailedError) is isinstance(actor, Dropping)


def test_an_answer_given_twice_is_counted_and_changes_nothing() -> None:
    class Twice(Future[object]):
        def add_done_callback(self, callback: object) -> None:
            super().add_done_callback(callback)
            super().add_done_callback(callback)

    class Doubling(ManualActor):
        def submit(self, invocation: StreamingStageInvocation) -> Answer:
            future = Twice()
            future.set_result({"out": 0})
            return future

    with StreamingPipelineOrchestrator(one_stage(1), {"only": Doubling({})}) as o:
        o.create_session("s")
        o.push_input("s", 0, "x", 0)
        assert len(o.poll_outputs("s")) == 1
        assert o.diagnostics().duplicate_results == 1


class Fleeting:
    """Completes an invocation as soon as its future was read."""

    def __init__(self) -> None:
        self.futures = [Future[object]()]
        self.found = self.futures[0]

    @property
    def future(self) -> Future[object] | None:
        return self.futures.pop() if self.futures else None


def test_work_that_is_answered_while_it_is_withdrawn() -> None:
    class Decided:
        def take_effects(self) -> Effects:
            return Effects([], [work], [], [session], [], [])

    class Releaser:
        def __init__(self) -> None:
            self.released: list[object] = []
            self.release = self.released.append

    work, session, releaser = Fleeting(), object(), Releaser()
    with Dispatcher(Decided(), releaser):
        pass
    assert work.found.cancelled()
    assert releaser.released == [session]


def test_an_interrupt_within_a_submit_costs_no_other_session_its_turn() -> None:
    class Interrupted(ManualActor):
        def submit(self, invocation: StreamingStageInvocation) -> Answer:
            if invocation.key.session_id == "first":
                raise KeyboardInterrupt
            return super().submit(invocation)

    spec = StreamingPipelineSpec(
        (unordered("a", "x", "l", 2), unordered("b", "x", "r", 2)),
        (StreamingEdgeSpec("x", "a", None, 2), StreamingEdgeSpec("x", "b", None, 2)),
        frozenset({"l", "r"}),
    )
    actors = {"a": Interrupted({"l": 0}), "b": ManualActor({"r": 0})}
    with StreamingPipelineOrchestrator(spec, actors) as o:
        o.create_session("first")
        with pytest.raises(KeyboardInterrupt):
            o.push_input("first", 0, "x", 0)
        while actors["b"].taken:
            actors["b"].answer()
        assert o.wait_until_idle("first")  # released: nothing that was admitted has been lost
        assert o.status("first") is StreamingSessionStatus.FAILED
