from __future__ import annotations

import threading

import pytest

from realtime_engine.core.clock import Wakeup
from realtime_engine.testing import ManualClock

WAIT_S = 10.0


class Sleeper:
    """A thread that waits on a clock and tells when it has woken."""

    def __init__(self, clock: ManualClock, until_ns: int | None) -> None:
        self.wakeup = Wakeup()
        self.woken = threading.Event()
        self._thread = threading.Thread(target=self._sleep, args=(clock, until_ns), daemon=True)
        self._thread.start()

    def _sleep(self, clock: ManualClock, until_ns: int | None) -> None:
        clock.wait(self.wakeup, until_ns)
        self.woken.set()

    def wait_until_woken(self) -> None:
        assert self.woken.wait(WAIT_S)
        self._thread.join(WAIT_S)


def test_time_stands_still_until_it_is_moved():
    clock = ManualClock(5)
    assert clock.now_ns() == clock.now_ns() == 5
    clock.advance_ns(3)
    assert clock.now_ns() == 8
    clock.advance(0.5)
    assert clock.now_ns() == 500_000_008


def test_a_minute_passes_at_once():
    clock = ManualClock()
    sleeper = Sleeper(clock, 60 * 10**9)
    assert clock.wait_for_sleeper() == 60 * 10**9
    clock.advance(60)
    sleeper.wait_until_woken()


def test_a_sleeper_stays_asleep_before_its_moment():
    clock = ManualClock()
    sleeper = Sleeper(clock, 100)
    clock.wait_for_sleeper()
    clock.advance_ns(99)
    assert clock.wait_for_sleeper() == 100
    assert not sleeper.woken.is_set()
    clock.advance_ns(1)
    sleeper.wait_until_woken()


def test_a_moment_that_has_passed_is_not_waited_for():
    clock = ManualClock(10)
    clock.wait(Wakeup(), 10)
    clock.wait(Wakeup(), 3)


def test_a_ring_wakes_before_the_moment():
    clock = ManualClock()
    sleeper = Sleeper(clock, 100)
    clock.wait_for_sleeper()
    sleeper.wakeup.notify()
    sleeper.wait_until_woken()
    assert clock.now_ns() == 0
    with pytest.raises(TimeoutError):
        clock.wait_for_sleeper(0)


def test_a_sleeper_without_a_moment_is_woken_by_the_event_alone():
    clock = ManualClock()
    sleeper = Sleeper(clock, None)
    assert clock.wait_for_sleeper() is None
    clock.advance(3600)
    assert not sleeper.woken.is_set()
    with pytest.raises(RuntimeError, match="no deadline"):
        clock.advance_to_sleeper()
    sleeper.wakeup.notify()
    sleeper.wait_until_woken()


def test_advance_to_sleeper_moves_exactly_there():
    clock = ManualClock()
    sleeper = Sleeper(clock, 1234)
    clock.advance_to_sleeper()
    sleeper.wait_until_woken()
    assert clock.now_ns() == 1234


def test_every_sleeper_whose_moment_has_come_is_woken():
    clock = ManualClock()
    early, late = Sleeper(clock, 10), Sleeper(clock, 20)
    with clock._changed:
        assert clock._changed.wait_for(lambda: len(clock._sleepers) == 2, WAIT_S)
    clock.advance_ns(15)
    early.wait_until_woken()
    assert not late.woken.is_set()
    clock.advance_ns(5)
    late.wait_until_woken()


def test_waiting_for_a_sleeper_that_never_comes_ends():
    with pytest.raises(TimeoutError):
        ManualClock().wait_for_sleeper(0)


def test_giving_way_takes_no_time():
    clock = ManualClock()
    clock.yield_now()
    assert clock.now_ns() == 0
