"""Runners that overlap one task with the caller's own work: synchronously, on a thread, or on a CUDA stream.

All runners have the same contract, so that the synchronous one can replace the others:

* at most one task is pending; a further ``submit`` raises :class:`OverlapError`;
* ``wait`` returns the result of the task or raises its error;
* after ``wait`` the runner accepts the next task, whether or not the last one failed.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Literal, Protocol

from ...core.errors import describe, reraise_interrupt
from ._torch import Fallback, OverlapError, has_cuda, need_torch
from .cuda_graph import tensors

_logger = logging.getLogger(__name__)


class OverlapRunner(Protocol):
    """The contract of all runners. Not thread-safe."""

    @property
    def pending(self) -> bool:
        """Whether a task was submitted and not waited for."""

    def submit(self, work: Callable[[], Any]) -> None:
        """Start a task. Errors of the task are raised by :meth:`wait`.

        Raises:
            OverlapError: a task is pending, or the runner is closed.
        """

    def wait(self) -> Any:
        """Wait for the task and return its result, or raise its error.

        Raises:
            OverlapError: no task is pending.
        """

    def close(self) -> None:
        """Wait for a pending task, log its error if it fails, and refuse further tasks. Idempotent."""


class _Outcome:
    """Result or error of a task."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.value: Any = None
        self._error: BaseException | None = None
        try:
            self.value = work()
        except BaseException as error:
            reraise_interrupt(error)
            self._error = error

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self.value


class _OneTask(ABC):
    """State shared by all runners. Subclasses start the task and obtain its outcome."""

    def __init__(self) -> None:
        self._pending = False
        self._closed = False

    @property
    def pending(self) -> bool:
        return self._pending

    def submit(self, work: Callable[[], Any]) -> None:
        if self._closed:
            raise OverlapError("this runner is closed: make a new one")
        if self._pending:
            raise OverlapError("a task is pending: wait() for it before the next submit()")
        self._start(work)
        self._pending = True

    def wait(self) -> Any:
        if not self._pending:
            raise OverlapError("no task is pending: submit() one first")
        outcome = self._outcome()
        self._pending = False
        return outcome.result()

    def close(self) -> None:
        if self._pending:
            try:
                self.wait()
            except Exception as error:
                _logger.warning(
                    "a pending task failed while its runner was closed: %s", describe(error), exc_info=error
                )
        if not self._closed:
            self._closed = True
            self._release()

    @abstractmethod
    def _start(self, work: Callable[[], Any]) -> None:
        """Start the task without waiting for its end."""

    @abstractmethod
    def _outcome(self) -> _Outcome:
        """Wait for the task and return its outcome."""

    def _release(self) -> None:
        """Release the resources of the runner; none by default."""
        return None


class SynchronousRunner(_OneTask):
    """Runs the task inside ``submit``, without overlap. The reference for the other runners."""

    def __init__(self) -> None:
        super().__init__()
        self._finished: _Outcome | None = None

    def _start(self, work: Callable[[], Any]) -> None:
        self._finished = _Outcome(work)

    def _outcome(self) -> _Outcome:
        assert self._finished is not None
        finished, self._finished = self._finished, None
        return finished


class ThreadRunner(_OneTask):
    """Runs the task on a dedicated daemon thread, for work that releases the GIL (NumPy, decoding, files).

    The modes of torch (``inference_mode``, autocast, the current stream) are per thread: the task sets those it needs.
    """

    def __init__(self, name: str = "overlap") -> None:
        super().__init__()
        self._tasks: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._outcomes: SimpleQueue[_Outcome] = SimpleQueue()
        threading.Thread(target=_run_tasks, args=(self._tasks, self._outcomes), name=name, daemon=True).start()

    def _start(self, work: Callable[[], Any]) -> None:
        self._tasks.put(work)

    def _outcome(self) -> _Outcome:
        return self._outcomes.get()

    def _release(self) -> None:
        self._tasks.put(None)


def _run_tasks(tasks: SimpleQueue[Callable[[], Any] | None], outcomes: SimpleQueue[_Outcome]) -> None:
    while (work := tasks.get()) is not None:
        outcomes.put(_Outcome(work))
        del work  # do not keep the task alive while waiting for the next one


class StreamRunner(_OneTask):
    """Enqueues the task on a dedicated CUDA stream, after the work already enqueued on the caller's current stream.

    ``wait`` does not block the host: it orders the caller's current stream after the task. Tensors returned by the
    task, including those inside tuples, lists and dicts, may then be used and freed on that stream. Device errors are
    raised at the next synchronization, as usual with CUDA.

    Raises:
        TorchMissingError: torch is not installed.
        RuntimeError: torch finds no CUDA device; :func:`overlap_runner` falls back instead.
    """

    def __init__(self, device: Any = "cuda") -> None:
        super().__init__()
        torch = need_torch("StreamRunner")
        if not has_cuda(torch):
            raise RuntimeError("StreamRunner needs a CUDA device, and torch finds none: use overlap_runner('stream')")
        self._torch = torch
        self._device = torch.device(device)
        self._stream = torch.cuda.Stream(self._device)
        self._event = torch.cuda.Event()
        self._running: tuple[Callable[[], Any], _Outcome] | None = None

    def _start(self, work: Callable[[], Any]) -> None:
        torch = self._torch
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            outcome = _Outcome(work)
        self._event.record(self._stream)
        self._running = (work, outcome)  # keeps the tensors alive that the enqueued work reads

    def _outcome(self) -> _Outcome:
        assert self._running is not None
        current = self._torch.cuda.current_stream(self._device)
        current.wait_event(self._event)
        (_, outcome), self._running = self._running, None
        for tensor in tensors(self._torch, outcome.value):
            if tensor.is_cuda:
                tensor.record_stream(current)
        return outcome


def overlap_runner(kind: Literal["synchronous", "thread", "stream"], device: Any = "cuda") -> OverlapRunner:
    """Create a runner. Without a CUDA device, ``stream`` falls back to ``synchronous`` and logs a warning.

    Raises:
        TorchMissingError: ``stream`` needs torch, which is not installed.
        ValueError: the kind is unknown.
    """
    if kind == "synchronous":
        return SynchronousRunner()
    if kind == "thread":
        return ThreadRunner()
    if kind == "stream":
        if has_cuda(need_torch("a stream runner")):
            return StreamRunner(device)
        Fallback(_logger, "overlap on a CUDA stream").report("there is no CUDA device")
        return SynchronousRunner()
    raise ValueError(f"kind must be 'synchronous', 'thread' or 'stream', not {kind!r}")
