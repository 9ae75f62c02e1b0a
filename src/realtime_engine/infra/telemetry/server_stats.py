"""How late an event loop is: every callback that runs for long holds up all that wait behind it."""

from __future__ import annotations

import asyncio

from ...core.clock import MONOTONIC, NS_PER_S, Clock
from ...core.monitor import Histogram, HistogramSnapshot

PERIOD_S = 0.02


class LoopMonitor:
    """Sets a timer again and again and records by how much it comes too late; about 0.1 % of a processor.

    Args:
        period_s: from one timer to the next.
        clock: measures the delay.
    """

    def __init__(self, period_s: float = PERIOD_S, clock: Clock = MONOTONIC) -> None:
        if not period_s > 0:
            raise ValueError(f"a period is above 0 seconds, got {period_s!r}")
        self._period_ns = round(period_s * NS_PER_S)
        self._clock = clock
        self._lag = Histogram()
        self._due_ns = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Watch the loop that runs. May be called again."""
        if self._timer is None:
            self._set_timer(asyncio.get_running_loop())

    def stop(self) -> None:
        """Watch no more. May be called again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def snapshot(self) -> HistogramSnapshot:
        """Delays so far; :attr:`HistogramSnapshot.max_ns` is the longest."""
        return self._lag.snapshot()

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due_ns = self._clock.now_ns() + self._period_ns
        self._timer = loop.call_later(self._period_ns / NS_PER_S, self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._lag.record(self._clock.now_ns() - self._due_ns)
        self._set_timer(loop)
