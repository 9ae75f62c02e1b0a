"""Errors of this package.

::

    RealtimeEngineError
    ├── TorchMissingError (ImportError)     a helper needs torch, which cannot be imported
    ├── OverlapError (RuntimeError)         a runner was used out of turn: submit, then wait
    ├── PrefetchFullError (RuntimeError)    a prefetcher has no room: get what is ready first
    └── PrefetchEmptyError (RuntimeError)   there is nothing to get
"""

from __future__ import annotations

from ...core.errors import RealtimeEngineError


class TorchMissingError(RealtimeEngineError, ImportError):
    """A helper needs torch, which cannot be imported here."""


class OverlapError(RealtimeEngineError, RuntimeError):
    """``submit`` while a task is pending, ``wait`` while none is, or ``submit`` after ``close``."""


class PrefetchFullError(RealtimeEngineError, RuntimeError):
    """As many puts are unread as may be."""


class PrefetchEmptyError(RealtimeEngineError, RuntimeError):
    """``get`` without a ``put`` before it."""
