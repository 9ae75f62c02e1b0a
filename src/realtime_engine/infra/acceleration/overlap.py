"""One task beside the caller's own work: at once, on a thread of the host, or on a CUDA stream.

All three keep one contract, so that the plain one can stand in for the others:

* one task is pending at most; ``submit`` while one is raises :class:`OverlapError`;
* what the task returned comes out of ``wait``, and so does what it raised;
* after ``wait`` the runner takes the next task, whatever became of the last.
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
    """What all runners do. To be used from one thread."""

    @property
    def pending(self) -> bool:
        """Whether there is a task to wait for, ended or not."""

    def submit(self, work: Callable[[], Any]) -> None:
        """Begin a task. Never raises what the task raises.

        Raises:
            OverlapError: a task is pending, or the runner is closed.
        """

    def wait(self) -> Any:
        """The task's result, or its error raised; nothing is pending afterwards.

        Raises:
            OverlapError: no task is pending.
        """

    def close(self) -> None:
        """Let a pending task end, log its error, and take no more. Closing twice is fine."""


class _Outcome:
    """What became of a task."""

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
    """The turns that all runners take; a kind says how to begin a task and how to get at its outcome."""

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
        self._begin(work)
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
                _logger.warning("a task that nobody waited for failed: %s", describe(error), exc_info=error)
        if not self._closed:
            self._closed = True
            self._end()

    @abstractmethod
    def _begin(self, work: Callable[[], Any]) -> None:
        """Begin the task, without waiting for its end."""

    @abstractmethod
    def _outcome(self) -> _Outcome:
        """That of the task, waiting for its end."""

    def _end(self) -> None:
        """Give back what the runner holds; nothing, unless a kind says otherwise."""
        return None


class SynchronousRunner(_OneTask):
    """Runs the task inside ``submit``: no overlap, the reference for the others."""

    def __init__(self) -> None:
        super().__init__()
        self._ended: _Outcome | None = None

    def _begin(self, work: Callable[[], Any]) -> None:
        self._ended = _Outcome(work)

    def _outcome(self) -> _Outcome:
        assert self._ended is not None
        ended, self._ended = self._ended, None
        return ended


class ThreadRunner(_OneTask):
    """Runs the task on a daemon thread of its own, for work that lets go of the interpreter (NumPy, decoding, files).

    torch's modes (``inference_mode``, autocast, the current stream) belong to a thread: the task sets those it needs.
    """

    def __init__(self, name: str = "overlap") -> None:
        super().__init__()
        self._tasks: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._outcomes: SimpleQueue[_Outcome] = SimpleQueue()
        threading.Thread(target=_work_off, args=(self._tasks, self._outcomes), name=name, daemon=True).start()

    def _begin(self, work: Callable[[], Any]) -> None:
        self._tasks.put(work)

    def _outcome(self) -> _Outcome:
        return self._outcomes.get()

    def _end(self) -> None:
        self._tasks.put(None)


def _work_off(tasks: SimpleQueue[Callable[[], Any] | None], outcomes: SimpleQueue[_Outcome]) -> None:
    while (work := tasks.get()) is not None:
        outcomes.put(_Outcome(work))
        del work  # hold nothing of a task while waiting for the next


class StreamRunner(_OneTask):
    """Enqueues the task on a CUDA stream of its own, after all that the caller's current stream holds at that time.

    ``wait`` does not hold up the host: it orders the caller's current stream after the task. Tensors that the task
    returns, also inside tuples, lists and dicts, may be used there and freed as usual. Errors of the device itself come
    out where the host next waits for it, as always with CUDA.
    """

    def __init__(self, device: Any = "cuda") -> None:
        """
        Raises:
            TorchMissingError: torch is not installed.
            RuntimeError: there is no CUDA device; :func:`overlap_runner` falls back instead.
        """
        super().__init__()
        torch = need_torch("StreamRunner")
        if not has_cuda(torch):
            raise RuntimeError("StreamRunner needs a CUDA device, and torch finds none: take overlap_runner('stream')")
        self._torch = torch
        self._device = torch.device(device)
        self._stream = torch.cuda.Stream(self._device)
        self._event = torch.cuda.Event()
        self._running: tuple[Callable[[], Any], _Outcome] | None = None

    def _begin(self, work: Callable[[], Any]) -> None:
        torch = self._torch
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            outcome = _Outcome(work)
        self._event.record(self._stream)
        self._running = (work, outcome)  # the work holds the tensors that it reads until they have been read

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
    """A runner of this kind; ``stream`` becomes ``synchronous``, with one log line, where there is no CUDA device.

    Raises:
        TorchMissingError: ``stream`` without torch.
        ValueError: no such kind.
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
