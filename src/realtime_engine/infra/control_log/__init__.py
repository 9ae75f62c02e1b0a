"""Control logs: the control messages of a session, each with the first chunk that it affects."""

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
