from __future__ import annotations

import threading

from realtime_engine import MonotonicClock
from realtime_engine.core.clock import Wakeup

from .stage_models import WAIT_S


def test_a_ring_before_the_wait_is_remembered():
    wakeup = Wakeup()
    wakeup.notify()
    assert wakeup.wait(WAIT_S)


def test_answering_clears_all_rings():
    wakeup = Wakeup()
    wakeup.notify()
    wakeup.notify()
    assert wakeup.wait(0)
    assert not wakeup.wait(0)


def test_a_ring_from_another_thread_wakes_the_sleeper():
    wakeup, woken = Wakeup(), threading.Event()

    def sleep() -> None:
        wakeup.wait()
        woken.set()

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    wakeup.notify()
    assert woken.wait(WAIT_S)
    sleeper.join()


class RungAtTheLastMoment:
    """An event that is set right after its wait has timed out."""

    def __init__(self) -> None:
        self.inner = threading.Event()

    def wait(self, timeout: float | None) -> bool:
        was_set = self.inner.is_set()
        self.inner.set()
        return was_set

    def clear(self) -> None:
        self.inner.clear()


def test_a_ring_between_the_timeout_and_the_answer_is_not_lost():
    wakeup = Wakeup()
    wakeup._event = RungAtTheLastMoment()
    first = wakeup.wait(0)
    assert first or wakeup.wait(0)


def test_the_monotonic_clock_never_goes_back():
    clock = MonotonicClock()
    readings = [clock.now_ns() for _ in range(1000)]
    assert readings == sorted(readings)


def test_waiting_for_a_moment_that_has_passed_returns_at_once_and_keeps_the_ring():
    clock, wakeup = MonotonicClock(), Wakeup()
    wakeup.notify()
    clock.wait(wakeup, clock.now_ns() - 1)
    assert wakeup.wait(0)


def test_waiting_ends_at_the_moment():
    clock, wakeup = MonotonicClock(), Wakeup()
    until = clock.now_ns() + 2_000_000
    clock.wait(wakeup, until)
    assert clock.now_ns() >= until


def test_a_ring_ends_a_wait_for_a_distant_moment():
    clock, wakeup = MonotonicClock(), Wakeup()
    wakeup.notify()
    until = clock.now_ns() + 3_600 * 10**9
    clock.wait(wakeup, until)
    assert clock.now_ns() < until


def test_waiting_without_a_moment_waits_for_the_ring():
    clock, wakeup = MonotonicClock(), Wakeup()
    wakeup.notify()
    clock.wait(wakeup, None)
    assert not wakeup.wait(0)


def test_give_way_returns():
    MonotonicClock().give_way()
