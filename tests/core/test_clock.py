from __future__ import annotations

import math
import threading

from hypothesis import given
from hypothesis import strategies as st

from realtime_engine import MonotonicClock
from realtime_engine.core.clock import Deadline, Deadlines, Wakeup

from .stage_models import WAIT_S


def test_an_event_set_before_the_wait_is_remembered():
    wakeup = Wakeup()
    wakeup.notify()
    assert wakeup.wait(WAIT_S)


def test_a_wait_clears_the_event():
    wakeup = Wakeup()
    wakeup.notify()
    wakeup.notify()
    assert wakeup.wait(0)
    assert not wakeup.wait(0)


def test_another_thread_ends_the_wait():
    wakeup, woken = Wakeup(), threading.Event()

    def sleep() -> None:
        wakeup.wait()
        woken.set()

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    wakeup.notify()
    assert woken.wait(WAIT_S)
    sleeper.join()


class SetAtTheLastMoment:
    """An event that is set right after its wait has timed out."""

    def __init__(self) -> None:
        self.inner = threading.Event()

    def wait(self, timeout: float | None) -> bool:
        was_set = self.inner.is_set()
        self.inner.set()
        return was_set

    def clear(self) -> None:
        self.inner.clear()


def test_an_event_set_between_the_timeout_and_the_clear_is_not_lost():
    wakeup = Wakeup()
    wakeup._event = SetAtTheLastMoment()
    first = wakeup.wait(0)
    assert first or wakeup.wait(0)


def test_the_monotonic_clock_never_goes_back():
    clock = MonotonicClock()
    readings = [clock.now_ns() for _ in range(1000)]
    assert readings == sorted(readings)


def test_a_wait_for_a_moment_that_has_passed_returns_at_once_and_keeps_the_event():
    clock, wakeup = MonotonicClock(), Wakeup()
    wakeup.notify()
    clock.wait(wakeup, clock.now_ns() - 1)
    assert wakeup.wait(0)


def test_waiting_ends_at_the_moment():
    clock, wakeup = MonotonicClock(), Wakeup()
    until = clock.now_ns() + 2_000_000
    clock.wait(wakeup, until)
    assert clock.now_ns() >= until


def test_the_event_ends_a_wait_for_a_distant_moment():
    clock, wakeup = MonotonicClock(), Wakeup()
    wakeup.notify()
    until = clock.now_ns() + 3_600 * 10**9
    clock.wait(wakeup, until)
    assert clock.now_ns() < until


def test_a_wait_without_a_moment_waits_for_the_event():
    clock, wakeup = MonotonicClock(), Wakeup()
    wakeup.notify()
    clock.wait(wakeup, None)
    assert not wakeup.wait(0)


def test_yield_now_returns():
    MonotonicClock().yield_now()


INTERVAL = 1000


def test_the_first_tick_is_due_at_once():
    assert Deadlines(INTERVAL, 50).next_ns == 50


def test_deadlines_do_not_drift_with_late_ticks():
    deadlines = Deadlines(INTERVAL, 0)
    for n in range(1, 100):
        assert deadlines.tick_ended(deadlines.next_ns + 300) == 0
        assert deadlines.next_ns == n * INTERVAL


def test_a_tick_that_ends_too_late_counts_and_the_next_begins_at_once():
    deadlines = Deadlines(INTERVAL, 0)
    assert deadlines.tick_ended(1500) == 1
    assert deadlines.next_ns == 1000


def test_a_long_stall_is_followed_by_one_tick_and_not_by_a_burst():
    deadlines = Deadlines(INTERVAL, 0)
    assert deadlines.tick_ended(10_500) == 10
    assert deadlines.next_ns == 10_000
    assert deadlines.tick_ended(10_600) == 0
    assert deadlines.next_ns == 11_000


def test_after_idleness_the_next_tick_is_due_now():
    deadlines = Deadlines(INTERVAL, 0)
    deadlines.tick_ended(10)
    deadlines.resume(5_300)
    assert deadlines.next_ns == 5_300


def test_coming_back_early_does_not_shorten_the_interval():
    deadlines = Deadlines(INTERVAL, 0)
    deadlines.tick_ended(10)
    deadlines.resume(20)
    assert deadlines.next_ns == INTERVAL


def test_an_interval_of_zero_never_overruns():
    deadlines = Deadlines(0, 5)
    assert deadlines.tick_ended(100) == 0
    assert deadlines.next_ns == 100


@given(st.lists(st.integers(0, 5_000), min_size=1, max_size=50))
def test_deadlines_stay_on_the_grid_and_overruns_are_the_deadlines_that_passed(durations):
    deadlines, now, overruns = Deadlines(INTERVAL, 0), 0, 0
    for duration in durations:
        now = max(now, deadlines.next_ns) + duration
        before = deadlines.next_ns
        passed = deadlines.tick_ended(now)
        overruns += passed
        assert deadlines.next_ns % INTERVAL == 0
        assert before < deadlines.next_ns
        assert passed == sum(1 for grid in range(before + INTERVAL, now + 1, INTERVAL))
        assert deadlines.next_ns > now - INTERVAL, "an old deadline would make a burst"


def test_the_remaining_time_is_never_negative_and_never_too_long_for_a_lock() -> None:
    assert 0.0 < Deadline(60.0).remaining() <= 60.0
    assert Deadline(0.0).remaining() == 0.0 == Deadline(-1.0).remaining()
    assert Deadline(math.inf).remaining() == threading.TIMEOUT_MAX
