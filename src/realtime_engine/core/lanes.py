"""Where stages run: inline, at once or late, on a CUDA stream, or on a worker thread.

torch is used only if the process has imported it already or the model declares a CUDA device.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from enum import Enum, auto
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeAlias

from .errors import reraise_interrupt

__all__ = ["Lane", "Lanes", "cuda_torch", "cuda_lanes", "inline_lanes", "late_lanes", "thread_lanes"]


class Lane(Enum):
    """Which lane a stage runs on."""

    HOT = auto()
    """The critical path: ends before HOT of the next chunk begins. Leaves DEFERRED's input in ``batch.data``."""

    DEFERRED = auto()
    """Every chunk, up to one behind HOT: fills ``batch.outputs`` (a decode)."""

    ENCODE = auto()
    """On demand, for rows whose heavy conditioning changed (a prompt or image encode)."""


class Completion(Protocol):
    """A handle of submitted work."""

    def done(self) -> bool:
        """Whether the work has ended, with or without an error. Does not block."""

    def wait(self) -> None:
        """Block until the work has ended; raises what it raised."""


class LaneRunner(Protocol):
    """Executes work in order."""

    def submit(self, work: Callable[[], None], after: Iterable[Completion] = ()) -> Completion:
        """Run ``work`` once every completion of ``after`` has ended."""

    def sync(self) -> None:
        """Block until everything submitted so far has ended. Does not raise what the work raised."""


class Lanes(NamedTuple):
    """The three lanes of one engine."""

    hot: LaneRunner
    deferred: LaneRunner
    encode: LaneRunner


# -- inline


class _Ended:
    """The completion of work that has ended."""

    def __init__(self, error: BaseException | None = None) -> None:
        self._error = error

    def done(self) -> bool:
        return True

    def wait(self) -> None:
        if self._error is not None:
            raise self._error


DONE: Completion = _Ended()


def submit(lane: LaneRunner, work: Callable[[], None], after: Iterable[Completion] = ()) -> Completion:
    """Like ``lane.submit``; on every kind of lane, the completion raises what the work raises."""
    try:
        return lane.submit(work, after)
    except BaseException as error:
        reraise_interrupt(error)
        return _Ended(error)


def error_of(completion: Completion) -> BaseException | None:
    """Wait for the end of the work; returns what it raised, or ``None``."""
    try:
        completion.wait()
    except BaseException as error:
        reraise_interrupt(error)
        return error
    return None


class InlineLane:
    """Runs work at once on the caller's thread; :meth:`submit` raises what the work raises."""

    def submit(self, work: Callable[[], None], after: Iterable[Completion] = ()) -> Completion:
        """Run ``work`` now."""
        _run_after(after, work)
        return DONE

    def sync(self) -> None:
        """Return at once: all work has ended."""

    def close(self) -> None:
        """Return at once: there is no thread to end."""


def inline_lanes() -> Lanes:
    """All three on the calling thread."""
    lane = InlineLane()
    return Lanes(lane, lane, lane)


class LateLane:
    """Runs work only when its completion is waited for, on the waiting thread."""

    def __init__(self) -> None:
        self._waiting: deque[_LateCompletion] = deque()

    def submit(self, work: Callable[[], None], after: Iterable[Completion] = ()) -> Completion:
        """Queue ``work``."""
        completion = _LateCompletion(self, partial(_run_after, tuple(after), work))
        self._waiting.append(completion)
        return completion

    def sync(self) -> None:
        """Run all queued work."""
        while self._waiting:
            self.run_next()

    def run_next(self) -> None:
        """Run the oldest queued work."""
        self._waiting.popleft().run()


class _LateCompletion:
    def __init__(self, lane: LateLane, work: Callable[[], None]) -> None:
        self._lane = lane
        self._work = work
        self._ended: Completion | None = None

    def run(self) -> None:
        self._ended = submit(_INLINE, self._work)

    def done(self) -> bool:
        return self._ended is not None

    def wait(self) -> None:
        while self._ended is None:
            self._lane.run_next()
        self._ended.wait()


_INLINE = InlineLane()


def late_lanes() -> Lanes:
    """All on the calling thread, DEFERRED as late as the contract allows: after the HOT that may overlap it."""
    return Lanes(_INLINE, LateLane(), _INLINE)


# -- CUDA


class _CudaCompletion:
    def __init__(self, event: Any) -> None:
        self.event = event

    def done(self) -> bool:
        return bool(self.event.query())

    def wait(self) -> None:
        self.event.synchronize()


