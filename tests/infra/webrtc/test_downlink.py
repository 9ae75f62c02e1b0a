from __future__ import annotations

import pytest

from realtime_engine.infra.webrtc.downlink import Downlink

S = 1_000_000_000


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
    assert downlink.limit == 540_000 and downlink.congested_ns == S


def test_an_estimate_that_stays_below_what_is_sent_is_the_limit() -> None:
    downlink = Downlink()
    for half_second in range(3):
        assert downlink.limit is None
        downlink.hear_estimate(half_second * S // 2, 600_000, sent=1_000_000)
    assert downlink.limit == 540_000


def test_estimates_that_fall_little_by_little_have_fallen() -> None:
    downlink = Downlink()
    for step in range(5):
        downlink.hear_estimate(step * S, 1_000_000 - 12_000 * step, sent=1_000_000)
    assert downlink.congested_ns == 3 * S


def test_the_limit_grows_slowly_near_the_full_rate_and_fast_beyond() -> None:
    downlink = Downlink()
    downlink.hear_estimate(0, 1_500_000, sent=1_200_000)
    downlink.hear_estimate(S, 850_000, sent=1_200_000)  # full at 1 Mb/s
    limits = []
    for second in range(2, 10):
        sent = downlink.limit or 0
        downlink.hear_estimate(second * S, max(850_000, sent), sent)
        limits.append(downlink.limit)
    expected = [0.9 * 1.1**second for second in range(8)]
    near = [limit for limit in expected if limit <= 1.15 * 1.1]
    assert limits[: len(near)] == pytest.approx([limit * 1e6 for limit in near], rel=1e-3)
    assert limits[len(near)] == pytest.approx(1.5e6 * near[-1], rel=1e-3)


def test_a_limit_that_is_not_used_does_not_grow() -> None:
    downlink = Downlink()
    downlink.hear_estimate(0, 1_500_000, sent=1_200_000)
    for second in range(1, 9):
        downlink.hear_estimate(second * S, 850_000, sent=1_200_000 if second == 1 else 100_000)
    assert downlink.limit == 765_000


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
    assert downlink.limit == 630_000
    downlink.forget()
    assert downlink.limit is None
