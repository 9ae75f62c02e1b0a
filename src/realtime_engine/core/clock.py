"""Clocks, deadlines and the event that ends a timed wait early.

Code that waits takes a :class:`Clock`, so that tests replace time: a minute of pacing runs in a millisecond.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

NS_PER_S = 1_000_000_000


class Wakeup:
    """An auto-reset event for one waiting thread."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = threading.Event()

    def notify(self) -> None:
        """Set the event, from any thread."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether the event was set since it was last cleared."""
        return self._event.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the event is set or ``timeout_s`` has passed; if it was set, clear it and return true."""
        was_set = self.wait_uncleared(timeout_s)
        if was_set:  # one that is set right after the timeout stays set for the next wait
            self.clear()
        return was_set

    def wait_uncleared(self, timeout_s: float | None = None) -> bool:
        """Like :meth:`wait`, but the event stays set until :meth:`clear`."""
        return self._event.wait(timeout_s if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX))

    def clear(self) -> None:
        """Reset the event."""
        self._event.clear()


class Clock(Protocol):
    """Monotonic time in nanoseconds, and waiting on it."""

    def now_ns(self) -> int:
        """The current time, in nanoseconds."""

    def wait(self, wakeup: Wakeup, until_ns: int | None) -> None:
        """Block until ``wakeup`` is set or until ``until_ns``; ``None``: until ``wakeup`` is set."""

    def yield_now(self) -> None:
        """Let other threads run briefly, for a loop that has no time to wait."""


class MonotonicClock:
    """The system's monotonic clock."""

    def now_ns(self) -> int:
        """``time.monotonic_ns()``."""
        return time.monotonic_ns()

    def wait(self, wakeup: Wakeup, until_ns: int | None) -> None:
        """Block until ``wakeup`` is set or until ``until_ns``; ``None``: until ``wakeup`` is set."""
        if until_ns is None:
            wakeup.wait()
            return
        remaining_ns = until_ns - time.monotonic_ns()
        if remaining_ns > 0:
            wakeup.wait(remaining_ns / NS_PER_S)

    def yield_now(self) -> None:
        """Sleep for a microsecond: unlike ``sleep(0)``, long enough for a thread that waits for the GIL to get it."""
        time.sleep(1e-6)


MONOTONIC = MonotonicClock()


class Deadlines:
    """Absolute deadlines at an interval of ``interval_ns``.

    A tick that ends after the next deadline makes the next tick start at once, on the newest deadline that has passed;
    older ones are skipped. So late ticks cause no drift, and a long stall is followed by one tick, not by a burst.

    Attributes:
        next_ns: the next deadline.
    """

    __slots__ = ("_interval_ns", "next_ns")

    def __init__(self, interval_ns: int, now_ns: int) -> None:
        self._interval_ns = interval_ns
        self.next_ns = now_ns

    def resume(self, now_ns: int) -> None:
        """After an idle period: due now, but not earlier than one interval after the last tick."""
        self.next_ns = max(self.next_ns, now_ns)

    def tick_ended(self, now_ns: int) -> int:
        """Advance to the next deadline; returns how many deadlines have passed already (0: in time)."""
        self.next_ns += self._interval_ns
        if now_ns < self.next_ns:
            return 0
        if self._interval_ns == 0:
            self.next_ns = now_ns
            return 0
        skipped = (now_ns - self.next_ns) // self._interval_ns
        self.next_ns += skipped * self._interval_ns
        return skipped + 1


class Deadline:
    """A timeout measured from now on the monotonic clock."""

    __slots__ = ("timeout", "_end")

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._end = time.monotonic() + timeout

    def remaining(self) -> float:
        """Seconds left, from 0 to the longest wait that a lock accepts."""
        return min(max(0.0, self._end - time.monotonic()), threading.TIMEOUT_MAX)
