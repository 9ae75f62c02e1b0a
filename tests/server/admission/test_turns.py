from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.core.clock import NS_PER_S
from realtime_engine.server.admission.turns import TurnEnd, TurnLengths, Turns, expected_waits_s
from realtime_engine.testing import ManualClock

TURN_S, NOTICE_S = 60.0, 10.0


def ns(seconds: float) -> int:
    return round(seconds * NS_PER_S)


def turns(clock: ManualClock, turn_s: float | None = TURN_S, idle_s: float | None = None) -> Turns:
    return Turns(clock, turn_s=turn_s, idle_s=idle_s, notice_s=NOTICE_S)


def test_a_turn_ends_only_for_those_who_wait_and_the_oldest_first() -> None:
    clock = ManualClock(ns(100))
    found = turns(clock)
    started = {"a": ns(80), "b": ns(90)}
    assert found.review(started, 0) == [] and found.deadlines == {}
    assert found.review(started, 1) == [] and found.deadlines == {"a": TurnEnd(ns(140))}
    assert found.review(started, 5) == [] and found.deadlines == {"a": TurnEnd(ns(140)), "b": TurnEnd(ns(150))}
    assert found.next_change_ns() == ns(140)
    clock.advance(40)
    assert found.review(started, 1) == ["a"]


def test_a_session_that_has_played_longer_gets_a_notice() -> None:
    clock = ManualClock(ns(1000))
    found = turns(clock)
    assert found.review({"a": 0}, 1) == []
    assert found.deadlines == {"a": TurnEnd(ns(1000 + NOTICE_S))}
    clock.advance(5)
    found.review({"a": 0}, 1)
    assert found.deadlines == {"a": TurnEnd(ns(1000 + NOTICE_S))}, "the notice is not given again"


def test_a_deadline_is_cancelled_with_the_need() -> None:
    clock = ManualClock(ns(1000))
    found = turns(clock)
    found.review({"a": 0}, 1)
    clock.advance(NOTICE_S)
    assert found.review({"a": 0}, 0) == [] and found.next_change_ns() is None
    assert found.review({"a": 0}, -2) == []


def test_turns_without_a_limit_never_end() -> None:
    clock = ManualClock(ns(10_000))
    assert turns(clock, None).review({"a": 0}, 3) == []


def test_a_session_without_input_ends_first() -> None:
    clock = ManualClock(ns(100))
    found = turns(clock, idle_s=30)
    started, last = {"a": ns(0), "b": ns(90)}, {"a": ns(99), "b": ns(70)}
    found.review(started, 0, last)
    assert found.deadlines == {} and found.next_change_ns() is None
    assert found.review(started, 1, last) == [] and found.deadlines == {"b": TurnEnd(ns(110), is_idle=True)}
    found.review(started, 2, last)
    assert found.deadlines == {"b": TurnEnd(ns(110), is_idle=True), "a": TurnEnd(ns(110))}
    clock.advance(4)
    last["b"] = ns(104)
    found.review(started, 1, last)
    assert found.deadlines == {"a": TurnEnd(ns(110))}
    last["a"] = ns(50)
    found.review(started, 1, last)
    assert found.deadlines == {"a": TurnEnd(ns(114), is_idle=True)}
    clock.advance(10)
    assert found.review(started, 1, last) == ["a"]


def test_without_turns_idle_sessions_end_and_their_idleness_is_a_time_of_review() -> None:
    clock = ManualClock(ns(100))
    found = turns(clock, None, idle_s=30)
    last = {"a": ns(95), "b": ns(80)}
    assert found.review({"a": 0, "b": 0}, 1, last) == [] and found.deadlines == {}
    assert found.next_change_ns() == ns(110)
    clock.advance(10)
    found.review({"a": 0, "b": 0}, 1, last)
    assert found.deadlines == {"b": TurnEnd(ns(120), is_idle=True)}
    assert found.next_change_ns() == ns(120)


def test_the_expected_length_is_measured() -> None:
    unlimited, limited = TurnLengths(None), TurnLengths(30.0)
    assert (unlimited.expected_s, limited.expected_s) == (120.0, 30.0)
    for lengths in (unlimited, limited):
        lengths.record(ns(40))
        lengths.record(ns(20))
    assert unlimited.expected_s == 30.0
    limited.record(ns(3000))
    assert limited.expected_s == 30.0, "a turn is not expected to last beyond its limit"


@pytest.mark.parametrize(
    ("free", "ages_s", "expected"),
    [
        (1, [], [0, 60, 120]),
        (0, [50], [10, 70, 130]),
        (0, [50, 20], [10, 40, 70, 100]),
        (1, [50], [0, 10, 60, 70]),
        (0, [90], [30, 90]),
        (0, [], []),
    ],
)
def test_expected_waits(free: int, ages_s: list[float], expected: list[float]) -> None:
    waits = itertools.islice(expected_waits_s(free, ages_s, 60.0), len(expected) or 1)
    assert list(waits) == expected


@given(
    free=st.integers(0, 3),
    ages_s=st.lists(st.floats(0, 500), max_size=5),
    length_s=st.floats(0.1, 300),
)
def test_nobody_waits_less_than_those_before(free: int, ages_s: list[float], length_s: float) -> None:
    waits = list(itertools.islice(expected_waits_s(free, ages_s, length_s), 30))
    assert waits == sorted(waits) and all(wait >= 0 for wait in waits)
    assert waits[:free] == [0.0] * min(free, len(waits))
