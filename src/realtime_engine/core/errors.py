"""Errors of the engine, and how errors are shown and passed on.

::

    RealtimeEngineError
    ├── AdmissionError (RuntimeError)      no capacity for this session now: back off and retry
    ├── EngineContractError (TypeError)    an engine hook broke the contract (wrong type, ``async def``)
    ├── StepFailure (RuntimeError)         some sessions failed in a step; the others' results are inside
    ├── SessionClaimedError (RuntimeError) ``Outbox.session(id)`` of a session that has a reader
    └── OutboxClosed                       the serve loop has ended and nothing is left to read

Bad arguments raise ``ValueError`` and ``TypeError``.
"""

from __future__ import annotations

import inspect
import reprlib
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .contract import StepResult


_MAX_LENGTH = 4096  # of an error's text, which is sent to every client of the session


class RealtimeEngineError(Exception):
    """Base of every error that this package defines."""


class AdmissionError(RealtimeEngineError, RuntimeError):
    """The engine has no capacity for this session now: backpressure, not a failure."""


class EngineContractError(RealtimeEngineError, TypeError):
    """An engine hook returned something that the contract does not allow."""


class StepFailure(RealtimeEngineError, RuntimeError):
    """Raised by an engine that knows which sessions made a step fail.

    After any other exception out of ``step``, the serve loop searches for the session.

    Attributes:
        failures: session id -> what it failed with.
        results: chunks of the other sessions in the same step; they have advanced.
    """

    def __init__(self, failures: Mapping[str, BaseException], results: list[StepResult] | None = None) -> None:
        self.failures = dict(failures)
        self.results = list(results or ())
        super().__init__("; ".join(f"session {sid!r}: {describe(exc)}" for sid, exc in self.failures.items()))

    def __reduce__(self) -> tuple[type[StepFailure], tuple[dict[str, BaseException], list[StepResult]]]:
        return StepFailure, (self.failures, self.results)


class SessionClaimedError(RealtimeEngineError, RuntimeError):
    """A second reader claimed a session of one outbox."""


class OutboxClosed(RealtimeEngineError):
    """The serve loop has ended and the queue is drained."""


def describe(error: BaseException, hook: str = "") -> str:
    """One line for a log, an event or the user: ``ValueError: the text``. Does not raise.

    With the name of the ``hook`` that raised it: ``seed() raised ValueError: the text``.
    """
    text, raised = reason_of(error), f"{hook}() raised " if hook else ""
    return raised + (f"{type(error).__name__}: {text}" if text else type(error).__name__)


def brief(value: object) -> str:
    """The repr of a value of unknown origin, bounded in length, time and depth. Does not raise."""
    try:
        return reprlib.repr(value)
    except Exception:  # an integer of too many digits for text, or a repr of its own
        return f"a value of the type {type(value).__name__}"


def reason_of(error: BaseException) -> str:
    """The text of an error in one line of valid UTF-8, at most 4096 characters; may be empty. Does not raise."""
    try:
        text = " ".join(str(error).split()).encode("utf-8", "backslashreplace").decode()
        return text if len(text) <= _MAX_LENGTH else text[:_MAX_LENGTH] + "..."
    except BaseException:  # a model's own error class may raise in __str__
        return "(its text could not be read)"


def reraise_interrupt(error: BaseException) -> None:
    """Re-raise a Ctrl-C, which only the main thread receives; every other error of a hook is contained."""
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error


def call_hook(hook: Callable[..., Any], *args: Any) -> Any:
    """Call a hook of an engine or model. Raises :class:`EngineContractError` if it is ``async def``."""
    result = hook(*args)
    if result is not None and inspect.iscoroutine(result):
        result.close()
        raise EngineContractError(f"{getattr(hook, '__qualname__', hook)} must be a plain function, not async def")
    return result
