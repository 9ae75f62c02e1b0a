from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
from aiortc.codecs import h264_depayload, vp8_depayload

from realtime_engine.infra.color import to_i420
from realtime_engine.infra.encoding.base import Codec
from realtime_engine.infra.encoding.factory import SOFTWARE_ENCODERS
from realtime_engine.infra.webrtc.jitter_buffer import (
    DecoderQueue,
    JitterBuffer,
    NackGenerator,
    ReceivedPacket,
    is_keyframe,
    starts_keyframe,
)
from realtime_engine.infra.webrtc.packetizer import PACKETIZERS
from realtime_engine.testing import ManualClock

from .support import picture

FRAME = 3000


def stream(*pictures: str, first: int = 65_530, marks: bool = True) -> list[ReceivedPacket]:
    """A packet for each letter: ``"Kab"`` is a keyframe of three packets, ``"bc"`` another picture of two."""
    packets: list[ReceivedPacket] = []
    for index, letters in enumerate(pictures):
        for place, letter in enumerate(letters):
            number = (first + len(packets)) & 0xFFFF
            is_last = marks and place == len(letters) - 1
            timestamp = (2**32 - 2 * FRAME + FRAME * index) & 0xFFFFFFFF
            packets.append(ReceivedPacket(number, timestamp, letter.encode(), is_last, letter == "K"))
    return packets


def put(packets: list[ReceivedPacket], buffer: JitterBuffer | None = None) -> tuple[list[str], int]:
    """The emitted pictures, and how often a keyframe is requested."""
    buffer = buffer or JitterBuffer()
    out, requested = [], 0
    for packet in packets:
        pictures, stuck = buffer.add(packet)
        out += [picture.data.decode() for picture in pictures]
        requested += stuck
    return out, requested


def test_a_picture_is_emitted_with_its_last_packet() -> None:
    buffer = JitterBuffer()
    outs = [put([packet], buffer)[0] for packet in stream("Kab", "c", "de")]
    assert outs == [[], [], ["Kab"], ["c"], [], ["de"]]


def test_without_marker_bits_a_picture_is_emitted_with_the_next_one() -> None:
    assert put(stream("Kab", "c", "de", "f", marks=False))[0] == ["Kab", "c", "de"]


def test_reordered_and_repeated_packets_give_the_same_pictures() -> None:
    first, *rest = stream("Kab", "cd", "ef", "g", "hij")
    for seed in range(20):
        shuffled = [*rest, *rest[:4]]
        random.Random(seed).shuffle(shuffled)
        assert put([first, *shuffled]) == (["Kab", "cd", "ef", "g", "hij"], 0)


def test_a_gap_delays_later_pictures_until_it_is_filled() -> None:
    packets = stream("Kab", "cd", "e", "f")
    late = packets.pop(3)
    buffer = JitterBuffer()
    assert put(packets, buffer)[0] == ["Kab"]
    assert put([late], buffer)[0] == ["cd", "e", "f"]


def test_a_complete_keyframe_after_a_gap_ends_the_wait() -> None:
    packets = stream("Kab", "cd", "e", "Kf", "g")
    assert put(packets[:3] + packets[4:]) == (["Kab", "Kf", "g"], 0)
    assert put(packets[:3] + packets[4:7] + packets[8:])[0] == ["Kab"]  # it lacks a packet too


def test_the_newest_of_several_complete_keyframes_is_used() -> None:
    first, _, *rest = stream("Kab", "Kc", "d", "Ke", "f")
    assert put([first, *reversed(rest)])[0] == ["Ke", "f"]


def test_a_lasting_gap_requests_a_keyframe_twice_a_second() -> None:
    packets = stream("K", "a", *["b"] * 60)
    assert put([packets[0], *packets[2:]])[1] == 3


def test_a_packet_lost_in_the_middle_of_a_picture_requests_a_keyframe() -> None:
    packets = stream("K", "abc", *["b"] * 59)
    assert put([*packets[:2], *packets[3:]])[1] == 3


def test_the_time_counts_for_each_gap_anew() -> None:
    packets = stream("K", *["a"] * 20)
    buffer = JitterBuffer()
    first, second = packets[2], packets[14]
    assert put([packet for packet in packets[:15] if packet not in (first, second)], buffer)[1] == 0
    assert put([first, *packets[15:]], buffer) == (["a"] * 12, 0)


def test_packets_of_emitted_pictures_are_not_needed() -> None:
    packets = stream("Ka", "b", "c")
    buffer = JitterBuffer()
    assert buffer.needs(7)
    put([*packets[:2], packets[3]], buffer)
    assert [buffer.needs(packet.number) for packet in packets] == [False, False, True, True]


