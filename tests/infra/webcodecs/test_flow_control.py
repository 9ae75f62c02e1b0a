from __future__ import annotations

from realtime_engine.infra.webcodecs import InFlightWindow, RateEstimate

MS = 1_000_000


def flight_with(delay_ms: int) -> InFlightWindow:
    """A way that was seen to take ``delay_ms``, empty, at the time 0."""
    flight = InFlightWindow(100 * MS, -1000 * MS)
    flight.send(0, 10, -delay_ms * MS)
    flight.acknowledge(0, 0)
    return flight


def test_as_much_is_on_its_way_as_the_least_delay_and_the_slack_hold() -> None:
    flight = flight_with(20)
    flight.send(1, 10, 0)
    flight.send(2, 10, 33 * MS)
    assert flight.is_open(120 * MS) and not flight.is_open(121 * MS)
    flight.acknowledge(1, 121 * MS)
    assert flight.is_open(121 * MS), "what is left was sent at 33 ms"
    assert not flight.is_open(154 * MS)


def test_an_acknowledgement_is_for_all_before_it() -> None:
    flight = flight_with(20)
    for number in (1, 2, 3):
        flight.send(number, number, number)
    flight.acknowledge(2, 5)
    flight.acknowledge(0, 5)
    assert flight.age_ns(5) == 2
    flight.acknowledge(99, 5)
    assert flight.is_empty and flight.age_ns(10**12) == 0


def test_an_empty_way_is_open_however_slow_it_was() -> None:
    assert flight_with(5000).is_open(10**15)


def test_a_far_viewer_is_not_taken_for_a_slow_one() -> None:
    flight = flight_with(400)
    for number in range(1, 15):
        assert flight.is_open(number * 33 * MS)
        flight.send(number, 10, number * 33 * MS)


def test_draining_waits_for_all_and_measures_anew() -> None:
    flight = flight_with(20)
    flight.send(1, 10, 0)
    flight.send(2, 10, 0)
    flight.drain()
    assert not flight.is_open(1)
    flight.acknowledge(1, 300 * MS)
    assert not flight.is_open(300 * MS), "one is still on its way"
    flight.acknowledge(2, 320 * MS)
    flight.send(3, 10, 320 * MS)
    assert flight.is_open(720 * MS) and not flight.is_open(721 * MS), "it has become a far one: 300 and 100 ms"
    flight.acknowledge(3, 330 * MS)
    flight.send(4, 10, 330 * MS)
    assert flight.is_open(440 * MS) and not flight.is_open(441 * MS), "or it was stuck: 10 and 100 ms"


def test_what_queued_up_is_not_taken_for_distance() -> None:
    flight = flight_with(20)
    flight.send(1, 10, 0)
    flight.acknowledge(1, 20 * MS)
    flight.send(2, 10, 20 * MS)
    flight.send(3, 10, 20 * MS)
    flight.acknowledge(2, 40 * MS)
    flight.drain()
    flight.acknowledge(3, 400 * MS)
    flight.send(4, 10, 400 * MS)
    assert flight.is_open(520 * MS) and not flight.is_open(521 * MS), "20 and 100 ms"


def test_a_way_that_was_stuck_for_seconds_is_not_taken_for_a_long_one() -> None:
    flight = flight_with(20)
    flight.send(1, 10, 0)
    flight.drain()
    flight.acknowledge(1, 5000 * MS)
    flight.send(2, 10, 5000 * MS)
    assert flight.is_open(5600 * MS) and not flight.is_open(5601 * MS)


def test_no_more_bytes_are_on_their_way_than_a_link_takes_in_that_time() -> None:
    flight = flight_with(20)
    flight.rate.bits_per_s = 1_000_000
    flight.send(1, 14_900, 0)
    assert flight.is_open(0), "119 ms for these"
    flight.send(2, 200, 0)
    assert not flight.is_open(0)


def test_the_time_for_its_bytes_is_not_distance() -> None:
    flight = InFlightWindow(100 * MS, 0)
    flight.send(0, 25_000, 0)
    flight.acknowledge(0, 220 * MS)
    flight.rate.bits_per_s = 1_000_000
    flight.send(1, 10, 220 * MS)
    assert flight.is_open(340 * MS) and not flight.is_open(341 * MS), "200 of the 220 ms were for 25 kB"


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
