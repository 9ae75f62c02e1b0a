"""A feed over scripted pictures, in manual time."""

from __future__ import annotations

import asyncio

import pytest

from realtime_engine.infra.frame import FrameId
from realtime_engine.infra.jpeg import JpegFrame
from realtime_engine.infra.publisher import LatestPublisher, PublisherClosed
from realtime_engine.infra.webcodecs import Acknowledge, JpegFeed, KeyframeRequest, VideoPacket, parse_packet
from realtime_engine.testing import ManualClock

MS = 1_000_000


class Bench:
    """A feed, and the messages that its connection has sent."""

    def __init__(self) -> None:
        self.clock = ManualClock(5_000_000_000)
        self.publisher: LatestPublisher[JpegFrame] = LatestPublisher()
        self.feed = JpegFeed(self.publisher.subscribe(), clock=self.clock)
        self.sent: list[VideoPacket] = []
        self._seq = -1
        self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        while True:
            self.sent.append(parse_packet(await self.feed.next()))

    async def publish(self, count: int = 1, action: object = 7) -> None:
        for _ in range(count):
            self._seq += 1
            self.publisher.publish(JpegFrame(b"\xff\xd8%d" % self._seq, FrameId("s", 1, self._seq, 0, action)))
            await self.settle()
            self.clock.advance_ns(33 * MS)

    async def acknowledge(self) -> None:
        self.feed.on_message(Acknowledge(self.sent[-1].number))
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def ended(self) -> None:
        with pytest.raises(PublisherClosed):
            await self._sending


async def test_each_picture_is_a_complete_message_with_its_identity() -> None:
    bench = Bench()
    for _ in range(3):
        await bench.publish()
        await bench.acknowledge()
    first, second, third = bench.sent
    assert (first.number, first.keyframe, first.epoch, first.seq, first.index, first.action_seq) == (
        0,
        True,
        1,
        0,
        0,
        7,
    )
    assert (second.number, second.seq, second.data, third.keyframe) == (1, 1, b"\xff\xd81", True)
    assert first.timestamp_us < second.timestamp_us < third.timestamp_us
    await bench.publish(action="of another protocol")
    assert bench.sent[-1].action_seq is None
    bench.publisher.close()
    await bench.ended()


async def test_a_viewer_that_acknowledges_late_gets_the_newest_picture() -> None:
    bench = Bench()
    await bench.publish()
    await bench.acknowledge()
    await bench.publish(60)
    assert len(bench.sent) < 15, "the window is full"
    last = bench.sent[-1].number
    await bench.acknowledge()
    assert (bench.sent[-1].number, bench.sent[-1].seq) == (last + 1, 60), "those between are skipped"
    bench.publisher.close()
    await bench.ended()


async def test_a_keyframe_request_needs_no_answer() -> None:
    bench = Bench()
    await bench.publish()
    bench.feed.on_message(KeyframeRequest())
    await bench.settle()
    assert len(bench.sent) == 1
    bench.publisher.close()
    await bench.ended()


async def test_a_viewer_that_acknowledges_nothing_for_10_s_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realtime_engine.infra.webcodecs.jpeg_feed._CHECK_S", 0)
    bench = Bench()
    running = asyncio.create_task(bench.feed.run())
    await bench.publish()
    bench.clock.advance(9)
    await bench.settle()
    assert not running.done() and not bench.feed.is_stuck
    bench.clock.advance(2)
    await running
    assert bench.feed.is_stuck
    bench.publisher.close()
    await bench.ended()
