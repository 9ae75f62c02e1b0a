from __future__ import annotations

from types import SimpleNamespace

import pytest
from aiortc import RTCPeerConnection
from aiortc.rtp import RTCP_PSFB_FIR, RTCP_PSFB_PLI, RtcpPsfbPacket, RtcpRrPacket

from realtime_engine.infra.webrtc import internals


async def test_this_aiortc_has_every_private_name() -> None:
    connection = RTCPeerConnection()
    transceiver = connection.addTransceiver("video")
    sender, receiver = transceiver.sender, transceiver.receiver
    assert callable(sender._handle_rtcp_packet)
    assert internals.sent_timestamp(sender) == 0
    receiver._RTCRtpReceiver__timestamp_mapper.map(2**32 - 10)
    assert internals.received_timestamp(receiver, 15) == 5
    assert isinstance(transceiver._headerExtensions, list)
    assert internals.extend_headers(transceiver, 7, "uri", b"")
    assert callable(sender.transport.transport.iceGatherer._connection.get_component_candidates)
    await connection.close()


async def test_losses_are_heard_and_the_sender_hears_them_too() -> None:
    connection = RTCPeerConnection()
    sender = connection.addTransceiver("video").sender
    heard: list[str] = []
    passed_on: list[object] = []

    async def handle(packet: object) -> None:
        passed_on.append(packet)

    sender._handle_rtcp_packet = handle
    assert internals.hear_losses(sender, lambda: heard.append("loss"))
    for packet in (
        RtcpPsfbPacket(fmt=RTCP_PSFB_PLI, ssrc=1, media_ssrc=2),
        RtcpRrPacket(ssrc=1, reports=[]),
        RtcpPsfbPacket(fmt=RTCP_PSFB_FIR, ssrc=1, media_ssrc=2),
    ):
        await sender._handle_rtcp_packet(packet)
    assert heard == ["loss", "loss"] and len(passed_on) == 3
    await connection.close()


def test_without_the_names_each_feature_is_left_out_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    bare = object()
    internals._report_missing.cache_clear()
    for _ in range(2):
        assert internals.hear_losses(bare, lambda: None) is False  # type: ignore[arg-type]
        assert internals.sent_timestamp(bare) is None  # type: ignore[arg-type]
        assert internals.received_timestamp(bare, 0) is None  # type: ignore[arg-type]
        internals.bound_gathering(bare, 0.5)  # type: ignore[arg-type]
        assert internals.extend_headers(SimpleNamespace(sender=bare), 7, "uri", b"") is False  # type: ignore[arg-type]
    assert len(caplog.records) == 5
    assert all("this version of aiortc has no" in record.message for record in caplog.records)
    internals._report_missing.cache_clear()
