"""Errors of the client.

::

    RealtimeEngineError
    └── ClientError
        ├── UnreachableError       the server does not respond
        ├── RefusedError           the server responded with a problem (RFC 9457)
        │   ├── UnavailableError   temporarily unavailable (model loading, shutdown): see ``retry_after_s``
        │   │   └── FullError      the server has no free session
        │   └── RejectedError      the demo refuses the context: ``errors`` names the fields
        ├── TransportError         the connection failed or was lost while the session continues
        ├── SessionEndedError      the server ended the session
        └── ClientClosedError      used before ``open()`` or after ``close()``
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import RealtimeEngineError


class ClientError(RealtimeEngineError):
    """Base of the errors of :class:`~realtime_engine.client.RealtimeClient`."""


class UnreachableError(ClientError):
    """The server does not respond."""


class RefusedError(ClientError):
    """The server responded to a request with a problem.

    Attributes:
        status: HTTP status.
        type: stable URI of the problem type, ``about:blank`` if the server sends none.
        detail: human-readable description.
        errors: invalid parts of the request, as sent by the server.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.type = str(problem.get("type", "about:blank"))
        self.detail = str(problem.get("detail") or problem.get("title") or f"the server responded with {status}")
        self.errors: Sequence[Mapping[str, Any]] = tuple(problem.get("errors") or ())
        faults = "; ".join(f"{error.get('pointer', '')}: {error.get('detail', '')}" for error in self.errors)
        super().__init__(f"{self.detail} ({faults})" if faults else self.detail)

    @property
    def code(self) -> str:
        """The last part of ``type``, such as ``full``; docs/http.md lists them."""
        return self.type.rpartition(":")[2]


class UnavailableError(RefusedError):
    """The server is temporarily unavailable.

    Attributes:
        retry_after_s: seconds after which to retry.
    """

    def __init__(self, status: int, problem: Mapping[str, Any], retry_after_s: float) -> None:
        super().__init__(status, problem)
        self.retry_after_s = retry_after_s


class FullError(UnavailableError):
    """The server has no free session."""


class RejectedError(RefusedError):
    """The demo refuses the context."""


class TransportError(ClientError):
    """The connection for frames or controls failed or was lost."""


class SessionEndedError(ClientError):
    """The server ended the session: it failed, reached the idle timeout, or was deleted."""


class ClientClosedError(ClientError):
    """The client is not open."""