def test_memory_is_bounded() -> None:
    packets = stream("K", "a", "b" * 3000, "c")
    buffer = JitterBuffer()
    out, requested = put([packets[0], *packets[2:]], buffer)
    assert out[0] == "K" and requested >= 1 and len(buffer._packets) <= 2049


@pytest.mark.parametrize("codec", list(Codec))
def test_the_first_packet_of_a_keyframe_is_recognized(codec: Codec) -> None:
    depayload = {Codec.VP8: vp8_depayload, Codec.H264: h264_depayload}[codec]
    encoder = SOFTWARE_ENCODERS(codec)
    found = []
    for number, forced in enumerate((False, False, True)):
        (packet,) = encoder.encode(to_i420(picture(number, 640, 360)), forced, at_ns=number * 33_000_000)
        payloads = PACKETIZERS[codec](bytes(packet))
        found.append([starts_keyframe(codec, payload, depayload(payload)) for payload in payloads])
    assert [keys[0] for keys in found] == [True, False, True]
    assert not any(any(keys[1:]) for keys in found)
    assert not starts_keyframe(codec, b"", b"")
    encoder.close()


class Bench:
    def __init__(self, first: int) -> None:
        self.clock = ManualClock()
        self.needed_from = 0
        self._first = first
        self._generator = NackGenerator(self.clock, lambda number: (number - first) & 0xFFFF >= self.needed_from)

    def receive(self, index: int) -> list[int]:
        """What is requested when the packet ``index`` steps after the first arrives."""
        requested = self._generator.on_packet((self._first + index) & 0xFFFF)
        return [(number - self._first) & 0xFFFF for number in requested]


@pytest.fixture(params=[100, 0xFFFF - 2])
def bench(request: pytest.FixtureRequest) -> Bench:
    bench = Bench(request.param)
    assert bench.receive(0) == []
    return bench


def test_a_gap_is_requested_at_once_and_alone(bench: Bench) -> None:
    assert bench.receive(3) == [1, 2]
    assert bench.receive(5) == [4]
    assert bench.receive(6) == []


def test_a_packet_that_stays_missing_is_requested_again(bench: Bench) -> None:
    assert bench.receive(3) == [1, 2]
    bench.clock.advance(0.04)
    assert bench.receive(4) == []
    assert bench.receive(1) == []
    bench.clock.advance(0.02)
    assert bench.receive(5) == [2]
    bench.clock.advance(0.08)
    assert bench.receive(6) == [2]


def test_packets_that_are_not_needed_are_not_requested(bench: Bench) -> None:
    assert bench.receive(3) == [1, 2]
    bench.clock.advance(0.2)
    bench.needed_from = 2
    assert bench.receive(4) == [2]


def test_packets_outside_the_senders_history_are_not_requested(bench: Bench) -> None:
    assert bench.receive(3) == [1, 2]
    bench.clock.advance(0.2)
    assert bench.receive(129) == [2, *range(4, 129)]
    assert len(bench.receive(1000)) == 127


def test_old_and_repeated_packets_request_nothing(bench: Bench) -> None:
    bench.receive(1)
    bench.receive(2)
    assert bench.receive(1) == bench.receive(2) == []


VP8 = SimpleNamespace(name="VP8")
KEY, DELTA = b"\x10", b"\x11"


@pytest.mark.parametrize(
    ("codec", "data", "expected"),
    [
        ("VP8", KEY, True),
        ("VP8", DELTA, False),
        ("VP8", b"", False),
        ("H264", b"\0\0\0\1\x67...\0\0\0\1\x68..\0\0\0\1\x65...", True),
        ("H264", b"\0\0\0\1\x65...", True),
        ("H264", b"\0\0\0\1\x41...", False),
    ],
)
def test_a_decoder_can_start_with_a_keyframe(codec: str, data: bytes, expected: bool) -> None:
    assert is_keyframe(codec, data) is expected


def test_a_full_queue_drops_up_to_the_next_keyframe() -> None:
    drops: list[int] = []
    waiting = DecoderQueue(2, lambda: drops.append(1))

    def put(*frames: bytes) -> None:
        for data in frames:
            waiting.put((VP8, SimpleNamespace(data=data)))

    put(KEY, DELTA, DELTA)
    assert (waiting.qsize(), len(drops)) == (2, 1)
    waiting.get(), waiting.get()
    put(DELTA)
    assert (waiting.qsize(), len(drops)) == (0, 2), "it refers to one that is missing"
    put(KEY, DELTA)
    assert (waiting.qsize(), len(drops)) == (2, 2)
    waiting.put(None)
    assert waiting.qsize() == 3, "the end is never dropped"
