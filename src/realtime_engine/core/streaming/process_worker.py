"""An object in its own process: the worker, its process, and arrays in shared memory."""

from __future__ import annotations

import contextlib
import errno
import io
import multiprocessing
import os
import pickle
import secrets
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..errors import describe
from .errors import StreamingActorFailedError, StreamingWorkerError

__all__ = [
    "ATTACHED",
    "ERROR",
    "ProcessWorker",
    "READY",
    "RESULT",
    "SharedArrays",
    "WorkerTraceback",
    "pack_error",
    "run_worker",
    "unpack_error",
]

SHARED_MEMORY_PREFIX = "rte_"
"""Prefix of the names of shared memory segments; the id of the process that created them follows."""

_DEATH_TIMEOUT_S = 5.0  # of a process that was killed

_MIN_SHARED = 16 * 1024  # bytes; smaller arrays cost less in the message itself
_ALIGNMENT = 64

Span = tuple[int, int]

# First byte of each message of the child.
ATTACHED, READY, RESULT, ERROR = range(4)


class ProcessWorker:
    """Creates an object in a spawned process and calls its methods there: ``worker.denoise(latent, steps=4)``.

    Calls run one at a time. Each waits for its result, or raises the exception of the method with the child's traceback
    as its cause. :class:`StreamingWorkerError` replaces an exception that cannot be pickled.

    Arrays of 16 KiB or more are passed through two shared memory segments, which are created once; what does not fit
    is passed through a pipe. Arguments and results are copies.

    May be used from any thread, and as a context manager, which closes it. As with any spawned process, a program that
    creates one on import needs ``if __name__ == "__main__"``.

    Args:
        factory: picklable, without arguments; called on the main thread of the child, where the object then runs.
        shared_bytes: size of each shared memory segment.
        start_timeout: seconds within which the object must be created.
        name: of the process, and in errors.

    Raises:
        ValueError: naming the argument.
        OSError: there is too little shared memory.
        TimeoutError: the object was not created in time.
        StreamingActorFailedError: the process died before.
        BaseException: raised by ``factory``.
    """

    def __init__(
        self,
        factory: Callable[[], object],
        *,
        shared_bytes: int = 16 * 2**20,
        start_timeout: float = 300.0,
        name: str = "process-worker",
    ) -> None:
        if isinstance(shared_bytes, bool) or not isinstance(shared_bytes, int) or shared_bytes < 1:
            raise ValueError(f"shared_bytes must be an integer of 1 or more, got {shared_bytes!r}")
        try:
            pickled = pickle.dumps(factory)
        except Exception as error:  # the exception type depends on the Python version
            raise ValueError(
                f"factory must be picklable, such as a class of a module, got {factory!r} ({describe(error)})"
            ) from error
        self._name = name
        self._calls = threading.Lock()  # held by the call in progress
        self._closed = False
        self._failure: str | None = None
        context = multiprocessing.get_context("spawn")
        self._segments = _Segments(shared_bytes)
        self._connection, child_end = context.Pipe()
        self._process = context.Process(
            target=run_worker, args=(child_end, *self._segments.names, pickled), name=name, daemon=True
        )
        try:
            with child_end, _no_program_from_stdin():
                self._process.start()
            self._await_object(start_timeout)
        except BaseException:
            self._closed = True
            self._destroy()
            raise

    # -- the object's methods

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return lambda *args, **kwargs: self.call(name, *args, **kwargs)

    def call(self, method: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the object, even if this class has one of the same name, and wait for its result.

        Raises:
            StreamingActorFailedError: the process is dead or closed, or dies during the call.
            BaseException: raised by the method, or by pickling the arguments or the result.
        """
        with self._calls:
            if self._closed or self.failed:
                raise self._lost()
            request = self._segments.requests.pack((method, args, kwargs))
            try:
                self._connection.send_bytes(request)
                kind, content = self._receive(None)
            except (EOFError, OSError):
                self._process.join(_DEATH_TIMEOUT_S)
                raise self._lost() from None
            except BaseException:  # an interrupt: the next reply would belong to this call
                self._failure = f"a call of {method!r} was interrupted"
                self._process.kill()
                raise
            return self._result(kind, content)

    def _receive(self, timeout: float | None) -> tuple[int, bytes]:
        ready = wait((self._connection, self._process.sentinel), timeout)
        if not ready:
            raise _TimedOut
        if self._connection not in ready and not self._connection.poll():
            raise EOFError  # it is dead, and a process that it started keeps the pipe open
        message = self._connection.recv_bytes()
        return message[0], message[1:]

    def _result(self, kind: int, content: bytes) -> Any:
        if kind == ERROR:
            raise unpack_error(content)
        return self._segments.replies.unpack(content)

    # -- life cycle

    @property
    def failed(self) -> bool:
        """Whether the process has died without being closed."""
        return self.failure_reason is not None

    @property
    def failure_reason(self) -> str | None:
        """Why it has failed, in one line; ``None`` if it has not."""
        self._check_alive()
        return self._failure

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed

    @property
    def pid(self) -> int | None:
        """The process id."""
        return self._process.pid

    def close(self, timeout: float = 5.0) -> None:
        """End the process after the call in progress, or kill it after ``timeout`` seconds. Idempotent.

        A call that is cut off raises :class:`StreamingActorFailedError`.
        """
        deadline = time.monotonic() + max(timeout, 0.0)
        self._check_alive()
        self._closed = True
        if self._calls.acquire(timeout=max(timeout, 0.0)):
            try:
                self._connection.close()  # ends the child
                self._process.join(max(deadline - time.monotonic(), 0.0))
                self._destroy()
            finally:
                self._calls.release()
        else:
            self._process.kill()  # ends the call in progress
            with self._calls:
                self._destroy()

    def __enter__(self) -> ProcessWorker:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _await_object(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        for awaited in (ATTACHED, READY):
            try:
                kind, content = self._receive(max(deadline - time.monotonic(), 0.0))
            except _TimedOut:
                raise TimeoutError(f"{self._name!r} was not ready within {timeout} s") from None
            except (EOFError, OSError):
                self._process.join(_DEATH_TIMEOUT_S)
                raise self._lost() from None
            if kind != awaited:
                raise unpack_error(content)
            self._segments.unlink()  # both processes have opened them: now neither can leave a name behind

    def _check_alive(self) -> None:
        if self._failure is None and not self._closed and not self._process.is_alive():
            self._failure = f"its process died ({_exit_description(self._process.exitcode)})"

    def _lost(self) -> StreamingActorFailedError:
        reason = self.failure_reason
        return StreamingActorFailedError(
            f"{self._name!r} has failed: {reason}" if reason else f"{self._name!r} is closed"
        )

    def _destroy(self) -> None:
        if self._process.pid is not None:
            if self._process.is_alive():
                self._process.kill()
            self._process.join(_DEATH_TIMEOUT_S)
        self._connection.close()
        self._segments.close()


@contextlib.contextmanager
def _no_program_from_stdin() -> Iterator[None]:
    """Hide ``__file__`` of a program that was read from standard input, which the child would try to import."""
    program = sys.modules["__main__"]
    path = getattr(program, "__file__", None)
    if path != "<stdin>":
        yield
        return
    del program.__file__
    try:
        yield
    finally:
        program.__file__ = path


class _TimedOut(Exception):
    """The child has not replied in time."""


class _Segments:
    """The two shared memory segments: one for requests to the child, one for its replies."""

    def __init__(self, size: int) -> None:
        self._linked = True
        self._memories: list[SharedMemory] = []
        try:
            for _ in range(2):
                name = f"{SHARED_MEMORY_PREFIX}{os.getpid()}_{secrets.token_hex(4)}"
                self._memories.append(SharedMemory(name, create=True, size=size))
                _reserve(self._memories[-1])
        except BaseException:
            self.close()
            raise
        self.requests, self.replies = (SharedArrays(memory) for memory in self._memories)
        self.names = tuple(memory.name for memory in self._memories)

    def unlink(self) -> None:
        if self._linked:
            self._linked = False
            for memory in self._memories:
                memory.unlink()

    def close(self) -> None:
        self.unlink()
        for memory in self._memories:
            memory.close()


def _reserve(memory: SharedMemory) -> None:
    """Allocate the pages now: with too few of them, as in many containers, the first write would kill the process."""
    path = Path("/dev/shm") / memory.name
    if not path.exists():
        return
    try:
        if memory.size > shutil.disk_usage(path.parent).free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, memory.size)
    except OSError as error:
        raise OSError(
            error.errno, f"no room for {memory.size} bytes of shared memory in {path.parent}; give less shared_bytes"
        ) from error


def _exit_description(exitcode: int | None) -> str:
    return f"signal {-exitcode}" if exitcode is not None and exitcode < 0 else f"exit code {exitcode}"


# -- the child's side


class WorkerTraceback(Exception):
    """The cause of an exception from a worker process: the traceback there."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def run_worker(connection: Connection, request_name: str, reply_name: str, factory: bytes) -> None:
    """Create the object, and call its methods until the other end of ``connection`` is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    requests_memory, replies_memory = SharedMemory(request_name), SharedMemory(reply_name)
    try:
        _send(connection, ATTACHED)
        try:
            owned = pickle.loads(factory)()
        except BaseException as error:  # raised in the parent
            _send(connection, ERROR, pack_error(error))
            return
        _send(connection, READY)
        _serve(connection, owned, SharedArrays(requests_memory), SharedArrays(replies_memory))
    except (EOFError, OSError):
        return  # the parent has closed its end, or has died
    finally:
        requests_memory.close()
        replies_memory.close()


def _serve(connection: Connection, owned: object, requests: SharedArrays, replies: SharedArrays) -> None:
    while True:
        _send(connection, *_reply_to(owned, connection.recv_bytes(), requests, replies))


def _reply_to(owned: object, request: bytes, requests: SharedArrays, replies: SharedArrays) -> tuple[int, bytes]:
    try:
        name, args, kwargs = requests.unpack(request)
        method: Callable[..., object] = getattr(owned, name)
        return RESULT, replies.pack(method(*args, **kwargs))
    except BaseException as error:  # raised in the parent
        return ERROR, pack_error(error)


def _send(connection: Connection, kind: int, content: bytes = b"") -> None:
    connection.send_bytes(bytes((kind,)) + content)


def pack_error(error: BaseException) -> bytes:
    """An exception and its traceback; a :class:`StreamingWorkerError` for one that cannot be pickled."""
    text = "".join(traceback.format_exception(error))
    try:
        packed = pickle.dumps((error, text))
        pickle.loads(packed)
    except Exception:  # classes of exceptions may refuse pickling in any way
        return pickle.dumps((StreamingWorkerError(describe(error)), text))
    return packed


def unpack_error(content: bytes) -> BaseException:
    """The exception of :func:`pack_error`, with its traceback as its cause."""
    error, text = pickle.loads(content)
    error.__cause__ = WorkerTraceback(text)
    return error  # type: ignore[no-any-return]


# -- arrays in shared memory


class SharedArrays:
    """Packs objects into a message and a shared memory segment, one object at a time, and unpacks them.

    Contiguous arrays of 16 KiB or more are written to the segment as long as it has room; everything else is in the
    message. Unpacked arrays are copies, which stay valid when the segment is used again.
    """

    def __init__(self, memory: SharedMemory) -> None:
        assert memory.buf is not None, "the memory is closed"
        self._memory: memoryview = memory.buf

    def pack(self, value: object) -> bytes:
        """The message for ``value``; its large arrays are in the segment until the next call."""
        buffers = _Packing(self._memory)
        stream = io.BytesIO()
        _Pickler(stream, protocol=5, buffer_callback=buffers.add).dump(value)
        return pickle.dumps((stream.getbuffer().tobytes(), buffers.spans), protocol=5)

    def unpack(self, message: bytes) -> Any:
        """The value; its arrays are writable if the packed ones were."""
        payload, spans = pickle.loads(message)
        return pickle.loads(payload, buffers=[bytearray(self._memory[start:end]) for start, end in spans])


class _Packing:
    """Places the buffers of one value; ``add`` is a ``buffer_callback`` of pickle."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._next = 0
        self.spans: list[Span] = []

    def add(self, buffer: pickle.PickleBuffer) -> bool:
        with buffer.raw() as raw:
            end = self._next + raw.nbytes
            if raw.nbytes < _MIN_SHARED or end > len(self._memory):
                return True
            self._memory[self._next : end] = raw
            self.spans.append((self._next, end))
            self._next = -(-end // _ALIGNMENT) * _ALIGNMENT
            return False


class _Pickler(pickle.Pickler):
    """Makes arrays contiguous, because pickle exports only those as buffers."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is np.ndarray and not (obj.flags.c_contiguous or obj.flags.f_contiguous):
            return np.ascontiguousarray(obj).__reduce_ex__(5)
        return NotImplemented
