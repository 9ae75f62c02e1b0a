from __future__ import annotations

import pytest

from realtime_engine.infra.webrtc.bandwidth import BandwidthEstimator

S = 1_000_000_000


def congested() -> BandwidthEstimator:
    """One that was full at 1 Mb/s in second 1."""
    bandwidth = BandwidthEstimator()
    bandwidth.on_estimate(0, 1_500_000, sent=1_200_000)
    bandwidth.on_estimate(S, 850_000, sent=1_200_000)
    return bandwidth


def test_there_is_no_limit_at_first() -> None:
    bandwidth = BandwidthEstimator()
    assert bandwidth.limit is None and bandwidth.congested_ns is None


def test_a_rising_estimate_and_one_of_little_traffic_set_no_limit() -> None:
    bandwidth = BandwidthEstimator()
    for second, estimate in enumerate((90_000, 120_000, 150_000)):
        bandwidth.on_estimate(second * S, estimate, sent=90_000)
    bandwidth.on_estimate(4 * S, 160_000, sent=1_500_000)  # the picture moves, the estimate follows
    bandwidth.on_estimate(5 * S, 100_000, sent=60_000)  # it rests
    assert bandwidth.limit is None


def test_an_estimate_that_falls_below_the_sent_rate_is_the_limit() -> None:
    bandwidth = BandwidthEstimator()
    bandwidth.on_estimate(0, 1_400_000, sent=1_000_000)
    bandwidth.on_estimate(S, 600_000, sent=1_000_000)
    assert bandwidth.limit == 570_000 and bandwidth.congested_ns == S


