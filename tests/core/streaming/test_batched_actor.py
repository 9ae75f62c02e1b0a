from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from realtime_engine.core.streaming.batched_actor import BatchedStageActor
from realtime_engine.core.streaming.errors import (
    InvalidStageOutputError,
    StreamingActorBusyError,
    StreamingActorFailedError,
)
from realtime_engine.core.streaming.tasks import StreamingSessionCloseReason, StreamingStageInvocation

from .workers import PATIENCE_S, context, invocation

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
            assert self.go.wait(PATIENCE_S)
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
    made.close(PATIENCE_S)


def submit_behind(actor: BatchedStageActor, model: Model, names: str) -> list[Future[Any]]:
    """Submit these sessions' invocations while the first batch is held, then let it go."""
    held = actor.submit(invocation(0, "first"))
    assert model.entered.wait(PATIENCE_S)
    counts: dict[str, int] = {}
    futures = []
    for name in names:
        futures.append(actor.submit(invocation(counts.get(name, 0), name)))
        counts[name] = counts.get(name, 0) + 1
    model.go.set()
    held.result(PATIENCE_S)
    return futures


def results(futures: list[Future[Any]]) -> list[Any]:
    return [future.exception(PATIENCE_S) or future.result()["session"] for future in futures]


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

    actor = BatchedStageActor(handler, max_batch=4, linger_seconds=PATIENCE_S)
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
    assert isinstance(actor.submit(invocation()).exception(PATIENCE_S), InvalidStageOutputError)
    actor.close()


def test_cleanup_stays_between_the_work_before_and_after(actor: BatchedStageActor, model: Model) -> None:
    actor.submit(invocation(0, "first"))
    assert model.entered.wait(PATIENCE_S)
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
    actor = BatchedStageActor(model, max_batch=2, linger_seconds=PATIENCE_S)
    assert results([actor.submit(invocation(0, name)) for name in "abcd"]) == list("abcd")
    assert model.batches == [["a0", "b0"], ["c0", "d0"]]
    lone = actor.submit(invocation(0, "e"))
    actor.close(PATIENCE_S)  # does not wait for company
    assert lone.done() and model.batches[-1] == ["e0"]


@pytest.mark.parametrize("arguments", [{"max_batch": 0}, {"linger_seconds": -1.0}, {"linger_seconds": float("nan")}])
def test_arguments_are_checked(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(arguments))} must be"):
        BatchedStageActor(lambda batch: [], **arguments)
