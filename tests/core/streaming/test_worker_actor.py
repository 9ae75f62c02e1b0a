from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from realtime_engine.core.streaming.errors import StreamingActorFailedError
from realtime_engine.core.streaming.process_worker import ProcessWorker
from realtime_engine.core.streaming.types import StreamingActorState
from realtime_engine.core.streaming.worker_actor import ParallelWorkerStageActor

from .workers import TIMEOUT_S, Calculator, invocation


def make(worker: object, method: str = "double", **options: bool) -> ParallelWorkerStageActor:
    return ParallelWorkerStageActor(
        worker,
        method,
        lambda work: ((work.inputs["x"],), {}),
        lambda result, work: {"y": result, "n": work.key.sequence_id},
        **options,
    )


def test_a_process_runs_the_stage() -> None:
    worker = ProcessWorker(Calculator)
    actor = make(worker)
    futures = [actor.submit(invocation(number, x=np.full((60, 100), number))) for number in range(2)]
    for number, future in enumerate(futures):
        outputs = future.result(TIMEOUT_S)
        assert outputs["n"] == number and (outputs["y"] == 2 * number).all()  # type: ignore[attr-defined]
    actor.close()
    assert worker.closed and actor.health().state is StreamingActorState.CLOSED


def test_a_process_that_dies_fails_the_actor() -> None:
    worker = ProcessWorker(Calculator)
    actor = ParallelWorkerStageActor(worker, "die", lambda work: ((), {}), lambda result, work: {})
    assert isinstance(actor.submit(invocation()).exception(TIMEOUT_S), StreamingActorFailedError)
    health = actor.health()
    assert health.state is StreamingActorState.FAILED and health.failure_reason == "its process died (signal 9)"
    with pytest.raises(StreamingActorFailedError, match="signal 9"):
        actor.submit(invocation(1))
    actor.close()


def kill_worker(worker: Any) -> None:
    os.kill(worker.pid, signal.SIGKILL)


def close_worker(worker: Any) -> None:
    worker.close()


@pytest.mark.parametrize(("end", "reason"), [(kill_worker, r"signal 9"), (close_worker, "the worker is closed")])
def test_an_idle_actor_reports_that_its_worker_ended(end: Callable[[Any], None], reason: str) -> None:
    worker, reasons, reported = ProcessWorker(Calculator), [], threading.Event()
    actor = make(worker)

    def on_failed(reason: str) -> None:
        reasons.append(reason)
        reported.set()

    actor.add_failure_callback(on_failed)
    end(worker)
    assert reported.wait(TIMEOUT_S)
    actor.add_failure_callback(on_failed)  # it has failed: called at once
    assert len(reasons) == 2 and reason in reasons[0] and reasons[0] == reasons[1]
    with pytest.raises(StreamingActorFailedError, match=reason):
        actor.submit(invocation())
    actor.close()


class Worker:
    def __init__(self) -> None:
        self.failed = False
        self.failure_reason: str | None = None
        self.closed = False

    def double(self, x: int) -> int:
        return 2 * x

    def close(self) -> None:
        self.closed = True


def test_a_failed_worker_is_not_called() -> None:
    worker = Worker()
    actor = make(worker)
    worker.failed = True
    assert actor.health().failure_reason == "the worker has failed"
    with pytest.raises(StreamingActorFailedError, match="the worker has failed"):
        actor.submit(invocation(x=1))
    actor.close()


def test_a_worker_that_was_closed_by_others_closes_the_actor() -> None:
    worker = Worker()
    actor = make(worker)
    worker.close()
    assert actor.health().state is StreamingActorState.CLOSED
    with pytest.raises(StreamingActorFailedError, match="closed"):
        actor.submit(invocation(x=1))
    actor.close()


def test_a_worker_may_outlive_its_actor() -> None:
    worker = Worker()
    actor = make(worker, close_worker=False)
    future = actor.submit(invocation(x=4))
    actor.close()
    assert future.result(0)["y"] == 8 and not worker.closed


def test_the_method_is_checked() -> None:
    with pytest.raises(ValueError, match="method_name must be the name of a method .* got 'triple'"):
        make(Worker(), "triple")
    for builders in ((None, dict), (dict, "y")):
        with pytest.raises(ValueError, match="put_builder must be a function"):
            ParallelWorkerStageActor(Worker(), "double", *builders)
