"""A feed over a scripted stream, in manual time."""

from __future__ import annotations

import asyncio
import heapq

import av
import pytest

from realtime_engine.infra.frame import FrameId
from realtime_engine.infra.webcodecs import Acknowledge, KeyframeRequest, PacketFeed, VideoPacket, parse_packet
from realtime_engine.infra.webrtc import EncodedFrame, StreamEnded
from realtime_engine.testing import ManualClock

MS = 1_000_000
HEADER = 36


class Stream:
    """A fake send queue: makes packets, and a keyframe when one was requested."""

    def __init__(self, clock: ManualClock, *, key_bytes: int = 1000, bytes_: int = 100) -> None:
        self.frames: asyncio.Queue[EncodedFrame | StreamEnded] = asyncio.Queue()
        self.epoch = 1
        self.losses = 0
        self.closed = False
        self._clock = clock
        self._sizes = (bytes_, key_bytes)
        self._seq = -1
        self._key_owed = True

    def encode(self) -> EncodedFrame:
        self._seq += 1
        key, self._key_owed = self._key_owed, False
        packet = av.Packet(bytes(self._sizes[key]))
        packet.is_keyframe = key
        now_ns = self._clock.now_ns()
        packet.pts = now_ns * 9 // 100_000
        return EncodedFrame(packet, FrameId("s", self.epoch, self._seq, 0, 7), now_ns, now_ns, ())

    async def next(self) -> EncodedFrame:
        frame = await self.frames.get()
        if isinstance(frame, StreamEnded):
            raise frame
        return frame

    def report_loss(self) -> None:
        self.losses += 1
        self._key_owed = True

    def close(self) -> None:
        self.closed = True


class Bench:
    def __init__(self, **sizes: int) -> None:
        self.clock = ManualClock(5_000_000_000)
        self.stream = Stream(self.clock, **sizes)
        self.rates: list[int] = []
        self.feed = PacketFeed(
            self.stream, epoch=lambda: self.stream.epoch, on_rate=self.rates.append, clock=self.clock
        )

    def show(self, after_ms: float = 33) -> None:
        self.clock.advance(after_ms / 1000)
        self.feed.put(self.stream.encode())

    def sent(self) -> list[VideoPacket]:
        packets = []
        while (message := self.feed.next_nowait()) is not None:
            packets.append(parse_packet(message))
        return packets

    def acknowledge(self, number: int) -> None:
        self.feed.on_message(Acknowledge(number))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def seqs(packets: list[VideoPacket]) -> list[int]:
    return [packet.seq for packet in packets]


def test_packets_carry_number_identity_and_time(bench: Bench) -> None:
    bench.show(0)
    bench.show(40)
    key, other = bench.sent()
    assert (key.number, key.keyframe, key.timestamp_us, len(key.data)) == (0, True, 5_000_000, 1000)
    assert (other.number, other.keyframe, other.timestamp_us, len(other.data)) == (1, False, 5_040_000, 100)
    assert (other.epoch, other.seq, other.index, other.action_seq) == (1, 1, 0, 7)


def test_an_acknowledging_viewer_gets_everything_at_once(bench: Bench) -> None:
    for number in range(100):
        bench.show()
        assert seqs(bench.sent()) == [number]
        bench.acknowledge(number)
    assert (bench.feed.dropped, bench.stream.losses) == (0, 0)


def test_frames_wait_on_a_full_link_for_an_acknowledgement(bench: Bench) -> None:
    bench.show()
    bench.sent()
    bench.clock.advance(0.01)
    bench.acknowledge(0)
    bench.show()
    assert seqs(bench.sent()) == [1]
    bench.show(111)  # 10 ms, and 100 that may queue up
    bench.show(30)
    assert bench.sent() == []
    bench.acknowledge(1)
    assert seqs(bench.sent()) == [2, 3]
    assert (bench.feed.dropped, bench.stream.losses) == (0, 0)


def test_after_a_long_wait_the_video_continues_with_a_keyframe(bench: Bench) -> None:
    bench.show()
    bench.sent()
    bench.acknowledge(0)
    for _ in range(2):
        bench.show()
        bench.sent()
    for _ in range(20):
        bench.show()
        assert bench.sent() == [] or bench.feed.sent < 6
    number = bench.feed.sent
    assert bench.stream.losses == 0, "not asked for while it could not be sent"
    bench.acknowledge(number - 2)
    bench.show()
    assert (bench.sent(), bench.stream.losses) == ([], 0), "one is still on its way"
    bench.acknowledge(number - 1)
    assert bench.stream.losses == 1
    bench.show()
    (key,) = bench.sent()
    assert (key.number, key.keyframe) == (number, True)
    for _ in range(5):
        bench.show(1)
    assert bench.stream.losses == 1, "asked for once"
    assert bench.feed.sent - len(bench.sent()) + bench.feed.dropped <= 24


def test_a_keyframe_request_drops_everything_before_the_keyframe(bench: Bench) -> None:
    bench.show()
    bench.sent()
    bench.acknowledge(0)
    bench.show()
    bench.feed.on_message(KeyframeRequest())
    assert bench.stream.losses == 1
    assert bench.sent() == []
    bench.show()
    (key,) = bench.sent()
    assert key.keyframe and key.seq == 2


def test_frames_of_an_ended_epoch_are_not_sent(bench: Bench) -> None:
    bench.show()
    bench.show()
    bench.stream.epoch = 2
    assert bench.sent() == [] and bench.stream.losses == 1
    bench.show()
    (key,) = bench.sent()
    assert (key.epoch, key.keyframe) == (2, True)


def test_a_queued_keyframe_of_the_new_epoch_is_kept(bench: Bench) -> None:
    bench.show()
    bench.stream.epoch = 2
    bench.stream.report_loss()
    bench.show()
    assert [(packet.epoch, packet.keyframe) for packet in bench.sent()] == [(2, True)]
    assert bench.stream.losses == 1


