"""One suite over every actor."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import replace
from typing import Any

import pytest

from realtime_engine.core.streaming.actors import BatchedStageActor, LocalStageActor, ThreadActor
from realtime_engine.core.streaming.errors import (
    InvalidStageOutputError,
    SessionEndedError,
    StreamingActorBusyError,
    StreamingActorFailedError,
)
from realtime_engine.core.streaming.types import (
    StreamingActorHealth,
    StreamingActorState,
    StreamingSessionCloseReason,
    StreamingSessionContext,
    StreamingStageInvocation,
)
from realtime_engine.core.streaming.worker_actor import ParallelWorkerStageActor

from .workers import TIMEOUT_S, context, invocation

Handler = Callable[[StreamingStageInvocation], Mapping[str, object]]
Maker = Callable[..., ThreadActor]

CANCELLED = StreamingSessionCloseReason.CANCELLED


def _local(handler: Handler, **options: Any) -> ThreadActor:
    return LocalStageActor(handler, **options)


class InProcessWorker:
    """A worker with ordered results whose results are fetched later."""

    failed, failure_reason, closed = False, None, False

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def run(self, work: StreamingStageInvocation) -> Callable[[], Mapping[str, object]]:
        return lambda: self._handler(work)

    def close(self) -> None:
        self.closed = True


def _worker(handler: Handler, name: str = "", **options: Any) -> ThreadActor:
    worker = InProcessWorker(handler)
    return ParallelWorkerStageActor(worker, "run", lambda work: ((work,), {}), lambda made, work: made, **options)


def _batched(handler: Handler, **options: Any) -> ThreadActor:
    return BatchedStageActor(lambda batch: [handler(work) for work in batch], max_batch=1, **options)


MAKERS: dict[str, Maker] = {"local": _local, "worker": _worker, "batched": _batched}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS.keys())
def make(request: pytest.FixtureRequest) -> Iterator[Maker]:
    """Makes actors that are closed at the end."""
    made: list[ThreadActor] = []

    def maker(handler: Handler, **options: Any) -> ThreadActor:
        made.append(request.param(handler, **options))
        return made[-1]

    yield maker
    for actor in made:
        actor.close(0.0)


class Gate:
    """A handler that signals its entry, and returns when the test says so."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.leave = threading.Semaphore(0)
        self.handled: list[int] = []

    def __call__(self, work: StreamingStageInvocation) -> Mapping[str, object]:
        self.entered.release()
        assert self.leave.acquire(timeout=TIMEOUT_S)
        self.handled.append(work.key.sequence_id)
        return {"n": work.key.sequence_id}

    def await_entry(self) -> None:
        assert self.entered.acquire(timeout=TIMEOUT_S)


def echo(work: StreamingStageInvocation) -> Mapping[str, object]:
    return {"n": work.key.sequence_id, **work.inputs}


def test_an_invocation_is_answered(make: Maker) -> None:
    assert make(echo).submit(invocation(3, x="y")).result(TIMEOUT_S) == {"n": 3, "x": "y"}


def test_all_runs_on_one_thread_that_is_not_the_callers(make: Maker) -> None:
    threads: set[int] = set()

    def note(*_: object) -> Mapping[str, object]:
        threads.add(threading.get_ident())
        return {}

    actor = make(note, mailbox_capacity=10, session_closer=note)
    wait_for([actor.submit(invocation(number)) for number in range(10)], TIMEOUT_S)
    actor.close_session(context(), CANCELLED)
    assert len(threads) == 1 and threading.get_ident() not in threads


def test_the_order_is_that_of_submission(make: Maker) -> None:
    gate = Gate()
    actor = make(gate, mailbox_capacity=8)
    futures = [actor.submit(invocation(number)) for number in range(9)]
    gate.leave.release(9)
    assert [future.result(TIMEOUT_S)["n"] for future in futures] == list(range(9)) == gate.handled


