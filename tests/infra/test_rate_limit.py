import pytest

from realtime_engine.infra.rate_limit import TokenBucket
from realtime_engine.testing import ManualClock


def test_a_burst_is_free_and_then_the_rate_holds() -> None:
    clock = ManualClock()
    bucket = TokenBucket(10, 5, clock)
    assert [bucket.reserve() for _ in range(5)] == [0] * 5
    assert bucket.reserve() == pytest.approx(0.1)
    clock.advance(0.1)
    assert bucket.reserve() == pytest.approx(0.1)


def test_silence_saves_no_more_than_a_burst() -> None:
    clock = ManualClock()
    bucket = TokenBucket(10, 5, clock)
    clock.advance(1000)
    assert bucket.reserve(6) == pytest.approx(0.1)


def test_a_cost_above_the_burst_is_waited_for() -> None:
    assert TokenBucket(10, 5, ManualClock()).reserve(25) == pytest.approx(2)


def test_what_is_not_allowed_costs_nothing() -> None:
    clock = ManualClock()
    bucket = TokenBucket(10, 5, clock)
    assert [bucket.allow() for _ in range(100)].count(True) == 5
    clock.advance(0.2)
    assert [bucket.allow() for _ in range(100)].count(True) == 2
    clock.advance(0.4)
    assert not bucket.allow(5) and bucket.allow(4)