def test_an_estimate_that_stays_below_the_sent_rate_is_the_limit() -> None:
    bandwidth = BandwidthEstimator()
    for half_second in range(3):
        assert bandwidth.limit is None
        bandwidth.on_estimate(half_second * S // 2, 600_000, sent=1_000_000)
    assert bandwidth.limit == 570_000


def test_a_slow_fall_of_estimates_is_detected() -> None:
    bandwidth = BandwidthEstimator()
    for step in range(5):
        bandwidth.on_estimate(step * S, 1_000_000 - 12_000 * step, sent=1_000_000)
    assert bandwidth.congested_ns == 3 * S


def test_the_limit_grows_slowly_near_the_full_rate_and_fast_beyond() -> None:
    bandwidth = congested()
    limits = []
    for second in range(2, 10):
        sent = bandwidth.limit or 0
        bandwidth.on_round_trip(second * S, 0.05, sent)
        bandwidth.on_estimate(second * S, max(850_000, sent), sent)
        limits.append(bandwidth.limit)
    expected = [0.9 * 1.15**second for second in range(8)]
    near = [limit for limit in expected if limit <= 1.15 * 1.15]
    assert limits[: len(near)] == pytest.approx([limit * 1e6 for limit in near], rel=1e-3)
    assert limits[len(near)] == pytest.approx(1.5e6 * near[-1], rel=1e-3)


def test_without_a_round_trip_the_limit_stays_near_the_estimate() -> None:
    bandwidth = congested()
    for second in range(2, 10):
        bandwidth.on_estimate(second * S, 850_000, sent=bandwidth.limit or 0)
    assert bandwidth.limit == 935_000


def test_a_short_round_trip_shows_that_a_low_estimate_only_lags() -> None:
    bandwidth = congested()
    for second in range(2, 10):
        bandwidth.on_round_trip(second * S, 0.05, sent=bandwidth.limit or 0)
        bandwidth.on_estimate(second * S, 850_000, sent=bandwidth.limit or 0)
    assert bandwidth.limit is not None and bandwidth.limit > 2_000_000 and bandwidth.congested_ns == S


def test_a_long_round_trip_counts_as_congestion_at_intervals() -> None:
    bandwidth = BandwidthEstimator()
    for second in range(3):
        bandwidth.on_round_trip(second * S, 0.05 + 0.07 * second, sent=1_000_000)
        assert bandwidth.limit is None
    bandwidth.on_round_trip(3 * S, 0.25, sent=1_000_000)
    assert bandwidth.limit == 850_000 and bandwidth.congested_ns == 3 * S
    bandwidth.on_round_trip(4 * S, 0.25, sent=850_000)  # it takes time to become shorter
    assert bandwidth.limit == 850_000
    bandwidth.on_round_trip(5 * S, 0.25, sent=800_000)
    assert bandwidth.limit == 680_000


def test_a_path_that_has_become_longer_is_not_congestion_for_long() -> None:
    bandwidth = BandwidthEstimator()
    bandwidth.on_round_trip(0, 0.05, sent=1_000_000)
    for second in range(1, 30):
        bandwidth.on_round_trip(second * S, 0.3, sent=1_000_000)
    assert bandwidth.congested_ns is not None and bandwidth.congested_ns <= 10 * S


def again_full(bandwidth: BandwidthEstimator, second: int) -> None:
    """It seems full at 0.7 Mb/s."""
    for step in (second - 2, second - 1):
        bandwidth.on_round_trip(step * S, 0.05, sent=700_000)
        bandwidth.on_estimate(step * S, 850_000, sent=700_000)
    bandwidth.on_estimate(second * S, 595_000, sent=700_000)


@pytest.mark.parametrize(("times", "knee"), [(1, 0.9 * 900_000), (2, 0.9 * 700_000)])
def test_a_lower_full_rate_must_be_seen_twice(times: int, knee: float) -> None:
    bandwidth = congested()
    for time in range(times):
        again_full(bandwidth, 10 + 10 * time)
    limits = []
    for second in range(40, 44):
        bandwidth.on_round_trip(second * S, 0.05, sent=700_000)
        bandwidth.on_estimate(second * S, 595_000, sent=bandwidth.limit or 0)
        limits.append(bandwidth.limit)
    assert int(knee) in limits


def test_an_unused_limit_does_not_grow() -> None:
    bandwidth = BandwidthEstimator()
    bandwidth.on_estimate(0, 1_500_000, sent=1_200_000)
    for second in range(1, 9):
        bandwidth.on_estimate(second * S, 850_000, sent=1_200_000 if second == 1 else 100_000)
    assert bandwidth.limit == 807_500


def test_loss_does_not_lower_the_limit_of_a_recent_estimate() -> None:
    bandwidth = congested()
    limit = bandwidth.limit
    bandwidth.on_loss(2 * S, 0.4, sent=900_000)
    assert bandwidth.limit == limit
    bandwidth.on_loss(4 * S, 0.4, sent=800_000)
    assert bandwidth.limit == 640_000


def test_much_loss_lowers_the_limit_and_little_loss_raises_it() -> None:
    bandwidth = BandwidthEstimator()
    bandwidth.on_loss(0, 0.05, sent=1_000_000)
    assert bandwidth.limit is None
    bandwidth.on_loss(S, 0.4, sent=1_000_000)
    assert bandwidth.limit == 800_000 and bandwidth.congested_ns == S
    bandwidth.on_loss(2 * S, 0.05, sent=800_000)
    assert bandwidth.limit == 800_000
    bandwidth.on_loss(3 * S, 0.0, sent=800_000)
    assert bandwidth.limit == 864_000


def test_the_lower_limit_counts_until_the_reset() -> None:
    bandwidth = BandwidthEstimator()
    bandwidth.on_loss(0, 0.2, sent=1_000_000)
    bandwidth.on_estimate(0, 1_000_000, sent=1_000_000)
    bandwidth.on_estimate(S, 700_000, sent=1_000_000)
    assert bandwidth.limit == 665_000
    bandwidth.reset()
    assert bandwidth.limit is None


def test_a_recovering_limit_ends_and_does_not_overflow() -> None:
    bandwidth = BandwidthEstimator()
    bandwidth.on_loss(0, 0.5, sent=1_000_000)
    for second in range(1, 10_000):
        bandwidth.on_loss(second * S, 0.0, sent=1_000_000)
        assert bandwidth.limit is None or bandwidth.limit <= 1_000_000_000
    assert bandwidth.limit is None


def test_reports_while_nothing_is_sent_set_no_limit() -> None:
    bandwidth = BandwidthEstimator()
    bandwidth.on_loss(0, 0.9, sent=0)
    for second, seconds in enumerate((0.05, 0.5, 0.5, 0.5)):
        bandwidth.on_round_trip(second * S, seconds, sent=0)
    assert bandwidth.limit is None


def test_a_flood_of_reports_does_not_fill_the_memory() -> None:
    bandwidth = BandwidthEstimator()
    for number in range(2000):
        bandwidth.on_round_trip(number, 0.05, sent=1_000_000)
    assert len(bandwidth._round_trips) <= 64
