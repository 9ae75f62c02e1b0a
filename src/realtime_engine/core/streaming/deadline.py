"""How long somebody waits."""

from __future__ import annotations

import threading
import time


class Deadline:
    """A moment ``timeout`` seconds from now."""

    __slots__ = ("timeout", "_end")

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._end = time.monotonic() + timeout

    def remaining(self) -> float:
        """Seconds, 0 when it has passed."""
        return min(max(0.0, self._end - time.monotonic()), threading.TIMEOUT_MAX)
