from __future__ import annotations

import pytest

from realtime_engine.core.clock import NS_PER_S
from realtime_engine.core.monitor import ServeMonitor
from realtime_engine.server.admission.deadlines import Deadlines
from realtime_engine.testing import ManualClock

PERIOD_MS = 33.0
NS_PER_MS = NS_PER_S // 1000


class Bench:
    """Deadlines of an engine whose step times are given."""

    def __init__(self) -> None:
        self.monitor = ServeMonitor()
        self.clock = ManualClock()
        self.deadlines = Deadlines(self.monitor, PERIOD_MS * NS_PER_MS, self.clock)

    def step(self, ms: float, count: int = 20) -> None:
        for _ in range(count):
            self.monitor.step.record(round(ms * NS_PER_MS))

    def grow(self, *times_ms: float) -> None:
        """Sessions start one after the other; the steps with each number of them take this time."""
        for sessions, ms in enumerate(times_ms):
            assert self.deadlines.allows(sessions)
            assert not self.deadlines.allows(sessions + 1), "nothing is measured yet"
            self.step(ms)


def test_the_first_session_is_always_allowed() -> None:
    bench = Bench()
    assert bench.deadlines.allows(0) and bench.deadlines.next_change_ns() is None
    bench.grow(80.0)
    assert bench.deadlines.allows(0)


def test_the_next_newcomer_waits_for_a_measurement() -> None:
    bench = Bench()
    assert bench.deadlines.allows(0)
    bench.step(5.0, 19)
    assert not bench.deadlines.allows(1), "these steps were before"
    assert bench.deadlines.next_change_ns() is not None
    bench.step(5.0, 19)
    assert not bench.deadlines.allows(1)
    bench.step(5.0, 1)
    assert bench.deadlines.allows(1) and bench.deadlines.next_change_ns() is None


def test_sessions_that_cost_time_each_are_limited_to_those_that_fit() -> None:
    bench = Bench()
    bench.grow(14.0, 28.0)
    assert not bench.deadlines.allows(2), "a third one would take 42 ms of 33"


def test_a_batch_whose_time_does_not_grow_is_filled_even_if_it_is_slow() -> None:
    for ms in (10.0, 80.0):
        bench = Bench()
        bench.grow(*[ms] * 7)
        assert bench.deadlines.allows(7)


def test_what_was_measured_before_counts_for_ten_minutes() -> None:
    bench = Bench()
    bench.grow(20.0, 50.0)
    assert bench.deadlines.allows(2) is False
    bench.deadlines.allows(1)  # one has left
    bench.step(20.0)
    assert not bench.deadlines.allows(1), "two took 50 ms"
    bench.clock.advance(601)
    bench.step(20.0)
    assert bench.deadlines.allows(1)


@pytest.mark.parametrize(("second_ms", "is_allowed"), [(35.0, True), (40.0, False)])
def test_a_tenth_of_the_period_is_tolerated(second_ms: float, is_allowed: bool) -> None:
    bench = Bench()
    bench.grow(20.0, second_ms)
    bench.deadlines.allows(1)
    bench.step(20.0)
    assert bench.deadlines.allows(1) is is_allowed