def test_an_action_id_that_is_not_a_number_is_omitted(bench: Bench) -> None:
    encoded = bench.stream.encode()
    bench.feed.put(encoded._replace(id=encoded.id._replace(action_id="a1")))
    assert bench.sent()[0].action_seq is None


async def test_a_feed_runs_until_the_stream_ends(bench: Bench) -> None:
    bench.stream.frames.put_nowait(bench.stream.encode())
    bench.stream.frames.put_nowait(StreamEnded())
    waiting = asyncio.ensure_future(bench.feed.next())
    await bench.feed.run()
    assert parse_packet(await waiting).keyframe and not bench.feed.is_stuck
    bench.feed.close()
    assert bench.stream.closed


async def test_a_viewer_that_receives_nothing_is_stuck(bench: Bench) -> None:
    bench.show()
    bench.sent()
    bench.clock.advance(10.001)
    bench.stream.frames.put_nowait(bench.stream.encode())
    await bench.feed.run()
    assert bench.feed.is_stuck


VIDEO = {"key_bytes": 25_000, "bytes_": 6_000}  # 1.5 Mb/s


class Link:
    """A link that takes ``bits_per_s`` and holds everything that is given to it, and then takes ``delay_ms``."""

    def __init__(self, bench: Bench, bits_per_s: float, delay_ms: float) -> None:
        self.ages_ms: list[float] = []
        self._bench = bench
        self._ns_per_byte = 8e9 / bits_per_s
        self._delay_ns = round(delay_ms * MS)
        self._free_ns = 0
        self._arrivals: list[tuple[int, int, int]] = []

    def stall(self, seconds: float) -> None:
        self._free_ns = self._bench.clock.now_ns() + round(seconds * 1e9)

    def play(self, seconds: float, fps: int = 30) -> None:
        """A millisecond at a time; the acknowledgement takes no time on its way back."""
        clock, feed = self._bench.clock, self._bench.feed
        for step in range(round(seconds * 1000)):
            clock.advance(0.001)
            now_ns = clock.now_ns()
            while self._arrivals and self._arrivals[0][0] <= now_ns:
                _, number, shown_us = heapq.heappop(self._arrivals)
                self.ages_ms.append((now_ns // 1000 - shown_us) / 1000)
                feed.on_message(Acknowledge(number))
            if step % (1000 // fps) == 0:
                feed.put(self._bench.stream.encode())
            for packet in self._bench.sent():
                self._free_ns = max(self._free_ns, now_ns) + round((len(packet.data) + HEADER) * self._ns_per_byte)
                heapq.heappush(self._arrivals, (self._free_ns + self._delay_ns, packet.number, packet.timestamp_us))


@pytest.mark.parametrize("delay_ms", [5, 150, 400])
def test_a_fast_link_of_any_length_drops_nothing(delay_ms: int) -> None:
    bench = Bench(**VIDEO)
    link = Link(bench, 5e6, delay_ms)
    link.play(2)
    link.ages_ms.clear()
    dropped = bench.feed.dropped
    link.play(5)
    assert len(link.ages_ms) >= 150 and bench.feed.dropped == dropped
    assert all(rate > 1e6 for rate in bench.rates)
    assert max(link.ages_ms) <= delay_ms + 12


@pytest.mark.parametrize(("kbit_per_s", "delay_ms"), [(1000, 20), (400, 20), (200, 200)])
def test_the_delay_is_bounded_on_a_slow_link(kbit_per_s: int, delay_ms: int) -> None:
    bench = Bench(**VIDEO)
    link = Link(bench, kbit_per_s * 1000, delay_ms)
    link.play(1.5)
    keyframe_ms = 8 * (25_000 + HEADER) / kbit_per_s
    assert all(age <= delay_ms + 200 + 3 * keyframe_ms for age in link.ages_ms), "before its rate is known"
    link.play(3)
    link.ages_ms.clear()
    link.play(10)
    assert max(link.ages_ms) <= delay_ms + 200 + keyframe_ms
    assert len(link.ages_ms) >= 5 and bench.stream.losses >= 5
    assert bench.rates[-1] == pytest.approx(kbit_per_s * 1000, rel=0.15)


def test_nothing_old_arrives_after_a_stall() -> None:
    bench = Bench(**VIDEO)
    link = Link(bench, 5e6, 20)
    link.play(1)
    link.stall(3)
    link.play(3.5)
    assert 0 < sum(age > 100 for age in link.ages_ms) <= 6, "what was on its way"
    link.ages_ms.clear()
    link.play(2)
    assert len(link.ages_ms) >= 55 and max(link.ages_ms) < 100


def test_acknowledgements_without_reading_do_not_fill_the_queue() -> None:
    """A client that reads nothing can still say that everything has arrived."""
    bench = Bench(**VIDEO)
    bench.show()
    assert bench.feed.next_nowait() is not None  # which the socket takes for ever
    for _ in range(250):
        bench.show()
        bench.acknowledge(10**12)
        assert len(bench.feed._queue) <= 8
    assert bench.stream.losses == 0, "it does not cost others a keyframe"
    assert not bench.feed.is_stuck
    for _ in range(100):
        bench.show()
    assert bench.feed.is_stuck


def test_a_socket_that_reads_again_continues_with_a_keyframe() -> None:
    bench = Bench(**VIDEO)
    bench.show()
    assert bench.feed.next_nowait() is not None
    bench.acknowledge(0)
    for _ in range(30):
        bench.show()
    assert bench.feed.next_nowait() is None and bench.stream.losses == 1
    bench.show()
    (key,) = bench.sent()
    assert key.keyframe
