from __future__ import annotations

import pytest

from realtime_engine.infra.webrtc.sent import SentPackets, Verdict
from realtime_engine.testing import ManualClock


class Bench:
    def __init__(self, first: int) -> None:
        self.clock = ManualClock()
        self.sent = SentPackets(self.clock, kept=16)
        self._next = first

    def send(self, count: int, *, key: bool = False) -> list[int]:
        """Send so many packets, one each 10 ms, the first of which begins a keyframe if that is wanted."""
        numbers = [(self._next + index) & 0xFFFF for index in range(count)]
        self._next += count
        for index, number in enumerate(numbers):
            self.clock.advance(0.01)
            assert self.sent.note(number, begins_keyframe=key and index == 0)
        return numbers


@pytest.fixture(params=[100, 0xFFFF - 5])
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param)


def test_young_packets_are_sent_again(bench: Bench) -> None:
    numbers = bench.send(12)
    assert bench.sent.judge(numbers[3:6]) == Verdict(numbers[3:6], False)


@pytest.mark.parametrize(("round_trip_s", "way_s"), [(0.01, 0.04), (0.2, 0.2)])
def test_a_packet_is_not_sent_again_while_it_may_be_on_its_way(bench: Bench, round_trip_s: float, way_s: float) -> None:
    numbers = bench.send(5)
    bench.sent.round_trip_s = round_trip_s
    assert bench.sent.judge(numbers[:2]) == Verdict(numbers[:2], False)
    bench.clock.advance(0.9 * way_s)
    assert bench.sent.judge(numbers[:3]) == Verdict(numbers[2:3], False)
    bench.clock.advance(0.2 * way_s)
    assert bench.sent.judge(numbers[:3]) == Verdict(numbers[:2], False)


def test_packets_that_the_sender_has_forgotten_are_lost(bench: Bench) -> None:
    numbers = bench.send(17)
    assert bench.sent.judge(numbers[1:3]) == Verdict(numbers[1:3], False)
    assert bench.sent.judge(numbers[:3]) == Verdict([], True)


def test_old_packets_are_lost_and_nothing_with_them_is_sent_again(bench: Bench) -> None:
    old = bench.send(2)
    bench.clock.advance(0.6)
    young = bench.send(2)
    assert bench.sent.judge(young) == Verdict(young, False)
    assert bench.sent.judge([*young, *old]) == Verdict([], True)


def test_what_came_before_the_last_keyframe_is_of_no_use(bench: Bench) -> None:
    before = bench.send(20)
    key = bench.send(3, key=True)
    after = bench.send(3)
    assert bench.sent.judge([*before, key[0], after[1]]) == Verdict([key[0], after[1]], False)
    bench.clock.advance(1)
    assert bench.sent.judge(before) == Verdict([], False)
    assert bench.sent.judge(key) == Verdict([], True)


def test_packets_that_were_never_sent_are_ignored(bench: Bench) -> None:
    assert bench.sent.judge([5]) == Verdict([], False)
    numbers = bench.send(2)
    assert bench.sent.judge([(numbers[-1] + 1) & 0xFFFF]) == Verdict([], False)


def test_a_packet_that_is_sent_again_is_not_new(bench: Bench) -> None:
    numbers = bench.send(3)
    assert bench.sent.note(numbers[0]) is False and bench.sent.note(numbers[-1]) is False


def test_a_keyframe_of_long_ago_is_forgotten(bench: Bench) -> None:
    bench.send(1, key=True)
    for _ in range(4):
        numbers = bench.send(10_000)
    assert bench.sent.judge(numbers[:1]) == Verdict([], True)


def test_a_request_that_repeats_itself_is_answered_once(bench: Bench) -> None:
    numbers = bench.send(3)
    assert bench.sent.judge(numbers * 1000) == Verdict(numbers, False)
    assert bench.sent.judge(numbers) == Verdict([], False)
    bench.clock.advance(0.04)
    assert bench.sent.judge(numbers) == Verdict(numbers, False)


def test_no_packet_is_sent_again_without_an_end(bench: Bench) -> None:
    (number,) = bench.send(1)
    answers = 0
    for _ in range(20):
        bench.clock.advance(0.041)
        answers += len(bench.sent.judge([number]).again)
    assert answers == 4
