"""Errors of the streaming scheduler.

::

    RealtimeEngineError
        StreamingError                       (RuntimeError)
            StreamingActorBusyError      an actor's mailbox is full; try again later
            StreamingActorFailedError    an actor is dead or closed
            StreamingWorkerError         what a worker process raised, where the exception itself cannot travel
            StageInterruptError          a stage raised what would end a thread or an event loop, such as SystemExit
            StreamingSessionError        the session does not take this call now
                UnknownSessionError      (KeyError) no such session, or it is gone
                SessionActiveError       (ValueError) the id is in use, or its cleanup is not done
                SessionEndedError        it takes no more input
            SequenceError                (ValueError) a gap, a replay or an impossible order at ingress
            StreamingBackpressureError   an input edge is full
            InvalidStageOutputError      (ValueError) a handler returned other artifacts than it declared
            StreamingCleanupError        a session's state could not be released
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
    """Any error of the streaming scheduler."""


class StreamingActorBusyError(StreamingError):
    """An actor's mailbox is full; nothing was taken."""


class StreamingActorFailedError(StreamingError):
    """An actor is dead or closed."""


class StreamingWorkerError(StreamingError):
    """What a worker process raised, in words; the exception itself cannot be pickled."""


class StageInterruptError(StreamingError):
    """A stage or a mapping of the author's raised what ends a thread, a task or an iterator; that is its cause.

    ``SystemExit``, ``CancelledError`` and ``StopIteration`` mean something to whoever they are raised at, and would end
    a server for what is the fault of one session.
    """


class StreamingSessionError(StreamingError):
    """The session does not take this call now."""


class UnknownSessionError(StreamingSessionError, KeyError):
    """There is no such session, or it is gone."""

    __str__ = Exception.__str__  # not the quotes of KeyError


class SessionActiveError(StreamingSessionError, ValueError):
    """The id is in use, or what its last session held is not released."""


class SessionEndedError(StreamingSessionError):
    """The session takes no more input."""


class SequenceError(StreamingError, ValueError):
    """A gap, a replay or an order at ingress that could never be worked off."""


class StreamingBackpressureError(StreamingError):
    """An input edge is full; nothing was taken."""


class InvalidStageOutputError(StreamingError, ValueError):
    """A handler returned other artifacts than its stage declares."""


class StreamingCleanupError(StreamingError):
    """What a session held could not be released."""


def contained(error: BaseException, where: str) -> Exception:
    """``error`` itself, or a :class:`StageInterruptError` in place of one that would end more than a session."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration):
        return error
    stand_in = StageInterruptError(f"{where} raised {describe(error)}")
    stand_in.__cause__ = error
    return stand_in