@pytest.mark.parametrize("capacity", [1, 3])
def test_one_is_served_and_capacity_wait(make: Maker, capacity: int) -> None:
    gate = Gate()
    actor = make(gate, mailbox_capacity=capacity)
    futures = [actor.submit(invocation(number)) for number in range(capacity + 1)]
    gate.await_entry()
    with pytest.raises(StreamingActorBusyError, match="mailbox"):
        actor.submit(invocation(99))
    assert actor.health() == StreamingActorHealth(StreamingActorState.RUNNING, capacity + 1)
    gate.leave.release()
    futures[0].result(TIMEOUT_S)
    futures.append(actor.submit(invocation(100)))  # room again as soon as there is an answer
    gate.leave.release(capacity + 1)
    assert [future.result(TIMEOUT_S)["n"] for future in futures] == [*range(capacity + 1), 100]


def test_there_is_room_again_in_the_callback_of_an_answer(make: Maker) -> None:
    actor = make(echo)
    chained: Future[Any] = Future()
    count = 0

    def again(_: Future[Any]) -> None:
        nonlocal count
        count += 1
        if count == 50:
            chained.set_result(None)
            return
        for _more in range(2 if count == 1 else 1):
            actor.submit(invocation(count)).add_done_callback(again)

    actor.submit(invocation()).add_done_callback(again)
    chained.result(TIMEOUT_S)


@pytest.mark.parametrize(
    "error", [ValueError("bad"), SystemExit(2), KeyboardInterrupt(), StopIteration(), GeneratorExit()]
)
def test_whatever_a_handler_raises_is_its_answer_and_no_more(make: Maker, error: BaseException) -> None:
    def handler(work: StreamingStageInvocation) -> Mapping[str, object]:
        if work.key.sequence_id == 0:
            raise error
        return {}

    actor = make(handler)
    assert actor.submit(invocation(0)).exception(TIMEOUT_S) is error
    assert actor.submit(invocation(1)).result(TIMEOUT_S) == {}
    assert actor.health() == StreamingActorHealth(StreamingActorState.RUNNING, 0)


def test_an_answer_that_is_no_mapping_is_an_error(make: Maker) -> None:
    actor = make(lambda work: None)  # type: ignore[arg-type, return-value]
    assert isinstance(actor.submit(invocation()).exception(TIMEOUT_S), InvalidStageOutputError)


def test_a_stage_that_is_lost_fails_the_actor(make: Maker) -> None:
    gate, closed = Gate(), []

    def handler(work: StreamingStageInvocation) -> Mapping[str, object]:
        gate(work)
        raise StreamingActorFailedError("the device is lost")

    actor = make(handler, session_closer=lambda *_: closed.append(1))
    first, second = actor.submit(invocation(0)), actor.submit(invocation(1))
    gate.leave.release()
    for future in (first, second):
        assert isinstance(future.exception(TIMEOUT_S), StreamingActorFailedError)
    assert gate.handled == [0]
    assert actor.health() == StreamingActorHealth(StreamingActorState.FAILED, 0, "the device is lost")
    with pytest.raises(StreamingActorFailedError, match="the device is lost"):
        actor.submit(invocation(2))
    actor.close_session(context(), StreamingSessionCloseReason.FAILED)
    assert closed == [1]


# -- begin


def test_work_begins_right_before_its_handler(make: Maker) -> None:
    gate = Gate()
    actor = make(lambda work: {**gate(work), **work.inputs}, mailbox_capacity=2)
    newest = {"control": "old"}
    futures = [
        actor.submit(replace(invocation(number, control="at admission"), sample=lambda: dict(newest)))
        for number in range(2)
    ]
    gate.await_entry()
    newest["control"] = "new"
    gate.leave.release(2)
    assert [future.result(TIMEOUT_S)["control"] for future in futures] == ["old", "new"]


def test_work_whose_session_has_ended_never_starts(make: Maker) -> None:
    ended = SessionEndedError("it is over")

    def refuse() -> Mapping[str, object]:
        raise ended

    gate = Gate()
    actor = make(gate)
    assert actor.submit(replace(invocation(), sample=refuse)).exception(TIMEOUT_S) is ended
    assert not gate.entered.acquire(blocking=False)


