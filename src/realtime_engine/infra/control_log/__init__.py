"""Control logs: what a session was told, and before which of its chunks."""

from .log import LOG_VERSION, ControlLog, Entry, LogError, read_log
from .recorder import UNRECORDED, ControlRecorder, SessionLog

__all__ = [
    "LOG_VERSION",
    "UNRECORDED",
    "ControlLog",
    "ControlRecorder",
    "Entry",
    "LogError",
    "SessionLog",
    "read_log",
]
