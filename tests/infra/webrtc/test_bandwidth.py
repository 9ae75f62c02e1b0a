from __future__ import annotations

import pytest

from realtime_engine.infra.webrtc.bandwidth import Downlink

S = 1_000_000_000


def congested() -> Downlink:
    """One that was full at 1 Mb/s in second 1."""
    downlink = Downlink()
    downlink.hear_estimate(0, 1_500_000, sent=1_200_000)
    downlink.hear_estimate(S, 850_000, sent=1_200_000)
    return downlink


def test_nothing_speaks_against_any_rate_at_first() -> None:
    downlink = Downlink()
    assert downlink.limit is None and downlink.congested_ns is None


def test_an_estimate_that_rises_or_is_low_because_little_is_sent_limits_nothing() -> None:
    downlink = Downlink()
    for second, estimate in enumerate((90_000, 120_000, 150_000)):
        downlink.hear_estimate(second * S, estimate, sent=90_000)
    downlink.hear_estimate(4 * S, 160_000, sent=1_500_000)  # the picture moves, the estimate follows
    downlink.hear_estimate(5 * S, 100_000, sent=60_000)  # it rests
    assert downlink.limit is None


def test_an_estimate_that_falls_below_what_is_sent_is_the_limit() -> None:
    downlink = Downlink()
    downlink.hear_estimate(0, 1_400_000, sent=1_000_000)
    downlink.hear_estimate(S, 600_000, sent=1_000_000)
    assert downlink.limit == 570_000 and downlink.congested_ns == S


