"""A clock that is advanced manually by tests."""

from __future__ import annotations

import threading

from ..core.clock import NS_PER_S, Wakeup


class ManualClock:
    """A :class:`~realtime_engine.core.clock.Clock` whose time changes only by :meth:`advance`.

    Args:
        start_ns: initial time in nanoseconds.
    """

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns
        self._changed = threading.Condition()
        self._sleepers: list[tuple[int | None, Wakeup]] = []

    def now_ns(self) -> int:
        """Return the current time in nanoseconds."""
        return self._now_ns

    def wait(self, wakeup: Wakeup, until_ns: int | None) -> None:
        """Block until ``wakeup`` is set or the time reaches ``until_ns``; clears ``wakeup``."""
        sleeper = (until_ns, wakeup)
        with self._changed:
            if until_ns is not None and self._now_ns >= until_ns:
                return
            self._sleepers.append(sleeper)
            self._changed.notify_all()
        wakeup.wait_uncleared()
        with self._changed:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
            wakeup.clear()

    def yield_now(self) -> None:
        """Return immediately: time changes only by :meth:`advance`."""

    def advance(self, seconds: float) -> None:
        """Advance the time and wake every thread whose deadline has passed."""
        self.advance_ns(round(seconds * NS_PER_S))

    def advance_ns(self, nanoseconds: int) -> None:
        """Advance the time by an exact number of nanoseconds."""
        with self._changed:
            self._now_ns += nanoseconds
            for sleeper in list(self._sleepers):
                until_ns, wakeup = sleeper
                if until_ns is not None and until_ns <= self._now_ns:
                    self._sleepers.remove(sleeper)
                    wakeup.notify()

    def wait_for_sleeper(self, timeout_s: float = 10.0) -> int | None:
        """Block in real time until a thread sleeps on this clock; return its deadline in nanoseconds, if any.

        Raises:
            TimeoutError: no thread sleeps within ``timeout_s``.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._asleep()), timeout_s):
                raise TimeoutError(f"no thread started to sleep on the clock within {timeout_s} s")
            return self._asleep()[0]

    def _asleep(self) -> list[int | None]:
        """Return the deadlines of sleeping threads; a thread whose event is set counts as awake."""
        return [until_ns for until_ns, wakeup in self._sleepers if not wakeup.is_set()]

    def advance_to_sleeper(self, timeout_s: float = 10.0) -> None:
        """Wait until a thread sleeps on this clock, and advance to its deadline.

        Raises:
            TimeoutError: no thread sleeps within ``timeout_s``.
            RuntimeError: the sleeping thread has no deadline.
        """
        until_ns = self.wait_for_sleeper(timeout_s)
        if until_ns is None:
            raise RuntimeError("the sleeping thread waits for a wake-up without a deadline")
        self.advance_ns(max(until_ns - self._now_ns, 0))
