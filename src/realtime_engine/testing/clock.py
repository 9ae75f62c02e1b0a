"""A clock that a test moves."""

from __future__ import annotations

import threading

from ..core.clock import NS_PER_S, Wakeup


class ManualClock:
    """A :class:`~realtime_engine.core.clock.Clock` that advances only by :meth:`advance`.

    Threads may wait on it; each wakes when the time passes its deadline.
    """

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns
        self._changed = threading.Condition()
        self._sleepers: list[tuple[int | None, Wakeup]] = []

    def now_ns(self) -> int:
        """The current time, in nanoseconds."""
        return self._now_ns

    def wait(self, wakeup: Wakeup, until_ns: int | None) -> None:
        """Block until ``wakeup`` is set or until ``until_ns``; ``None``: until ``wakeup`` is set."""
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
        """Return at once: time moves only by :meth:`advance`."""

    def advance(self, seconds: float) -> None:
        """Move time forward and wake the threads whose deadline has passed."""
        self.advance_ns(round(seconds * NS_PER_S))

    def advance_ns(self, nanoseconds: int) -> None:
        """Like :meth:`advance`, exactly."""
        with self._changed:
            self._now_ns += nanoseconds
            for sleeper in list(self._sleepers):
                until_ns, wakeup = sleeper
                if until_ns is not None and until_ns <= self._now_ns:
                    self._sleepers.remove(sleeper)
                    wakeup.notify()

    def wait_for_sleeper(self, timeout_s: float = 10.0) -> int | None:
        """Block, in real time, until a thread waits on this clock; returns its deadline.

        Raises:
            TimeoutError: no thread did within ``timeout_s``.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._asleep()), timeout_s):
                raise TimeoutError(f"no thread went to sleep on the clock within {timeout_s} s")
            return self._asleep()[0]

    def _asleep(self) -> list[int | None]:
        """Sleepers that were not woken; a thread whose event is set is awake, even if it has not run yet."""
        return [until_ns for until_ns, wakeup in self._sleepers if not wakeup.is_set()]

    def advance_to_sleeper(self, timeout_s: float = 10.0) -> None:
        """Block until a thread waits for a deadline, and move time there.

        Raises:
            TimeoutError: no thread waited within ``timeout_s``.
            RuntimeError: the waiting thread has no deadline.
        """
        until_ns = self.wait_for_sleeper(timeout_s)
        if until_ns is None:
            raise RuntimeError("the waiting thread has no deadline")
        self.advance_ns(max(until_ns - self._now_ns, 0))
