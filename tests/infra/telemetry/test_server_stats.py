from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from realtime_engine.infra.telemetry.server_stats import LoopMonitor
from realtime_engine.testing import ManualClock

from ..webrtc.support import until

MS = 1_000_000


class FakeTimer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeLoop:
    """Rings when a test wants it."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._pending: tuple[float, Callable[..., Any], tuple[Any, ...]]
        self.timers: list[FakeTimer] = []

    def call_later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> FakeTimer:
        self._pending = (delay_s, callback, args)
        self.timers.append(FakeTimer())
        return self.timers[-1]

    def ring(self, late_s: float) -> None:
        delay_s, callback, args = self._pending
        self._clock.advance(delay_s + late_s)
        callback(*args)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def loop(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> FakeLoop:
    loop = FakeLoop(clock)
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    return loop


def test_each_delay_is_recorded_by_itself(clock: ManualClock, loop: FakeLoop) -> None:
    monitor = LoopMonitor(0.02, clock)
    monitor.start()
    for late_s in [0.0] * 98 + [0.05, 0.0]:
        loop.ring(late_s)
    lag = monitor.snapshot()
    assert lag.count == 100 and lag.max_ns == 50 * MS and lag.sum_ns == 50 * MS
    assert lag.quantile_ns(0.5) == 0 and lag.quantile_ns(1.0) == 50 * MS


def test_it_starts_once_and_stops(clock: ManualClock, loop: FakeLoop) -> None:
    monitor = LoopMonitor(0.02, clock)
    monitor.stop()
    monitor.start()
    monitor.start()
    assert len(loop.timers) == 1
    monitor.stop()
    monitor.stop()
    assert loop.timers[0].cancelled
    monitor.start()
    assert len(loop.timers) == 2


def test_a_period_is_positive() -> None:
    with pytest.raises(ValueError, match="above 0"):
        LoopMonitor(0)


async def test_a_callback_that_blocks_a_real_loop_is_seen() -> None:
    clock = ManualClock()
    monitor = LoopMonitor(0.001, clock)
    monitor.start()
    clock.advance(0.2)  # as if something had run for so long
    await until(lambda: monitor.snapshot().count > 0, pause_s=0.001)
    monitor.stop()
    assert monitor.snapshot().peak_ns == 199 * MS
