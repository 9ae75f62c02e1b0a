"""Recordings of encoded video as fragmented MP4, without encoding it again."""

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
