from __future__ import annotations

from realtime_engine.infra.webcodecs import RateEstimate

MS = 1_000_000


def interval(estimate: RateEstimate, start_ms: int, *, size: int, span_ms: int, full: bool = True) -> float | None:
    """Half a second in which ``size`` bytes arrived within ``span_ms`` of the first arrival."""
    if full:
        estimate.hold_back()
    estimate.arrive(77_777, (start_ms + 10) * MS, is_last=False)
    estimate.arrive(size, (start_ms + 10 + span_ms) * MS, is_last=True)
    assert estimate.review((start_ms + 500) * MS)
    return estimate.bits_per_s


def test_a_link_that_held_nothing_back_says_nothing() -> None:
    assert interval(RateEstimate(0), 0, size=100_000, span_ms=100, full=False) is None


def test_a_full_link_takes_what_arrives_after_the_first_of_a_row() -> None:
    estimate = RateEstimate(0)
    assert interval(estimate, 0, size=50_000, span_ms=400) == 1_000_000
    assert not estimate.review(600 * MS), "in the middle of an interval"
    estimate.hold_back()
    for end_ms in (700, 900):  # two rows, and nothing on its way between them
        estimate.arrive(1, (end_ms - 50) * MS, is_last=False)
        estimate.arrive(5_000, end_ms * MS, is_last=True)
    assert estimate.review(1000 * MS) and estimate.bits_per_s == 800_000


def test_a_row_goes_on_over_the_end_of_an_interval() -> None:
    estimate = RateEstimate(0)
    estimate.hold_back()
    estimate.arrive(1, 300 * MS, is_last=False)
    estimate.arrive(25_000, 400 * MS, is_last=False)
    assert estimate.review(500 * MS) and estimate.bits_per_s == 2_000_000
    estimate.hold_back()
    estimate.arrive(25_000, 600 * MS, is_last=True)
    assert estimate.review(1000 * MS) and estimate.bits_per_s == 1_000_000


def test_it_grows_while_nothing_is_held_back() -> None:
    estimate = RateEstimate(0)
    interval(estimate, 0, size=50_000, span_ms=400)
    assert round(interval(estimate, 500, size=1, span_ms=100, full=False) or 0) == 1_100_000
    assert round(interval(estimate, 1000, size=1, span_ms=100, full=False) or 0) == 1_210_000


def test_a_stall_says_nothing_of_the_rate() -> None:
    estimate = RateEstimate(0)
    interval(estimate, 0, size=50_000, span_ms=400)
    estimate.hold_back()
    assert not estimate.review(1000 * MS) and estimate.bits_per_s == 1_000_000
    assert interval(estimate, 1000, size=25_000, span_ms=100) == 2_000_000
