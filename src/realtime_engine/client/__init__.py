"""A headless client: connects like a browser. What tests, bots and benchmarks use."""

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
