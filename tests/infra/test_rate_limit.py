import pytest

from realtime_engine.infra.rate_limit import TokenBucket
from realtime_engine.testing import ManualClock


def test_a_burst_is_free_and_then_the_rate_holds() -> None:
    clock = ManualClock()
    bucket = TokenBucket(10, 5, clock)
    assert [bucket.take(1) for _ in range(5)] == [0] * 5
    assert bucket.take(1) == pytest.approx(0.1)
    clock.advance(0.1)
    assert bucket.take(1) == pytest.approx(0.1)


def test_silence_saves_no_more_than_a_burst() -> None:
    clock = ManualClock()
    bucket = TokenBucket(10, 5, clock)
    clock.advance(1000)
    assert bucket.take(6) == pytest.approx(0.1)


def test_what_costs_more_than_a_burst_is_waited_for() -> None:
    assert TokenBucket(10, 5, ManualClock()).take(25) == pytest.approx(2)