def test_cancelled_work_never_starts(make: Maker) -> None:
    gate = Gate()
    actor = make(gate, mailbox_capacity=2)
    first, second, third = (actor.submit(invocation(number)) for number in range(3))
    gate.await_entry()
    assert second.cancel() and not first.cancel()
    gate.leave.release(2)
    third.result(TIMEOUT_S)
    assert gate.handled == [0, 2]
    assert actor.health().pending_invocations == 0


# -- errands


def test_a_barrier_waits_for_what_was_taken(make: Maker) -> None:
    gate = Gate()
    actor = make(gate)
    future = actor.submit(invocation())
    with pytest.raises(TimeoutError, match="mailbox"):
        actor.barrier(0.01)
    gate.leave.release()
    actor.barrier(TIMEOUT_S)
    assert future.done()


def test_cleanup_follows_the_work_even_with_a_full_mailbox(make: Maker) -> None:
    gate = Gate()
    closed: list[tuple[StreamingSessionContext, StreamingSessionCloseReason]] = []
    actor = make(gate, session_closer=lambda *args: closed.append((*args, tuple(gate.handled))))
    futures = [actor.submit(invocation(number)) for number in range(2)]
    with pytest.raises(StreamingActorBusyError):
        actor.submit(invocation(2))
    with pytest.raises(TimeoutError, match="session_id='a'"):
        actor.close_session(context(), CANCELLED, timeout=0.01)
    gate.leave.release(2)
    actor.close_session(context(), CANCELLED, timeout=TIMEOUT_S)  # the one that is under way, not a second
    wait_for(futures, TIMEOUT_S)
    assert closed == [(context(), CANCELLED, (0, 1))]


def test_the_error_of_a_closer_is_raised_in_its_caller(make: Maker) -> None:
    calls = []

    def closer(*_: object) -> None:
        calls.append(1)
        raise SystemExit("stuck buffer")

    actor = make(echo, session_closer=closer)
    for _ in range(2):
        with pytest.raises(SystemExit, match="stuck buffer"):
            actor.close_session(context(), CANCELLED)
    assert len(calls) == 2
    assert actor.submit(invocation()).result(TIMEOUT_S) == {"n": 0}


def test_without_a_closer_there_is_nothing_to_do(make: Maker) -> None:
    make(echo).close_session(context(), CANCELLED)


def test_an_actor_does_not_wait_for_itself(make: Maker) -> None:
    actors: list[ThreadActor] = []

    def handler(work: StreamingStageInvocation) -> Mapping[str, object]:
        (actors[0].barrier if work.key.sequence_id else lambda: actors[0].close_session(context(), CANCELLED))()
        return {}

    actors.append(make(handler))
    for number in range(2):
        assert "another thread" in str(actors[0].submit(invocation(number)).exception(TIMEOUT_S))


# -- close


def test_close_works_off_what_was_taken(make: Maker) -> None:
    actor = make(echo, mailbox_capacity=5)
    futures = [actor.submit(invocation(number)) for number in range(6)]
    actor.close()
    assert [future.result(0)["n"] for future in futures] == list(range(6))
    assert actor.health() == StreamingActorHealth(StreamingActorState.CLOSED, 0)
    actor.close()
    for refused in (
        lambda: actor.submit(invocation()),
        actor.barrier,
        lambda: actor.close_session(context(), CANCELLED),
    ):
        with pytest.raises(StreamingActorFailedError, match="closed"):
            refused()


def test_close_does_not_wait_for_a_stuck_handler(make: Maker) -> None:
    gate = Gate()
    actor = make(gate)
    stuck, waiting = actor.submit(invocation(0)), actor.submit(invocation(1))
    gate.await_entry()
    actor.close(0.01)
    for future in (stuck, waiting):
        assert isinstance(future.exception(0), StreamingActorFailedError)
    assert actor.health() == StreamingActorHealth(StreamingActorState.CLOSED, 0)
    gate.leave.release(2)
    actor._thread.join(TIMEOUT_S)
    assert not actor._thread.is_alive() and gate.handled == [0]


def test_a_waiting_closer_fails_when_the_actor_is_abandoned(make: Maker) -> None:
    gate = Gate()
    actor = make(gate, session_closer=lambda *_: None)
    actor.submit(invocation())
    gate.await_entry()
    with pytest.raises(TimeoutError):
        actor.close_session(context(), CANCELLED, timeout=0.0)
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            actor.close_session(context(), CANCELLED, timeout=TIMEOUT_S)
        except StreamingActorFailedError as error:
            errors.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    actor.close(0.01)
    waiter.join(TIMEOUT_S)
    assert len(errors) == 1
    gate.leave.release()


