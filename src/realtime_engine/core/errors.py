"""Everything that the engine raises on purpose.

::

    RealtimeEngineError
    ├── AdmissionError (RuntimeError)      no room for this session now: back off, retry, go elsewhere
    ├── EngineContractError (TypeError)    an engine hook broke the contract (wrong type, ``async def``)
    ├── StepFailure (RuntimeError)         some sessions failed in a step; the others' results are inside
    ├── SessionClaimedError (RuntimeError) ``Outbox.session(id)`` while somebody holds that session
    └── OutboxClosed                       the serve loop has ended and nothing is left to read

Bad arguments are plain ``ValueError`` and ``TypeError``.
"""

from __future__ import annotations

import inspect
import reprlib
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .contract import StepResult


_MAX = 4096  # characters of an error's text; it goes to everybody who watches


class RealtimeEngineError(Exception):
    """Base of every error that this package defines."""


class AdmissionError(RealtimeEngineError, RuntimeError):
    """The engine has no room for this session now. Backpressure, never a crash."""


class EngineContractError(RealtimeEngineError, TypeError):
    """An engine hook returned something that the contract does not allow."""


class StepFailure(RealtimeEngineError, RuntimeError):
    """Raised by an engine that knows whose fault a failed step is.

    Any other exception out of ``step`` makes the serve loop search for the culprit.

    Attributes:
        failures: session id -> what went wrong for it.
        results: chunks that the other sessions produced in the same step; they have advanced.
    """

    def __init__(self, failures: Mapping[str, BaseException], results: list[StepResult] | None = None) -> None:
        self.failures = dict(failures)
        self.results = list(results or ())
        super().__init__("; ".join(f"session {sid!r}: {describe(exc)}" for sid, exc in self.failures.items()))

    def __reduce__(self) -> tuple[type[StepFailure], tuple[dict[str, BaseException], list[StepResult]]]:
        return StepFailure, (self.failures, self.results)


class SessionClaimedError(RealtimeEngineError, RuntimeError):
    """Two readers asked for the same session of one outbox."""


class OutboxClosed(RealtimeEngineError):
    """The serve loop has ended and the queue is drained."""


def describe(error: BaseException) -> str:
    """One line for a log, an event or a person: ``ValueError: the text``. Never raises."""
    text = reason_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def brief(value: object) -> str:
    """How a value of unknown origin is shown in a message: in bounded length, time and depth. Never raises."""
    try:
        return reprlib.repr(value)
    except Exception:  # an integer of too many digits for text, or a repr of its own
        return f"a value of the type {type(value).__name__}"


def reason_of(error: BaseException) -> str:
    """The text of an error in one line that can be encoded and sent; empty when it has none. Never raises."""
    try:
        text = " ".join(str(error).split()).encode("utf-8", "backslashreplace").decode()
        return text if len(text) <= _MAX else text[:_MAX] + "..."
    except BaseException:  # an error of the model's own, whose text is an error too
        return "(its text could not be read)"


def reraise_interrupt(error: BaseException) -> None:
    """Let a person's Ctrl-C through, which only the main thread gets; everything else a hook may raise is contained."""
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error


def call_hook(hook: Callable[..., Any], *args: Any) -> Any:
    """Call an engine or model hook; a coroutine in place of a result is a broken contract, not a promise to be kept."""
    result = hook(*args)
    if result is not None and inspect.iscoroutine(result):
        result.close()
        raise EngineContractError(f"{getattr(hook, '__qualname__', hook)} must be a plain function, not async def")
    return result
