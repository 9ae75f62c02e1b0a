"""Time as something that is passed in, so that a minute of pacing can run in a millisecond."""

from __future__ import annotations

import threading
import time
from typing import Protocol

NS_PER_S = 1_000_000_000


class Wakeup:
    """A bell for one sleeping thread: rings are remembered, and answering one clears them all."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = threading.Event()

    def notify(self) -> None:
        """Ring, from any thread."""
        self._event.set()

    @property
    def rung(self) -> bool:
        """Whether a ring waits to be answered."""
        return self._event.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Sleep until rung or until ``timeout_s`` has passed; true when it was rung, which answers the ring."""
        rung = self.wait_unanswered(timeout_s)
        if rung:  # a ring right after the timeout stays for the next wait
            self.answer()
        return rung

    def wait_unanswered(self, timeout_s: float | None = None) -> bool:
        """Like :meth:`wait`, but the ring stays until :meth:`answer`."""
        return self._event.wait(timeout_s if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX))

    def answer(self) -> None:
        """Forget the rings so far."""
        self._event.clear()


class Clock(Protocol):
    """Monotonic time in nanoseconds, and sleeping until a moment of it."""

    def now_ns(self) -> int: ...

    def wait(self, wakeup: Wakeup, until_ns: int | None) -> None:
        """Return when ``wakeup`` rings or at ``until_ns``; ``None`` waits for the bell alone."""

    def give_way(self) -> None:
        """Let other threads run for a moment, when there is no time to sleep."""


class MonotonicClock:
    """The machine's own clock."""

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def wait(self, wakeup: Wakeup, until_ns: int | None) -> None:
        if until_ns is None:
            wakeup.wait()
            return
        remaining_ns = until_ns - time.monotonic_ns()
        if remaining_ns > 0:
            wakeup.wait(remaining_ns / NS_PER_S)

    def give_way(self) -> None:
        time.sleep(1e-6)  # long enough for a thread that waits for the interpreter to get it, unlike sleep(0)


MONOTONIC = MonotonicClock()


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


class Deadline:
    """A moment ``timeout`` seconds from now."""

    __slots__ = ("timeout", "_end")

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._end = time.monotonic() + timeout

    def remaining(self) -> float:
        """Seconds, 0 when it has passed."""
        return min(max(0.0, self._end - time.monotonic()), threading.TIMEOUT_MAX)
