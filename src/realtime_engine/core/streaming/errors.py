"""Errors of the streaming scheduler.

::

    RealtimeEngineError
        StreamingError                       (RuntimeError)
            StreamingActorBusyError      an actor's mailbox is full; try again later
            StreamingActorFailedError    an actor has failed or is closed
            StreamingWorkerError         a worker process raised an exception that cannot be pickled
            StageInterruptError          a stage raised an exception that would end a thread or task, such as SystemExit
            StreamingSessionError        the session does not accept this call now
                UnknownSessionError      (KeyError) no such session, or it is closed
                SessionActiveError       (ValueError) the id is in use or not released yet
                SessionEndedError        the session accepts no more inputs
            SequenceError                (ValueError) a gap, a replay or an impossible order of inputs
            StreamingBackpressureError   an input edge is full
            InvalidStageOutputError      (ValueError) a handler returned artifacts other than those declared
            StreamingCleanupError        the state of a session could not be released
"""

from __future__ import annotations

from ..errors import RealtimeEngineError, describe

__all__ = [
    "InvalidStageOutputError",
    "SequenceError",
    "SessionActiveError",
    "SessionEndedError",
    "StageInterruptError",
    "StreamingActorBusyError",
    "StreamingActorFailedError",
    "StreamingBackpressureError",
    "StreamingCleanupError",
    "StreamingError",
    "StreamingSessionError",
    "StreamingWorkerError",
    "UnknownSessionError",
]


class StreamingError(RealtimeEngineError, RuntimeError):
    """Base of all errors of the streaming scheduler."""


class StreamingActorBusyError(StreamingError):
    """An actor's mailbox is full; nothing was queued."""


class StreamingActorFailedError(StreamingError):
    """An actor has failed or is closed."""


class StreamingWorkerError(StreamingError):
    """Description of an exception in a worker process that cannot be pickled."""


class StageInterruptError(StreamingError):
    """Replaces an exception of a stage or mapping that would end a thread, task or iterator; that one is its cause.

    ``SystemExit``, ``CancelledError`` and ``StopIteration`` are control flow to the code that receives them, and would
    end a server for the fault of one session.
    """


class StreamingSessionError(StreamingError):
    """The session does not accept this call now."""


class UnknownSessionError(StreamingSessionError, KeyError):
    """There is no such session, or it is closed."""

    __str__ = Exception.__str__  # not the quotes of KeyError


class SessionActiveError(StreamingSessionError, ValueError):
    """The id is in use, or the state of its last session is not released."""


class SessionEndedError(StreamingSessionError):
    """The session accepts no more inputs."""


class SequenceError(StreamingError, ValueError):
    """A gap, a replay or an impossible order of inputs."""


class StreamingBackpressureError(StreamingError):
    """An input edge is full; nothing was pushed."""


class InvalidStageOutputError(StreamingError, ValueError):
    """A handler returned artifacts other than those that its stage declares."""


class StreamingCleanupError(StreamingError):
    """The state of a session could not be released."""


def contained(error: BaseException, where: str) -> Exception:
    """``error`` itself, or a :class:`StageInterruptError` if it would end more than a session."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration):
        return error
    interrupt = StageInterruptError(f"{where} raised {describe(error)}")
    interrupt.__cause__ = error
    return interrupt
