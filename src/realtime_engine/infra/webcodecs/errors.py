"""Errors of this package.

::

    RealtimeEngineError
    ├── BadPacketError     a binary message is no video packet of this version
    └── BadMessageError    a viewer said something that is not in the protocol
"""

from __future__ import annotations

from ...core.errors import RealtimeEngineError


class BadPacketError(RealtimeEngineError, ValueError):
    """A binary message is no video packet of this version."""


class BadMessageError(RealtimeEngineError, ValueError):
    """A viewer said something that is not in the protocol."""
