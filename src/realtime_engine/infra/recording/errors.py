"""Errors of this package.

::

    RealtimeEngineError
    └── RecordingError
        ├── RecordingRuns    there is one already, or the file is still being written
        └── StorageFull      nothing more may be stored
"""

from __future__ import annotations

from ...core.errors import RealtimeEngineError


class RecordingError(RealtimeEngineError):
    """Base of what can be wrong with a recording."""


class RecordingRuns(RecordingError):
    """There is a recording already, or the file is still being written."""


class StorageFull(RecordingError):
    """What may be stored is stored."""
