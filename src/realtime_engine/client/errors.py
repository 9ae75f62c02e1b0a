"""What a client can meet.

::

    RealtimeEngineError
    └── ClientError
        ├── UnreachableError       there is no answer: no server, or it has gone
        ├── RefusedError           the server answered with a problem (RFC 9457)
        │   ├── UnavailableError   not now (the model loads, the server shuts down): see ``retry_after_s``
        │   │   └── FullError      all places are taken
        │   └── RejectedError      the context is not accepted: ``errors`` names the fields
        ├── TransportError         pictures or controls cannot be connected, or were lost while the session lives on
        ├── SessionEndedError      the server has ended the session
        └── ClientClosedError      used before ``open()`` or after ``close()``
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import RealtimeEngineError


class ClientError(RealtimeEngineError):
    """Base of what :class:`~realtime_engine.client.RealtimeClient` raises."""


class UnreachableError(ClientError):
    """The server does not answer."""


class RefusedError(ClientError):
    """The server answered a request with a problem.

    Attributes:
        status: HTTP status.
        type: stable URI of the kind of problem, ``about:blank`` if the server names none.
        detail: sentence for people.
        errors: what is wrong with which part of the request, as the server says it.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.type = str(problem.get("type", "about:blank"))
        self.detail = str(problem.get("detail") or problem.get("title") or f"the server answered {status}")
        self.errors: Sequence[Mapping[str, Any]] = tuple(problem.get("errors") or ())
        faults = "; ".join(f"{error.get('pointer', '')}: {error.get('detail', '')}" for error in self.errors)
        super().__init__(f"{self.detail} ({faults})" if faults else self.detail)


class UnavailableError(RefusedError):
    """It cannot be had now. ``retry_after_s``: seconds after which the server wants to be asked again."""

    def __init__(self, status: int, problem: Mapping[str, Any], retry_after_s: float) -> None:
        super().__init__(status, problem)
        self.retry_after_s = retry_after_s


class FullError(UnavailableError):
    """All places are taken."""


class RejectedError(RefusedError):
    """The context is not what the demo takes."""


class TransportError(ClientError):
    """Pictures or controls could not be connected, or the connection was lost."""


class SessionEndedError(ClientError):
    """The server has ended the session: it failed, was idle for too long, or somebody deleted it."""


class ClientClosedError(ClientError):
    """The client is not open."""