def test_a_handler_may_close_its_own_actor(make: Maker) -> None:
    actors: list[ThreadActor] = []

    def handler(work: StreamingStageInvocation) -> Mapping[str, object]:
        actors[0].close()
        return {"closed": True}

    actors.append(make(handler))
    assert actors[0].submit(invocation()).result(TIMEOUT_S) == {"closed": True}
    actors[0]._thread.join(TIMEOUT_S)
    assert not actors[0]._thread.is_alive()


def test_a_callback_that_fails_is_logged(make: Maker, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Future[Any]) -> None:
        raise SystemExit("not mine to end")

    gate = Gate()
    actor = make(gate)
    with caplog.at_level(logging.ERROR):
        actor.submit(invocation()).add_done_callback(fail)
        gate.leave.release()
        actor.barrier(TIMEOUT_S)
    assert "callback" in caplog.text
    gate.leave.release()
    assert actor.submit(invocation(1)).result(TIMEOUT_S) == {"n": 1}


def test_a_thread_holds_nothing_of_work_that_is_done(make: Maker) -> None:
    import gc
    import weakref

    class Latent:
        pass

    latent = Latent()
    gone = threading.Event()
    weakref.finalize(latent, gone.set)
    actor = make(lambda work: {})
    actor.submit(invocation(latent=latent)).result(TIMEOUT_S)
    del latent
    actor.barrier()
    gc.collect()
    assert gone.wait(TIMEOUT_S)


@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, "2"])
def test_the_capacity_is_checked(make: Maker, capacity: object) -> None:
    with pytest.raises(ValueError, match="mailbox_capacity must be an integer of 1 or more"):
        make(echo, mailbox_capacity=capacity)


def test_functions_are_checked(make: Maker) -> None:
    with pytest.raises(ValueError, match="session_closer must be a function, got 3"):
        make(echo, session_closer=3)
    for kind in (LocalStageActor, BatchedStageActor):
        with pytest.raises(ValueError, match="handler must be a function, got None"):
            kind(None)


Batch = list[StreamingStageInvocation]


class Model:
    """A batch handler that is held at its first call, so that a test can fill the mailbox."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.entered = threading.Event()
        self.go = threading.Event()
        self.fails_for: set[str] = set()
        self.error: BaseException = ValueError("cursed")

    def __call__(self, batch: Batch) -> list[Mapping[str, object] | BaseException]:
        self.batches.append([f"{work.key.session_id}{work.key.sequence_id}" for work in batch])
        if not self.entered.is_set():
            self.entered.set()
            assert self.go.wait(TIMEOUT_S)
        if any(work.key.session_id in self.fails_for for work in batch):
            raise self.error
        return [{"session": work.key.session_id} for work in batch]


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def actor(model: Model) -> Iterator[BatchedStageActor]:
    made = BatchedStageActor(model, max_batch=4, mailbox_capacity=8)
    yield made
    model.go.set()
    made.close(TIMEOUT_S)


def submit_behind(actor: BatchedStageActor, model: Model, names: str) -> list[Future[Any]]:
    """Submit these sessions' invocations while the first batch is held, then let it go."""
    held = actor.submit(invocation(0, "first"))
    assert model.entered.wait(TIMEOUT_S)
    counts: dict[str, int] = {}
    futures = []
    for name in names:
        futures.append(actor.submit(invocation(counts.get(name, 0), name)))
        counts[name] = counts.get(name, 0) + 1
    model.go.set()
    held.result(TIMEOUT_S)
    return futures


def results(futures: list[Future[Any]]) -> list[Any]:
    return [future.exception(TIMEOUT_S) or future.result()["session"] for future in futures]


def test_what_waits_goes_together_up_to_the_maximum(actor: BatchedStageActor, model: Model) -> None:
    assert results(submit_behind(actor, model, "abcdef")) == list("abcdef")
    assert model.batches == [["first0"], ["a0", "b0", "c0", "d0"], ["e0", "f0"]]


