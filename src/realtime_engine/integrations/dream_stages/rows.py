"""The rows of a stage, and whose they are."""

from __future__ import annotations

import bisect

from ...core.streaming import StreamingSessionCloseReason, StreamingSessionContext


class Rows:
    """Gives each session a row from its first chunk to its close, the lowest that is free."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = list(range(count))
        self._taken: dict[str, int] = {}

    def of(self, session_id: str) -> int:
        """The session's row."""
        if session_id not in self._taken:
            self._taken[session_id] = self._free.pop(0)
        return self._taken[session_id]

    def release(self, context: StreamingSessionContext, reason: StreamingSessionCloseReason) -> None:
        """Session closer of a stage's actor."""
        row = self._taken.pop(context.session_id, None)
        if row is not None:
            bisect.insort(self._free, row)
