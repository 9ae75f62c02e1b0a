from __future__ import annotations

import pytest

from realtime_engine.infra.webrtc.packet_pacer import BURST, PacketPacer
from realtime_engine.testing import ManualClock

MS = 1_000_000


def dues(size: int, *, frame_s: float = 1 / 60, rate: int = 100_000, limit: int | None = None) -> list[float]:
    """When the packets of a frame are due, in milliseconds from its beginning."""
    clock = ManualClock(7_000_000_000)
    pacer = PacketPacer(clock)
    pacer.start_frame(size, frame_s=frame_s, rate=rate, limit=limit)
    begun_ns = clock.now_ns()
    return [(pacer.due_ns(min(1200, size - sent)) - begun_ns) / MS for sent in range(0, size, 1200)]


@pytest.mark.parametrize("size", [1, 1200, BURST])
def test_a_small_frame_is_sent_at_once(size: int) -> None:
    assert set(dues(size)) == {0}


def test_a_large_frame_is_spread_over_most_of_the_time_to_the_next() -> None:
    times = dues(60_000)
    assert times == sorted(times) and times.count(0) == BURST // 1200
    assert times[-1] == pytest.approx(0.8 * 1000 / 60)
    gaps = [later - earlier for earlier, later in zip(times[10:], times[11:], strict=False)]
    assert max(gaps) == pytest.approx(min(gaps), rel=1e-4)


def test_a_frame_takes_a_thirtieth_of_a_second_at_most() -> None:
    assert dues(60_000, frame_s=1.0)[-1] == pytest.approx(1000 / 30)


def test_a_frame_slightly_above_the_burst_is_delayed_slightly() -> None:
    assert dues(BURST + 1200, rate=1_500_000)[-1] == pytest.approx(8 * 1200 / (4 * 1_500_000) * 1000)


def test_a_frame_is_spread_without_a_rate_too() -> None:
    assert dues(60_000, rate=0)[-1] == pytest.approx(0.8 * 1000 / 60)


def test_the_viewers_limit_bounds_the_send_rate() -> None:
    times = dues(12_000, rate=1_500_000, limit=960_000)
    assert times.count(0) == 3
    assert times[-1] == pytest.approx(8 * (12_000 - 4000) / (1.25 * 960_000) * 1000)


def test_a_frame_of_the_usual_size_is_not_delayed_by_the_limit() -> None:
    assert set(dues(4000, limit=960_000)) == {0}


def test_a_huge_frame_is_sent_within_a_quarter_of_a_second() -> None:
    assert dues(120_000, limit=100_000)[-1] == pytest.approx(250)
