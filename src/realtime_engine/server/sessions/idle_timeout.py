"""Whether anybody attends to a session: policy over moments, without timers."""

from __future__ import annotations

from ...core.clock import NS_PER_S


class IdleTracker:
    """Remembers when a session was last watched and steered.

    Args:
        now_ns: when it began, in monotonic nanoseconds.
        grace_s: seconds for which frames are still wanted after the last viewer has gone.
        timeout_s: seconds without viewers and controls after which nobody is there any more.
    """

    def __init__(self, now_ns: int, *, grace_s: float, timeout_s: float) -> None:
        self._grace_ns = round(grace_s * NS_PER_S)
        self._timeout_ns = round(timeout_s * NS_PER_S)
        self._watched = False
        self._seen_ns = now_ns
        self._heard_ns = now_ns

    def watch(self, watched: bool, now_ns: int) -> None:
        """The first viewer has come, or the last one has gone."""
        self._watched = watched
        self._seen_ns = now_ns

    def glance(self, now_ns: int) -> None:
        """Somebody looked once."""
        self._seen_ns = now_ns

    def hear(self, now_ns: int) -> None:
        """Somebody steered, or said that they are there."""
        self._heard_ns = now_ns

    @property
    def heard_ns(self) -> int:
        """When somebody last steered, or said that they are there."""
        return self._heard_ns

    def wants_frames(self, now_ns: int) -> bool:
        return self._watched or now_ns - self._seen_ns < self._grace_ns

    def idle_ns(self, now_ns: int) -> int:
        """How long nobody has been there."""
        return 0 if self._watched else now_ns - max(self._seen_ns, self._heard_ns)

    def is_abandoned(self, now_ns: int) -> bool:
        return self.idle_ns(now_ns) >= self._timeout_ns

    def next_change_ns(self, now_ns: int) -> int | None:
        """When an answer may change by itself; ``None`` while somebody watches."""
        if self._watched:
            return None
        grace_ends_ns = self._seen_ns + self._grace_ns
        abandoned_ns = max(self._seen_ns, self._heard_ns) + self._timeout_ns
        return grace_ends_ns if now_ns < grace_ends_ns < abandoned_ns else abandoned_ns
