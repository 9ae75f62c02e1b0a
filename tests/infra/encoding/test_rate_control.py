from __future__ import annotations

import pytest

from realtime_engine.infra.encoding.rate_control import Cadence, RateBudget, check_bitrate, default_bitrate

NS = 1_000_000_000


def noted(cadence: Cadence, intervals_s: list[float], at_s: float = 0.0) -> float:
    """Note a picture now and one after each interval; the time of the last."""
    cadence.record(round(at_s * NS))
    for interval in intervals_s:
        at_s += interval
        cadence.record(round(at_s * NS))
    return at_s


def test_the_declared_rate_holds_before_the_first_pictures() -> None:
    cadence = Cadence(25)
    cadence.record(0)
    assert cadence.interval_s == pytest.approx(0.04)


@pytest.mark.parametrize("fps", [2, 8, 16, 60])
def test_the_interval_converges_to_the_real_one(fps: int) -> None:
    cadence = Cadence(30)
    noted(cadence, [1 / fps] * 60)
    assert cadence.interval_s == pytest.approx(1 / fps, rel=0.05)


def test_a_pause_does_not_count() -> None:
    cadence = Cadence(30)
    end = noted(cadence, [1 / 30] * 30)
    noted(cadence, [1 / 30] * 3, end + 60.0)
    assert cadence.interval_s == pytest.approx(1 / 30, rel=0.01)


def test_times_that_do_not_advance_count_as_no_interval() -> None:
    cadence = Cadence(30)
    for at_ns in (NS, NS, 0):
        cadence.record(at_ns)
    assert 0 < cadence.interval_s < 1 / 30


@pytest.mark.parametrize("gaps", [[0.04] * 4, [0.0, 0.0, 0.0, 0.16], [0.02, 0.06, 0.03, 0.05]])
def test_allotments_add_up_to_the_rate(gaps: list[float]) -> None:
    budget, at_s, allotted = RateBudget(25), 0.0, 0.0
    for number in range(2000):
        bits = budget.allot(1_000_000, round(at_s * NS))
        budget.spend(round(bits))
        allotted += bits
        at_s += gaps[number % len(gaps)]
    assert allotted == pytest.approx(1_000_000 * at_s, rel=0.01)


@pytest.mark.parametrize("share", [0.85, 1.3])
def test_deviations_from_the_allotment_are_corrected(share: float) -> None:
    budget, spent = RateBudget(30), 0
    for number in range(600):
        bits = round(budget.allot(300_000, number * NS // 30) * share)
        budget.spend(bits)
        spent += bits
    assert spent / 20 == pytest.approx(300_000, rel=0.05)


def test_credit_of_easy_pictures_is_limited() -> None:
    budget = RateBudget(30)
    for number in range(300):
        budget.allot(300_000, number * NS // 30)
    assert budget.allot(300_000, 10 * NS) <= 1.25 * 300_000 / 30 + 1


def test_the_default_bitrate_grows_slower_than_the_picture() -> None:
    assert default_bitrate(640, 360) == 1_500_000
    assert default_bitrate(1280, 720) == pytest.approx(4_000_000, rel=0.01)
    assert default_bitrate(640, 360, fps=15) == 750_000


def test_bitrates_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="is 10000 to"):
        check_bitrate(9_999)