def test_a_batch_holds_one_of_a_session_and_order_stays(actor: BatchedStageActor, model: Model) -> None:
    assert results(submit_behind(actor, model, "abacb")) == list("abacb")
    assert model.batches == [["first0"], ["a0", "b0"], ["a1", "c0", "b1"]]


def test_a_lone_one_does_not_wait(actor: BatchedStageActor, model: Model) -> None:
    model.go.set()
    assert results([actor.submit(invocation(0, "a"))]) == ["a"]
    assert results([actor.submit(invocation(0, "b"))]) == ["b"]
    assert model.batches == [["a0"], ["b0"]]


def test_the_mailbox_holds_capacity_beside_a_batch(actor: BatchedStageActor, model: Model) -> None:
    futures = [actor.submit(invocation(0, f"s{number}")) for number in range(12)]
    with pytest.raises(StreamingActorBusyError):
        actor.submit(invocation(0, "late"))
    model.go.set()
    assert len(results(futures)) == 12


def test_an_exception_in_the_list_is_that_items_alone() -> None:
    error = ValueError("not b")

    def handler(batch: Batch) -> list[Mapping[str, object] | BaseException]:
        return [error if work.key.session_id == "b" else {"session": work.key.session_id} for work in batch]

    actor = BatchedStageActor(handler, max_batch=4, linger_seconds=TIMEOUT_S)
    assert results([actor.submit(invocation(0, name)) for name in "abcd"]) == ["a", error, "c", "d"]
    actor.close()


@pytest.mark.parametrize("culprits", ["a", "c", "d", "bd", "abcd"])
def test_a_handler_that_raises_costs_the_culprits_alone(actor: BatchedStageActor, model: Model, culprits: str) -> None:
    model.fails_for = set(culprits)
    futures = submit_behind(actor, model, "abcd")
    assert results(futures) == [model.error if name in culprits else name for name in "abcd"]
    assert len(model.batches) <= 1 + 7


def test_a_lost_stage_is_not_searched_for_a_culprit(actor: BatchedStageActor, model: Model) -> None:
    model.fails_for, model.error = {"b"}, StreamingActorFailedError("gone")
    futures = submit_behind(actor, model, "abcd")
    assert results(futures) == [model.error] * 4
    assert len(model.batches) == 2


def test_too_few_answers_are_an_error() -> None:
    actor = BatchedStageActor(lambda batch: [])
    assert isinstance(actor.submit(invocation()).exception(TIMEOUT_S), InvalidStageOutputError)
    actor.close()


def test_cleanup_stays_between_the_work_before_and_after(actor: BatchedStageActor, model: Model) -> None:
    actor.submit(invocation(0, "first"))
    assert model.entered.wait(TIMEOUT_S)
    actor._session_closer = lambda closed, reason: model.batches.append([f"close {closed.session_id}"])
    first = actor.submit(invocation(0, "a"))
    with pytest.raises(TimeoutError):
        actor.close_session(context("x"), StreamingSessionCloseReason.CLOSED, timeout=0.0)
    second = actor.submit(invocation(0, "b"))
    model.go.set()
    assert results([first, second]) == ["a", "b"]
    assert model.batches == [["first0"], ["a0"], ["close x"], ["b0"]]


def test_lingering_gathers_and_ends_when_the_batch_is_full() -> None:
    model = Model()
    model.go.set()
    actor = BatchedStageActor(model, max_batch=2, linger_seconds=TIMEOUT_S)
    assert results([actor.submit(invocation(0, name)) for name in "abcd"]) == list("abcd")
    assert model.batches == [["a0", "b0"], ["c0", "d0"]]
    lone = actor.submit(invocation(0, "e"))
    actor.close(TIMEOUT_S)  # does not wait for company
    assert lone.done() and model.batches[-1] == ["e0"]


@pytest.mark.parametrize("arguments", [{"max_batch": 0}, {"linger_seconds": -1.0}, {"linger_seconds": float("nan")}])
def test_arguments_are_checked(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(arguments))} must be"):
        BatchedStageActor(lambda batch: [], **arguments)
