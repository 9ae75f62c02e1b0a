from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.core.deadlines import Deadlines

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
