"""An actor for a worker, such as an object in its own process."""

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
    """Calls a method of a worker for each invocation. The worker must belong to no other actor.

    Args:
        worker: an object with the attributes ``failed``, ``failure_reason``, ``closed`` and ``close()`` of
            :class:`~.process_worker.ProcessWorker`, all of them optional. While the actor is idle it checks them, and
            fails when the worker has.
        method_name: the method. If it returns a callable, that is called for the result.
        input_builder: invocation -> ``(args, kwargs)`` of the method.
        output_builder: result, invocation -> ``{artifact: value}``.
        mailbox_capacity: invocations that may wait while one runs.
        close_worker: whether closing the actor closes the worker.
        session_closer: releases the state of a session; called between two invocations.

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
        """Why the worker has failed or is closed; ``None`` while it is usable."""
        if getattr(self._worker, "failed", False):
            return str(getattr(self._worker, "failure_reason", None) or "the worker has failed")
        return "the worker is closed" if getattr(self._worker, "closed", False) else None

    def submit(self, invocation: StreamingStageInvocation) -> Future[Mapping[str, object]]:
        """Queue one invocation without waiting.

        Raises:
            StreamingActorBusyError: the mailbox is full; nothing was queued.
            StreamingActorFailedError: actor or worker is closed or has failed.
        """
        self._check_worker()
        return super().submit(invocation)

    def health(self) -> StreamingActorHealth:
        """The state now, without waiting: ``FAILED`` if the worker has failed, ``CLOSED`` if it is closed."""
        own = super().health()
        if getattr(self._worker, "failed", False):
            reason = str(getattr(self._worker, "failure_reason", None) or "the worker has failed")
            return StreamingActorHealth(StreamingActorState.FAILED, own.pending_invocations, reason)
        if own.state is StreamingActorState.RUNNING and getattr(self._worker, "closed", False):
            return StreamingActorHealth(StreamingActorState.CLOSED, own.pending_invocations)
        return own

    def close(self, timeout: float = 5.0) -> None:
        """Accept no more work, complete what was submitted, and close the worker if ``close_worker`` is set.

        After ``timeout`` seconds all incomplete work fails with :class:`StreamingActorFailedError`, and the worker is
        closed nevertheless.
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
