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

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .contract import StepResult


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


class SessionClaimedError(RealtimeEngineError, RuntimeError):
    """Two readers asked for the same session of one outbox."""


class OutboxClosed(RealtimeEngineError):
    """The serve loop has ended and the queue is drained."""


def describe(error: BaseException) -> str:
    """One line for a log, an event or a person: ``ValueError: the text``. Never raises."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # an error of the model's own, whose text is an error too
        text = "(its text could not be read)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def reraise_interrupt(error: BaseException) -> None:
    """Let a person's Ctrl-C through, which only the main thread gets; everything else a hook may raise is contained."""
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error
