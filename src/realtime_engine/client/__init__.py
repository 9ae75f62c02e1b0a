"""A headless client for tests, bots and benchmarks. It connects as a browser does."""

from .client import RealtimeClient, Transport
from .connection import ClientFrame
from .errors import (
    ClientClosedError,
    ClientError,
    FullError,
    RefusedError,
    RejectedError,
    SessionEndedError,
    TransportError,
    UnavailableError,
    UnreachableError,
)

__all__ = [
    "ClientClosedError",
    "ClientError",
    "ClientFrame",
    "FullError",
    "RealtimeClient",
    "RefusedError",
    "RejectedError",
    "SessionEndedError",
    "Transport",
    "TransportError",
    "UnavailableError",
    "UnreachableError",
]