class CudaLane:
    """Enqueues work on one CUDA stream. Lanes wait for each other on the device; the host does not wait."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch = torch
        self._stream = torch.cuda.Stream(device=device)
        # The stream that built the model may still be copying weights.
        self._stream.wait_stream(torch.cuda.current_stream(device))

    def submit(self, work: Callable[[], None], after: Iterable[Completion] = ()) -> Completion:
        """Enqueue what ``work`` launches; raises what it raises on the host."""
        for completion in after:
            if isinstance(completion, _CudaCompletion):
                self._stream.wait_event(completion.event)
        with self._torch.cuda.stream(self._stream):
            work()
        event = self._torch.cuda.Event()
        event.record(self._stream)
        return _CudaCompletion(event)

    def sync(self) -> None:
        """Block until the stream is empty."""
        self._stream.synchronize()


def cuda_torch(*, declared: bool) -> Any | None:
    """The torch module if it has a usable CUDA device, else ``None``.

    Args:
        declared: the model declares a CUDA device; only then is torch imported if the process has not imported it.
    """
    torch = sys.modules.get("torch")
    if torch is None and declared:
        try:
            torch = importlib.import_module("torch")
        except ImportError:
            return None
    cuda = getattr(torch, "cuda", None)
    return torch if cuda is not None and cuda.is_available() else None


def cuda_lanes(torch: Any, device: Any | None, *, threaded: bool = False) -> Lanes:
    """Three streams on one device.

    Args:
        torch: the torch module.
        device: ``None``: the calling thread's current device.
        threaded: feed ENCODE's stream from a worker thread.
    """
    if device is None:
        device = torch.cuda.current_device()
    hot, deferred, encode = (CudaLane(torch, device) for _ in range(3))
    return Lanes(hot, deferred, FedLane(encode, ThreadLane("lane-encode")) if threaded else encode)


# -- threads


class _FutureCompletion:
    def __init__(self, future: Future[None]) -> None:
        self._future = future

    def done(self) -> bool:
        return self._future.done()

    def wait(self) -> None:
        self._future.result()


class ThreadLane:
    """Runs work in order on one worker thread.

    The thread is a daemon, so that work which never ends does not keep the process alive. It ends with :meth:`close`,
    or when the lane is garbage-collected.
    """

    def __init__(self, name: str) -> None:
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._last: Future[None] | None = None
        self._thread = threading.Thread(target=_run_tasks, args=(self._tasks,), name=name, daemon=True)
        self._thread.start()
        self._end = weakref.finalize(self, self._tasks.put, None)

    def submit(self, work: Callable[[], None], after: Iterable[Completion] = ()) -> Completion:
        """Queue ``work``."""
        self._last = Future()
        self._tasks.put((self._last, tuple(after), work))
        return _FutureCompletion(self._last)

    def sync(self) -> None:
        """Block until the queue is empty."""
        if self._last is not None:
            self._last.exception()  # waits; the completion's holder handles the error

    def close(self) -> None:
        """End the thread once it has run what was submitted, and wait for its end. Nothing may be submitted after."""
        self._end()
        self._thread.join()


_Task: TypeAlias = tuple["Future[None]", tuple[Completion, ...], Callable[[], None]]


def _run_tasks(tasks: SimpleQueue[_Task | None]) -> None:
    while (task := tasks.get()) is not None:
        future, after, work = task
        try:
            _run_after(after, work)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(None)
        del task, future, after, work  # keep no batch alive while waiting for the next


def _run_after(after: Iterable[Completion], work: Callable[[], None]) -> None:
    for completion in after:
        with contextlib.suppress(BaseException):  # the completion's holder handles the error
            completion.wait()
    work()


class _FedCompletion:
    def __init__(self) -> None:
        self.ended: Completion = DONE  # set by the feeding thread before it has ended
        self.fed: Completion = DONE  # set by the submitter

    def done(self) -> bool:
        return self.fed.done() and self.ended.done()

    def wait(self) -> None:
        self.fed.wait()
        self.ended.wait()


class FedLane:
    """A stream that is fed by a thread, so that work which waits for the device on the host delays no other lane."""

    def __init__(self, stream: CudaLane, feeder: ThreadLane) -> None:
        self._stream = stream
        self._feeder = feeder

    def submit(self, work: Callable[[], None], after: Iterable[Completion] = ()) -> Completion:
        """Queue ``work`` for the feeding thread."""
        completion, after = _FedCompletion(), tuple(after)

        def feed() -> None:
            completion.ended = self._stream.submit(work, after)

        completion.fed = self._feeder.submit(feed)
        return completion

    def sync(self) -> None:
        """Block until the feeding thread and the stream are idle."""
        self._feeder.sync()
        self._stream.sync()


def thread_lanes(*, pipelined: bool) -> Lanes:
    """HOT on the stepping thread, ENCODE on a worker thread, and in a pipeline DEFERRED on another."""
    deferred = ThreadLane("lane-deferred") if pipelined else InlineLane()
    return Lanes(InlineLane(), deferred, ThreadLane("lane-encode"))
