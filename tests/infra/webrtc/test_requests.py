from __future__ import annotations

import pytest

from realtime_engine.infra.webrtc.requests import Requests
from realtime_engine.testing import ManualClock


class Bench:
    def __init__(self, first: int) -> None:
        self.clock = ManualClock()
        self.needed_from = 0
        self._first = first
        self._requests = Requests(self.clock, lambda number: (number - first) & 0xFFFF >= self.needed_from)

    def hear(self, index: int) -> list[int]:
        """What is asked for when the packet comes that is ``index`` behind the first."""
        asked = self._requests.hear((self._first + index) & 0xFFFF)
        return [(number - self._first) & 0xFFFF for number in asked]


@pytest.fixture(params=[100, 0xFFFF - 2])
def bench(request: pytest.FixtureRequest) -> Bench:
    bench = Bench(request.param)
    assert bench.hear(0) == []
    return bench


def test_a_gap_is_asked_for_at_once_and_alone(bench: Bench) -> None:
    assert bench.hear(3) == [1, 2]
    assert bench.hear(5) == [4]
    assert bench.hear(6) == []


def test_what_stays_away_is_asked_for_again_in_a_while(bench: Bench) -> None:
    assert bench.hear(3) == [1, 2]
    bench.clock.advance(0.04)
    assert bench.hear(4) == []
    assert bench.hear(1) == []
    bench.clock.advance(0.02)
    assert bench.hear(5) == [2]
    bench.clock.advance(0.08)
    assert bench.hear(6) == [2]


def test_what_is_of_no_use_any_more_is_not_asked_for(bench: Bench) -> None:
    assert bench.hear(3) == [1, 2]
    bench.clock.advance(0.2)
    bench.needed_from = 2
    assert bench.hear(4) == [2]


def test_what_the_sender_has_forgotten_is_not_asked_for(bench: Bench) -> None:
    assert bench.hear(3) == [1, 2]
    bench.clock.advance(0.2)
    assert bench.hear(129) == [2, *range(4, 129)]
    assert len(bench.hear(1000)) == 127


def test_old_packets_and_repetitions_ask_for_nothing(bench: Bench) -> None:
    bench.hear(1)
    bench.hear(2)
    assert bench.hear(1) == bench.hear(2) == []
