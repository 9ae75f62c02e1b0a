"""An actor that drives a worker with ordered results, such as a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeAlias

from .actors import LocalStageActor, SessionCloser
from .errors import StreamingActorFailedError
from .specs import check_callable
from .types import StreamingActorHealth, StreamingActorState, StreamingStageInvocation

__all__ = ["ParallelWorkerStageActor"]

InputBuilder: TypeAlias = Callable[[StreamingStageInvocation], "tuple[tuple[Any, ...], Mapping[str, Any]]"]
OutputBuilder: TypeAlias = Callable[[Any, StreamingStageInvocation], Mapping[str, object]]


class ParallelWorkerStageActor(LocalStageActor):
    """The one owner of a worker, which gives its results in the order of its calls.

    Args:
        worker: has ``failed``, ``failure_reason``, ``closed`` and ``close()``, as
            :class:`~.process_worker.ProcessWorker` does; those that it lacks count as never failed, never closed,
            nothing to close.
        method_name: what is called for each invocation. If its result is callable, that is called for the result.
        input_builder: invocation -> ``(args, kwargs)`` of the method.
        output_builder: result, invocation -> ``{artifact: value}``.
        mailbox_capacity: invocations that may wait while one is run.
        close_worker: whether closing the actor closes the worker.
        session_closer: lets go of what the stage holds of a session; called between two invocations.

    Raises:
        ValueError: naming the argument.
    """

    backend_check_s = 0.05

    def __init__(
        self,
        worker: Any,
        method_name: str,
        input_builder: InputBuilder,
        output_builder: OutputBuilder,
        mailbox_capacity: int = 1,
        close_worker: bool = True,
        session_closer: SessionCloser | None = None,
    ) -> None:
        check_callable("input_builder", input_builder)
        check_callable("output_builder", output_builder)
        if not isinstance(method_name, str) or not callable(getattr(worker, method_name, None)):
            raise ValueError(f"method_name must be the name of a method of {worker!r}, got {method_name!r}")
        self._worker = worker
        self._method_name = method_name
        self._input_builder = input_builder
        self._output_builder = output_builder
        self._close_worker = close_worker
        super().__init__(self._call_worker, mailbox_capacity, f"worker-stage-actor-{method_name}", session_closer)

    @property
    def worker(self) -> Any:
        """The worker that this actor owns."""
        return self._worker

    def lost_backend(self) -> str | None:
        """Why the worker can do nothing more."""
        if getattr(self._worker, "failed", False):
            return str(getattr(self._worker, "failure_reason", None) or "the worker has failed")
        return "the worker is closed" if getattr(self._worker, "closed", False) else None

    def submit(self, invocation: StreamingStageInvocation) -> Future[Mapping[str, object]]:
        """Take one invocation without waiting.

        Raises:
            StreamingActorBusyError: the mailbox is full; nothing was taken.
            StreamingActorFailedError: actor or worker is closed or has failed.
        """
        self._check_worker()
        return super().submit(invocation)

    def health(self) -> StreamingActorHealth:
        """How it is, without waiting: ``FAILED`` if the worker has failed, ``CLOSED`` if it is closed."""
        own = super().health()
        if getattr(self._worker, "failed", False):
            reason = str(getattr(self._worker, "failure_reason", None) or "the worker has failed")
            return StreamingActorHealth(StreamingActorState.FAILED, own.pending_invocations, reason)
        if own.state is StreamingActorState.RUNNING and getattr(self._worker, "closed", False):
            return StreamingActorHealth(StreamingActorState.CLOSED, own.pending_invocations)
        return own

    def close(self, timeout: float = 5.0) -> None:
        """Take nothing more, work off what was taken, and close the worker if it is this actor's to close.

        After ``timeout`` seconds whatever is left is answered with :class:`StreamingActorFailedError`, and the worker
        is closed all the same.
        """
        super().close(timeout)
        close = getattr(self._worker, "close", None)
        if self._close_worker and callable(close):
            close()

    def _call_worker(self, invocation: StreamingStageInvocation) -> Mapping[str, object]:
        args, kwargs = self._input_builder(invocation)
        result = getattr(self._worker, self._method_name)(*args, **kwargs)
        if callable(result):
            result = result()
        return self._output_builder(result, invocation)

    def _check_worker(self) -> None:
        health = self.health()
        if health.state is StreamingActorState.FAILED:
            raise StreamingActorFailedError(f"{self._name!r} has failed: {health.failure_reason}")
        if health.state is StreamingActorState.CLOSED:
            raise StreamingActorFailedError(f"{self._name!r} is closed")
