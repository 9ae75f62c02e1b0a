"""The child's side of a :class:`~.process_worker.ProcessWorker`."""

from __future__ import annotations

import pickle
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory

from ..errors import describe
from .errors import StreamingWorkerError
from .shared_arrays import SharedArrays

# First byte of each message of the child.
ATTACHED, READY, RESULT, ERROR = range(4)


class WorkerTraceback(Exception):
    """The cause of an exception that came from a worker process: where it was raised there."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def run_worker(connection: Connection, request_name: str, reply_name: str, factory: bytes) -> None:
    """Make the object, and call its methods until the other end of ``connection`` is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a person's Ctrl-C is the parent's to deal with
    requests_memory, replies_memory = SharedMemory(request_name), SharedMemory(reply_name)
    try:
        _say(connection, ATTACHED)
        try:
            owned = pickle.loads(factory)()
        except BaseException as error:  # told to the parent
            _say(connection, ERROR, pack_error(error))
            return
        _say(connection, READY)
        _work(connection, owned, SharedArrays(requests_memory), SharedArrays(replies_memory))
    except (EOFError, OSError):
        return  # the parent has closed its end, or is gone
    finally:
        requests_memory.close()
        replies_memory.close()


def _work(connection: Connection, owned: object, requests: SharedArrays, replies: SharedArrays) -> None:
    while True:
        _say(connection, *_answer(owned, connection.recv_bytes(), requests, replies))


def _answer(owned: object, request: bytes, requests: SharedArrays, replies: SharedArrays) -> tuple[int, bytes]:
    try:
        name, args, kwargs = requests.unpack(request)
        method: Callable[..., object] = getattr(owned, name)
        return RESULT, replies.pack(method(*args, **kwargs))
    except BaseException as error:  # the caller's
        return ERROR, pack_error(error)


def _say(connection: Connection, kind: int, content: bytes = b"") -> None:
    connection.send_bytes(bytes((kind,)) + content)


def pack_error(error: BaseException) -> bytes:
    """An exception and its traceback; in place of one that does not survive pickling, a description."""
    text = "".join(traceback.format_exception(error))
    try:
        packed = pickle.dumps((error, text))
        pickle.loads(packed)
    except Exception:  # a class may refuse this in any way
        return pickle.dumps((StreamingWorkerError(describe(error)), text))
    return packed


def unpack_error(content: bytes) -> BaseException:
    error, text = pickle.loads(content)
    error.__cause__ = WorkerTraceback(text)
    return error  # type: ignore[no-any-return]
