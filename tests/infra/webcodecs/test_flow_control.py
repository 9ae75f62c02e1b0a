from __future__ import annotations

from realtime_engine.infra.webcodecs import InFlightWindow, RateEstimate

MS = 1_000_000


def flight_with(delay_ms: int) -> InFlightWindow:
    """A way that was seen to take ``delay_ms``, empty, at the time 0."""
    flight = InFlightWindow(100 * MS, -1000 * MS)
    flight.on_sent(0, 10, -delay_ms * MS)
    flight.on_acknowledged(0, 0)
    return flight


def test_the_window_is_the_least_delay_plus_the_slack() -> None:
    flight = flight_with(20)
    flight.on_sent(1, 10, 0)
    flight.on_sent(2, 10, 33 * MS)
    assert flight.is_open(120 * MS) and not flight.is_open(121 * MS)
    flight.on_acknowledged(1, 121 * MS)
    assert flight.is_open(121 * MS), "what is left was sent at 33 ms"
    assert not flight.is_open(154 * MS)


def test_an_acknowledgement_includes_all_earlier_packets() -> None:
    flight = flight_with(20)
    for number in (1, 2, 3):
        flight.on_sent(number, number, number)
    flight.on_acknowledged(2, 5)
    flight.on_acknowledged(0, 5)
    assert flight.age_ns(5) == 2
    flight.on_acknowledged(99, 5)
    assert flight.is_empty and flight.age_ns(10**12) == 0


def test_an_empty_window_is_open() -> None:
    assert flight_with(5000).is_open(10**15)


def test_a_long_path_is_not_taken_for_a_slow_link() -> None:
    flight = flight_with(400)
    for number in range(1, 15):
        assert flight.is_open(number * 33 * MS)
        flight.on_sent(number, 10, number * 33 * MS)


def test_draining_waits_for_all_and_measures_again() -> None:
    flight = flight_with(20)
    flight.on_sent(1, 10, 0)
    flight.on_sent(2, 10, 0)
    flight.drain()
    assert not flight.is_open(1)
    flight.on_acknowledged(1, 300 * MS)
    assert not flight.is_open(300 * MS), "one is still on its way"
    flight.on_acknowledged(2, 320 * MS)
    flight.on_sent(3, 10, 320 * MS)
    assert flight.is_open(720 * MS) and not flight.is_open(721 * MS), "it has become a far one: 300 and 100 ms"
    flight.on_acknowledged(3, 330 * MS)
    flight.on_sent(4, 10, 330 * MS)
    assert flight.is_open(440 * MS) and not flight.is_open(441 * MS), "or it was stuck: 10 and 100 ms"


def test_queueing_is_not_taken_for_path_delay() -> None:
    flight = flight_with(20)
    flight.on_sent(1, 10, 0)
    flight.on_acknowledged(1, 20 * MS)
    flight.on_sent(2, 10, 20 * MS)
    flight.on_sent(3, 10, 20 * MS)
    flight.on_acknowledged(2, 40 * MS)
    flight.drain()
    flight.on_acknowledged(3, 400 * MS)
    flight.on_sent(4, 10, 400 * MS)
    assert flight.is_open(520 * MS) and not flight.is_open(521 * MS), "20 and 100 ms"


def test_a_stall_is_not_taken_for_path_delay() -> None:
    flight = flight_with(20)
    flight.on_sent(1, 10, 0)
    flight.drain()
    flight.on_acknowledged(1, 5000 * MS)
    flight.on_sent(2, 10, 5000 * MS)
    assert flight.is_open(5600 * MS) and not flight.is_open(5601 * MS)


def test_the_bytes_in_flight_are_bounded_by_the_rate() -> None:
    flight = flight_with(20)
    flight.rate.bits_per_s = 1_000_000
    flight.on_sent(1, 14_900, 0)
    assert flight.is_open(0), "119 ms for these"
    flight.on_sent(2, 200, 0)
    assert not flight.is_open(0)


def test_transmission_time_is_not_taken_for_path_delay() -> None:
    flight = InFlightWindow(100 * MS, 0)
    flight.on_sent(0, 25_000, 0)
    flight.on_acknowledged(0, 220 * MS)
    flight.rate.bits_per_s = 1_000_000
    flight.on_sent(1, 10, 220 * MS)
    assert flight.is_open(340 * MS) and not flight.is_open(341 * MS), "200 of the 220 ms were for 25 kB"


def interval(estimate: RateEstimate, start_ms: int, *, size: int, span_ms: int, full: bool = True) -> float | None:
    """Half a second in which ``size`` bytes arrived within ``span_ms`` of the first arrival."""
    if full:
        estimate.on_full()
    estimate.on_arrival(77_777, (start_ms + 10) * MS, is_last=False)
    estimate.on_arrival(size, (start_ms + 10 + span_ms) * MS, is_last=True)
    assert estimate.update((start_ms + 500) * MS)
    return estimate.bits_per_s


def test_a_link_that_was_never_full_has_no_estimate() -> None:
    assert interval(RateEstimate(0), 0, size=100_000, span_ms=100, full=False) is None


def test_the_rate_counts_arrivals_after_the_first_of_a_burst() -> None:
    estimate = RateEstimate(0)
    assert interval(estimate, 0, size=50_000, span_ms=400) == 1_000_000
    assert not estimate.update(600 * MS), "in the middle of an interval"
    estimate.on_full()
    for end_ms in (700, 900):  # two rows, and nothing on its way between them
        estimate.on_arrival(1, (end_ms - 50) * MS, is_last=False)
        estimate.on_arrival(5_000, end_ms * MS, is_last=True)
    assert estimate.update(1000 * MS) and estimate.bits_per_s == 800_000


def test_a_burst_continues_over_the_end_of_an_interval() -> None:
    estimate = RateEstimate(0)
    estimate.on_full()
    estimate.on_arrival(1, 300 * MS, is_last=False)
    estimate.on_arrival(25_000, 400 * MS, is_last=False)
    assert estimate.update(500 * MS) and estimate.bits_per_s == 2_000_000
    estimate.on_full()
    estimate.on_arrival(25_000, 600 * MS, is_last=True)
    assert estimate.update(1000 * MS) and estimate.bits_per_s == 1_000_000


def test_the_estimate_grows_while_the_link_is_not_full() -> None:
    estimate = RateEstimate(0)
    interval(estimate, 0, size=50_000, span_ms=400)
    assert round(interval(estimate, 500, size=1, span_ms=100, full=False) or 0) == 1_100_000
    assert round(interval(estimate, 1000, size=1, span_ms=100, full=False) or 0) == 1_210_000


def test_a_stall_does_not_lower_the_rate() -> None:
    estimate = RateEstimate(0)
    interval(estimate, 0, size=50_000, span_ms=400)
    estimate.on_full()
    assert not estimate.update(1000 * MS) and estimate.bits_per_s == 1_000_000
    assert interval(estimate, 1000, size=25_000, span_ms=100) == 2_000_000
