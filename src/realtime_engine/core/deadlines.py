"""The beat of a loop on a fixed grid: no drift, no catch-up burst."""

from __future__ import annotations


class Deadlines:
    """Absolute deadlines ``interval_ns`` apart.

    A tick that ends after the next deadline makes the next one begin at once, on the newest deadline that has passed;
    older ones are skipped. So a late tick shifts nothing, and a long stall is followed by one tick, not by many.
    """

    __slots__ = ("_interval_ns", "next_ns")

    def __init__(self, interval_ns: int, now_ns: int) -> None:
        self._interval_ns = interval_ns
        self.next_ns = now_ns

    def resume(self, now_ns: int) -> None:
        """After idleness: due now, but never earlier than one interval after the last tick."""
        self.next_ns = max(self.next_ns, now_ns)

    def tick_ended(self, now_ns: int) -> int:
        """Move on to the next deadline; returns how many deadlines have passed already (0 when in time)."""
        self.next_ns += self._interval_ns
        if now_ns < self.next_ns:
            return 0
        if self._interval_ns == 0:
            self.next_ns = now_ns
            return 0
        skipped = (now_ns - self.next_ns) // self._interval_ns
        self.next_ns += skipped * self._interval_ns
        return skipped + 1