def test_an_estimate_that_stays_below_what_is_sent_is_the_limit() -> None:
    downlink = Downlink()
    for half_second in range(3):
        assert downlink.limit is None
        downlink.hear_estimate(half_second * S // 2, 600_000, sent=1_000_000)
    assert downlink.limit == 570_000


def test_estimates_that_fall_little_by_little_have_fallen() -> None:
    downlink = Downlink()
    for step in range(5):
        downlink.hear_estimate(step * S, 1_000_000 - 12_000 * step, sent=1_000_000)
    assert downlink.congested_ns == 3 * S


def test_the_limit_grows_slowly_near_the_full_rate_and_fast_beyond() -> None:
    downlink = congested()
    limits = []
    for second in range(2, 10):
        sent = downlink.limit or 0
        downlink.hear_round_trip(second * S, 0.05, sent)
        downlink.hear_estimate(second * S, max(850_000, sent), sent)
        limits.append(downlink.limit)
    expected = [0.9 * 1.15**second for second in range(8)]
    near = [limit for limit in expected if limit <= 1.15 * 1.15]
    assert limits[: len(near)] == pytest.approx([limit * 1e6 for limit in near], rel=1e-3)
    assert limits[len(near)] == pytest.approx(1.5e6 * near[-1], rel=1e-3)


def test_without_a_round_trip_the_limit_stays_near_the_estimate() -> None:
    downlink = congested()
    for second in range(2, 10):
        downlink.hear_estimate(second * S, 850_000, sent=downlink.limit or 0)
    assert downlink.limit == 935_000


def test_a_short_round_trip_tells_an_estimate_that_lags_behind_from_congestion() -> None:
    downlink = congested()
    for second in range(2, 10):
        downlink.hear_round_trip(second * S, 0.05, sent=downlink.limit or 0)
        downlink.hear_estimate(second * S, 850_000, sent=downlink.limit or 0)
    assert downlink.limit is not None and downlink.limit > 2_000_000 and downlink.congested_ns == S


def test_a_long_round_trip_is_congestion_once_in_a_while() -> None:
    downlink = Downlink()
    for second in range(3):
        downlink.hear_round_trip(second * S, 0.05 + 0.07 * second, sent=1_000_000)
        assert downlink.limit is None
    downlink.hear_round_trip(3 * S, 0.25, sent=1_000_000)
    assert downlink.limit == 850_000 and downlink.congested_ns == 3 * S
    downlink.hear_round_trip(4 * S, 0.25, sent=850_000)  # it takes time to become shorter
    assert downlink.limit == 850_000
    downlink.hear_round_trip(5 * S, 0.25, sent=800_000)
    assert downlink.limit == 680_000


def test_a_way_that_became_longer_is_no_congestion_for_long() -> None:
    downlink = Downlink()
    downlink.hear_round_trip(0, 0.05, sent=1_000_000)
    for second in range(1, 30):
        downlink.hear_round_trip(second * S, 0.3, sent=1_000_000)
    assert downlink.congested_ns is not None and downlink.congested_ns <= 10 * S


def again_full(downlink: Downlink, second: int) -> None:
    """It seems full at 0.7 Mb/s."""
    for step in (second - 2, second - 1):
        downlink.hear_round_trip(step * S, 0.05, sent=700_000)
        downlink.hear_estimate(step * S, 850_000, sent=700_000)
    downlink.hear_estimate(second * S, 595_000, sent=700_000)


@pytest.mark.parametrize(("times", "knee"), [(1, 0.9 * 900_000), (2, 0.9 * 700_000)])
def test_a_lower_full_rate_is_believed_when_it_is_seen_twice(times: int, knee: float) -> None:
    downlink = congested()
    for time in range(times):
        again_full(downlink, 10 + 10 * time)
    limits = []
    for second in range(40, 44):
        downlink.hear_round_trip(second * S, 0.05, sent=700_000)
        downlink.hear_estimate(second * S, 595_000, sent=downlink.limit or 0)
        limits.append(downlink.limit)
    assert int(knee) in limits


def test_a_limit_that_is_not_used_does_not_grow() -> None:
    downlink = Downlink()
    downlink.hear_estimate(0, 1_500_000, sent=1_200_000)
    for second in range(1, 9):
        downlink.hear_estimate(second * S, 850_000, sent=1_200_000 if second == 1 else 100_000)
    assert downlink.limit == 807_500


def test_loss_lowers_no_further_what_an_estimate_has_just_lowered() -> None:
    downlink = congested()
    limit = downlink.limit
    downlink.hear_loss(2 * S, 0.4, sent=900_000)
    assert downlink.limit == limit
    downlink.hear_loss(4 * S, 0.4, sent=800_000)
    assert downlink.limit == 640_000


def test_much_loss_lowers_the_limit_and_little_loss_raises_it() -> None:
    downlink = Downlink()
    downlink.hear_loss(0, 0.05, sent=1_000_000)
    assert downlink.limit is None
    downlink.hear_loss(S, 0.4, sent=1_000_000)
    assert downlink.limit == 800_000 and downlink.congested_ns == S
    downlink.hear_loss(2 * S, 0.05, sent=800_000)
    assert downlink.limit == 800_000
    downlink.hear_loss(3 * S, 0.0, sent=800_000)
    assert downlink.limit == 864_000


def test_the_lower_of_both_counts_until_they_are_forgotten() -> None:
    downlink = Downlink()
    downlink.hear_loss(0, 0.2, sent=1_000_000)
    downlink.hear_estimate(0, 1_000_000, sent=1_000_000)
    downlink.hear_estimate(S, 700_000, sent=1_000_000)
    assert downlink.limit == 665_000
    downlink.forget()
    assert downlink.limit is None


def test_a_limit_that_recovers_for_hours_stays_a_number_and_ends() -> None:
    downlink = Downlink()
    downlink.hear_loss(0, 0.5, sent=1_000_000)
    for second in range(1, 10_000):
        downlink.hear_loss(second * S, 0.0, sent=1_000_000)
        assert downlink.limit is None or downlink.limit <= 1_000_000_000
    assert downlink.limit is None


def test_reports_while_nothing_is_sent_limit_nothing() -> None:
    downlink = Downlink()
    downlink.hear_loss(0, 0.9, sent=0)
    for second, seconds in enumerate((0.05, 0.5, 0.5, 0.5)):
        downlink.hear_round_trip(second * S, seconds, sent=0)
    assert downlink.limit is None


def test_a_flood_of_reports_is_not_remembered() -> None:
    downlink = Downlink()
    for number in range(2000):
        downlink.hear_round_trip(number, 0.05, sent=1_000_000)
    assert len(downlink._round_trips) <= 64
