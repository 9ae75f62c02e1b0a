from __future__ import annotations

import random

import pytest
from aiortc.codecs import h264_depayload, vp8_depayload

from realtime_engine.infra.color import to_i420
from realtime_engine.infra.encoding.base import Codec
from realtime_engine.infra.encoding.factory import SOFTWARE_ENCODERS
from realtime_engine.infra.webrtc.jitter_buffer import NackGenerator, Piece, Reassembly, begins_keyframe
from realtime_engine.infra.webrtc.packetizer import PACKETIZERS
from realtime_engine.testing import ManualClock

from .support import picture

FRAME = 3000


def stream(*pictures: str, first: int = 65_530, marks: bool = True) -> list[Piece]:
    """A packet for each letter: ``"Kab"`` is a keyframe of three packets, ``"bc"`` another picture of two."""
    pieces: list[Piece] = []
    for index, letters in enumerate(pictures):
        for place, letter in enumerate(letters):
            number = (first + len(pieces)) & 0xFFFF
            ends = marks and place == len(letters) - 1
            timestamp = (2**32 - 2 * FRAME + FRAME * index) & 0xFFFFFFFF
            pieces.append(Piece(number, timestamp, letter.encode(), ends, letter == "K"))
    return pieces


def put(pieces: list[Piece], reassembly: Reassembly | None = None) -> tuple[list[str], int]:
    """The pictures that come out, and how often a keyframe is asked for."""
    reassembly = reassembly or Reassembly()
    out, asked = [], 0
    for piece in pieces:
        pictures, stuck = reassembly.add(piece)
        out += [picture.data.decode() for picture in pictures]
        asked += stuck
    return out, asked


def test_each_picture_comes_with_its_last_packet() -> None:
    reassembly = Reassembly()
    outs = [put([piece], reassembly)[0] for piece in stream("Kab", "c", "de")]
    assert outs == [[], [], ["Kab"], ["c"], [], ["de"]]


def test_without_marks_it_comes_with_the_next_picture() -> None:
    assert put(stream("Kab", "c", "de", "f", marks=False))[0] == ["Kab", "c", "de"]


def test_any_order_and_repetition_gives_the_same_pictures() -> None:
    first, *rest = stream("Kab", "cd", "ef", "g", "hij")
    for seed in range(20):
        shuffled = [*rest, *rest[:4]]
        random.Random(seed).shuffle(shuffled)
        assert put([first, *shuffled]) == (["Kab", "cd", "ef", "g", "hij"], 0)


def test_a_gap_holds_up_what_is_behind_it_until_it_is_filled() -> None:
    pieces = stream("Kab", "cd", "e", "f")
    late = pieces.pop(3)
    reassembly = Reassembly()
    assert put(pieces, reassembly)[0] == ["Kab"]
    assert put([late], reassembly)[0] == ["cd", "e", "f"]


def test_a_complete_keyframe_behind_a_gap_ends_the_wait() -> None:
    pieces = stream("Kab", "cd", "e", "Kf", "g")
    assert put(pieces[:3] + pieces[4:]) == (["Kab", "Kf", "g"], 0)
    assert put(pieces[:3] + pieces[4:7] + pieces[8:])[0] == ["Kab"]  # it lacks a packet too


def test_the_newest_of_several_keyframes_is_taken() -> None:
    first, _, *rest = stream("Kab", "Kc", "d", "Ke", "f")
    assert put([first, *reversed(rest)])[0] == ["Ke", "f"]


def test_a_gap_that_lasts_asks_for_a_keyframe_twice_a_second() -> None:
    pieces = stream("K", "a", *["b"] * 60)
    assert put([pieces[0], *pieces[2:]])[1] == 3


def test_a_packet_lost_in_the_middle_of_a_picture_asks_for_a_keyframe_too() -> None:
    pieces = stream("K", "abc", *["b"] * 59)
    assert put([*pieces[:2], *pieces[3:]])[1] == 3


def test_each_gap_has_its_time() -> None:
    pieces = stream("K", *["a"] * 20)
    reassembly = Reassembly()
    first, second = pieces[2], pieces[14]
    assert put([piece for piece in pieces[:15] if piece not in (first, second)], reassembly)[1] == 0
    assert put([first, *pieces[15:]], reassembly) == (["a"] * 12, 0)


def test_only_what_is_not_past_is_needed() -> None:
    pieces = stream("Ka", "b", "c")
    reassembly = Reassembly()
    assert reassembly.needs(7)
    put([*pieces[:2], pieces[3]], reassembly)
    assert [reassembly.needs(piece.number) for piece in pieces] == [False, False, True, True]


def test_memory_is_bounded() -> None:
    pieces = stream("K", "a", "b" * 3000, "c")
    reassembly = Reassembly()
    out, asked = put([pieces[0], *pieces[2:]], reassembly)
    assert out[0] == "K" and asked >= 1 and len(reassembly._pieces) <= 2049


@pytest.mark.parametrize("codec", list(Codec))
def test_the_first_packet_of_a_keyframe_is_known(codec: Codec) -> None:
    depayload = {Codec.VP8: vp8_depayload, Codec.H264: h264_depayload}[codec]
    encoder = SOFTWARE_ENCODERS(codec)
    found = []
    for number, forced in enumerate((False, False, True)):
        (packet,) = encoder.encode(to_i420(picture(number, 640, 360)), forced, at_ns=number * 33_000_000)
        payloads = PACKETIZERS[codec](bytes(packet))
        found.append([begins_keyframe(codec, payload, depayload(payload)) for payload in payloads])
    assert [keys[0] for keys in found] == [True, False, True]
    assert not any(any(keys[1:]) for keys in found)
    assert not begins_keyframe(codec, b"", b"")
    encoder.close()


class Bench:
    def __init__(self, first: int) -> None:
        self.clock = ManualClock()
        self.needed_from = 0
        self._first = first
        self._requests = NackGenerator(self.clock, lambda number: (number - first) & 0xFFFF >= self.needed_from)

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
