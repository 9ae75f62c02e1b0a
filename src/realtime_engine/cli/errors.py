"""What a person typed wrong, or cannot have."""

from ..core.errors import RealtimeEngineError


class CommandError(RealtimeEngineError):
    """Ends the command with this one line and exit code 2."""
