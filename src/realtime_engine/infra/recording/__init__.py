"""Recordings of encoded video as fragmented MP4: packets that exist already are written down, and nothing is
encoded.
"""

from .muxer import RecordingError, RecordingRuns, StorageFull
from .recording import Recording, StopReason
from .store import RecordedFile, RecordingStore

__all__ = [
    "RecordedFile",
    "Recording",
    "RecordingError",
    "RecordingRuns",
    "RecordingStore",
    "StopReason",
    "StorageFull",
]
