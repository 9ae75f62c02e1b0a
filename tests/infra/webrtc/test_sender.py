"""What goes over the wire to a viewer, on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest
from aiortc import RTCPeerConnection
from aiortc.rtp import (
    RTCP_PSFB_APP,
    RTCP_PSFB_FIR,
    RtcpPsfbPacket,
    RtcpReceiverInfo,
    RtcpRrPacket,
    RtcpSenderInfo,
    RtcpSrPacket,
    is_rtcp,
    pack_remb_fci,
)

from realtime_engine.core.clock import MONOTONIC
from realtime_engine.infra.encoding import Codec
from realtime_engine.infra.publisher import FramePublisher
from realtime_engine.infra.webrtc import Loss, SharedVideo, StreamStats, Tier, ViewerPeer, WebRtcReceiver
from realtime_engine.infra.webrtc.sender import PacedSender
from realtime_engine.infra.webrtc.track import SentFrame
from realtime_engine.testing import ManualClock

from .support import Player, frame, shared, until


class Wire:
    """One viewer, and the datagrams from the server to it.

    Attributes:
        sizes: of the RTP datagrams that were sent.
        retransmitted: when datagrams were sent retransmitted (RFC 4588), by the event loop's clock.
        drops: called for each of them; true drops it.
        sent: the frames that the server reports as sent.
        ended_ns: when the last datagram of each frame was sent.
    """

    def __init__(self, video: SharedVideo, codec: Codec) -> None:
        self.sizes: list[int] = []
        self.retransmitted: list[float] = []
        self.drops: Callable[[], bool] = lambda: False
        self.sent: list[SentFrame] = []
        self.ended_ns: list[int] = []
        self.receiver = WebRtcReceiver(codecs=[codec])
        self.video = video
        self.codec = codec
        self.peer: ViewerPeer

    async def connect(self) -> None:
        self.peer = await ViewerPeer.from_offer(
            await self.receiver.offer(),
            source=self.video,
            on_controls=lambda text: [text],
            on_sent=self.sent.append,
        )
        ice: Any = self.peer._sender.transport.transport
        send = ice._send

        async def send_or_lose(data: bytes) -> None:
            if 127 < data[0] < 192 and not is_rtcp(data):
                self.sizes.append(len(data))
                if data[8:12] == self.peer._sender._rtx_ssrc.to_bytes(4, "big"):
                    self.retransmitted.append(asyncio.get_running_loop().time())
                elif data[1] & 0x80:  # the marker
                    self.ended_ns.append(MONOTONIC.now_ns())
                if self.drops():
                    return
            await send(data)

        ice._send = send_or_lose
        await self.receiver.set_answer(self.peer.answer)

    async def close(self) -> None:
        await self.receiver.close()
        await self.peer.close()

    @property
    def stats(self) -> StreamStats:
        return self.video.stats[self.codec, Tier.FULL]


@pytest.fixture
async def source() -> FramePublisher:
    return FramePublisher()


@pytest.fixture(params=list(Codec))
async def wire(source: FramePublisher, request: pytest.FixtureRequest) -> AsyncIterator[Wire]:
    wire = Wire(shared(source), request.param)
    await wire.connect()
    yield wire
    await wire.close()


async def test_no_datagram_is_larger_than_1200_bytes(source: FramePublisher, wire: Wire) -> None:
    random = np.random.default_rng(0)
    for number in range(4):
        source.publish(frame(number, random.integers(0, 256, (360, 640, 3), dtype=np.uint8)))
        if number == 2:
            wire.drops = iter([True, True, *[False] * 10_000]).__next__
        await asyncio.sleep(0.1)
        source.publish(frame(number))
        await asyncio.sleep(0.03)
    await wire.receiver.next_frame()
    assert len(wire.sizes) > 50 and 1100 < max(wire.sizes) <= 1200


async def test_a_frame_is_sent_when_its_last_packet_is_passed_on(source: FramePublisher, wire: Wire) -> None:
    """Not when the sender asks for the next one, which a busy event loop delays."""
    async with Player(source):
        await until(lambda: len(wire.sent) >= 5)
    for sent, ended_ns in zip(wire.sent, wire.ended_ns, strict=False):
        assert sent.encoded.encoded_ns <= sent.sent_ns <= ended_ns


async def test_after_a_blackout_a_keyframe_is_sent_and_nothing_retransmitted(
    source: FramePublisher, wire: Wire
) -> None:
    async with Player(source):
        await wire.receiver.next_frame()
        now = asyncio.get_running_loop().time
        dark_ends = now() + 0.8
        wire.drops = lambda: now() < dark_ends
        await until(lambda: wire.stats.keyframes == 2, pause_s=0.01)
        newest = source.latest.id.seq  # type: ignore[union-attr]
        while (info := (await wire.receiver.next_frame()).info) is None or info.seq < newest:
            pass
    assert now() > dark_ends
    assert wire.stats.losses == {Loss.UNSERVED: 1}
    assert [at for at in wire.retransmitted if at > dark_ends] == []


async def test_a_lost_packet_is_retransmitted_without_a_keyframe(source: FramePublisher, wire: Wire) -> None:
    async with Player(source):
        await wire.receiver.channel_open()
        await wire.receiver.next_frame()
        wire.drops = iter([False, True, *[False] * 10_000]).__next__
        for _ in range(15):
            await wire.receiver.next_frame()
    assert len(wire.retransmitted) == 1
    assert wire.stats.keyframes == 1 and not wire.stats.losses


async def test_an_intra_request_without_a_media_ssrc_brings_a_keyframe(source: FramePublisher, wire: Wire) -> None:
    async with Player(source):
        await wire.receiver.next_frame()
        sender = wire.peer._sender
        fci = sender._ssrc.to_bytes(4, "big") + bytes(4)
        request = RtcpPsfbPacket(fmt=RTCP_PSFB_FIR, ssrc=1, media_ssrc=0, fci=fci)
        await sender.transport._handle_rtcp_data(bytes(request))
        while wire.stats.keyframes < 2:
            await wire.receiver.next_frame()
    assert wire.stats.losses[Loss.REPORTED] == 1


@pytest.mark.parametrize("wire", [Codec.VP8], indirect=True)
async def test_a_receivers_reports_reach_the_tiers(source: FramePublisher, wire: Wire) -> None:
    async with Player(source):
        await wire.receiver.next_frame()
        viewer: Any = wire.peer._track._viewer
        reported: list[float] = []
        viewer.report_rate = viewer.report_missing = reported.append
        sender = wire.peer._sender
        estimate = RtcpPsfbPacket(RTCP_PSFB_APP, ssrc=1, media_ssrc=0, fci=pack_remb_fci(800_000, [sender._ssrc]))
        report = RtcpRrPacket(ssrc=1, reports=[RtcpReceiverInfo(sender._ssrc, 128, 0, 0, 0, 0, 0)])
        await sender.transport._handle_rtcp_data(bytes(estimate) + bytes(report))
    assert reported == [800_000, 0.5]


class RoundTrips:
    """A viewer that records the reported round trips."""

    needs_keyframe = False

    def __init__(self) -> None:
        self.round_trips: list[float] = []

    def report_missing(self, share: float) -> None:
        assert share == 0

    def report_round_trip(self, seconds: float) -> None:
        self.round_trips.append(seconds)


async def test_round_trips_do_not_depend_on_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer to an older report with the same identifier does not count."""
    clock, reported = ManualClock(), RoundTrips()
    connection = RTCPeerConnection()
    sender = connection.addTransceiver("video").sender

    async def send(packet: bytes) -> None:
        assert is_rtcp(packet)

    monkeypatch.setattr(sender.transport, "_send_rtp", send)
    PacedSender(sender, clock).start(reported)  # type: ignore[arg-type]

    async def report(after_s: float) -> None:
        clock.advance(after_s)
        sender._RTCRtpSender__lsr, sender._RTCRtpSender__lsr_time = 77, 0.0  # a wall clock of long ago
        await sender.transport._send_rtp(bytes(RtcpSrPacket(sender._ssrc, RtcpSenderInfo(0, 0, 0, 0))))

    async def answer(after_s: float, held_s: float) -> None:
        clock.advance(after_s)
        info = RtcpReceiverInfo(sender._ssrc, 0, 0, 0, 0, lsr=77, dlsr=round(held_s * 65536))
        await sender._handle_rtcp_packet(RtcpRrPacket(ssrc=1, reports=[info]))

    await answer(0.1, 0.05)
    await report(0)
    await answer(0.3, 0.1)
    await report(0.5)
    await answer(0.1, 0.7)
    await connection.close()
    assert reported.round_trips == [pytest.approx(0.2, abs=1e-3)]
