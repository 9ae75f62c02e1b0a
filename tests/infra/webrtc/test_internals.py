from __future__ import annotations

from types import SimpleNamespace

import pytest
from aiortc import RTCPeerConnection
from aiortc.rtp import (
    RTCP_PSFB_FIR,
    RTCP_PSFB_PLI,
    RtcpPsfbPacket,
    RtcpReceiverInfo,
    RtcpRrPacket,
    RtcpSenderInfo,
    RtcpSrPacket,
    RtpPacket,
)

from realtime_engine.infra.webrtc import internals
from realtime_engine.infra.webrtc.reassembly import Picture


async def test_this_aiortc_has_every_private_name() -> None:
    connection = RTCPeerConnection()
    transceiver = connection.addTransceiver("video")
    sender, receiver = transceiver.sender, transceiver.receiver
    assert callable(sender._handle_rtcp_packet)
    assert internals.sent_timestamp(sender) == 0
    receiver._RTCRtpReceiver__timestamp_mapper.map(2**32 - 10)
    assert internals.received_timestamp(receiver, 15) == 5
    assert isinstance(transceiver._headerExtensions, list)
    assert callable(sender.transport._recv_next)
    assert internals.extend_headers(transceiver, 7, "uri", b"")
    assert callable(sender.transport.transport.iceGatherer._connection.get_component_candidates)
    await connection.close()


async def test_reports_are_heard_and_the_sender_handles_what_is_left_of_them() -> None:
    connection = RTCPeerConnection()
    sender = connection.addTransceiver("video").sender
    handled: list[object] = []

    async def handle(packet: object) -> None:
        handled.append(packet)

    sender._handle_rtcp_packet = handle
    assert internals.hear_rtcp(sender, {1: None, 2: "other"}.get)
    for packet in (1, 2):
        await sender._handle_rtcp_packet(packet)
    assert handled == ["other"]
    await connection.close()


async def test_packets_without_an_address_reach_the_sender_too() -> None:
    connection = RTCPeerConnection()
    sender = connection.addTransceiver("video").sender
    assert internals.route_rtcp(sender, lambda packet: packet.fmt == RTCP_PSFB_FIR)
    route = sender.transport._rtp_router.route_rtcp
    assert route(RtcpPsfbPacket(fmt=RTCP_PSFB_FIR, ssrc=1, media_ssrc=0)) == {sender}
    assert route(RtcpPsfbPacket(fmt=RTCP_PSFB_PLI, ssrc=1, media_ssrc=0)) == set()
    await connection.close()


async def test_only_the_senders_own_media_packets_are_watched() -> None:
    connection = RTCPeerConnection()
    sender = connection.addTransceiver("video").sender
    sent: list[bytes] = []
    watched: list[tuple[int, int]] = []
    reports: list[int] = []

    async def send(packet: bytes) -> None:
        sent.append(packet)

    async def before(sequence_number: int, size: int) -> None:
        assert len(sent) == 0
        watched.append((sequence_number, size))

    sender.transport._send_rtp = send
    assert internals.watch_packets(sender, before, lambda: reports.append(len(sent)))
    own = RtpPacket(payload_type=96, sequence_number=7, ssrc=sender._ssrc, payload=b"12345")
    other = RtpPacket(payload_type=97, sequence_number=8, ssrc=sender._ssrc ^ 1)
    times = RtcpSenderInfo(0, 0, 0, 0)
    packets = [own.serialize(), other.serialize(), bytes(RtcpRrPacket(ssrc=sender._ssrc))]
    packets += [bytes(RtcpSrPacket(ssrc, times)) for ssrc in (sender._ssrc ^ 1, sender._ssrc)]
    for packet in packets:
        await sender.transport._send_rtp(packet)
    assert sent == packets and watched == [(7, 17)] and reports == [4]
    await connection.close()


async def test_a_sender_takes_payloads_that_exist_already() -> None:
    connection = RTCPeerConnection()
    sender = connection.addTransceiver("video").sender
    assert internals.take_payloads(sender, lambda: [b"one", b"two"])
    encoder = sender._RTCRtpSender__encoder
    assert encoder.pack(SimpleNamespace(pts=90)) == ([b"one", b"two"], 90)
    with pytest.raises(TypeError):
        encoder.encode("a frame")
    await connection.close()


async def test_a_receiver_decodes_what_is_made_of_its_packets() -> None:
    connection = RTCPeerConnection()
    receiver = connection.addTransceiver("video").receiver
    codec = SimpleNamespace(name="VP8")
    receiver._RTCRtpReceiver__codecs[96] = codec
    pictures = [Picture(b"one", 2**32 - 90), Picture(b"two", 0), Picture(b"three", 90)]
    assert internals.reassemble(receiver, lambda name, packet: (pictures, name == "VP8"))
    stuck, last = receiver._RTCRtpReceiver__jitter_buffer.add(RtpPacket(payload_type=96))
    queued = [receiver._RTCRtpReceiver__decoder_queue.get_nowait() for _ in range(2)]
    assert [(kind, frame.data, frame.timestamp) for kind, frame in queued] == [(codec, b"one", 0), (codec, b"two", 90)]
    assert stuck and last.data == b"three" and last.timestamp == 90  # the receiver itself maps that one
    await connection.close()


async def test_a_receiver_asks_for_what_it_is_told_to() -> None:
    connection = RTCPeerConnection()
    receiver = connection.addTransceiver("video").receiver
    assert internals.request_missing(receiver, {7: [], 9: [8]}.__getitem__)
    generator = receiver._RTCRtpReceiver__nack_generator
    assert generator.add(RtpPacket(sequence_number=9)) and generator.missing == [8]
    assert not generator.add(RtpPacket(sequence_number=7))
    await connection.close()


async def test_an_answer_is_to_the_last_report() -> None:
    connection = RTCPeerConnection()
    sender = connection.addTransceiver("video").sender
    sender._RTCRtpSender__lsr = 77

    def answers(lsr: int, held: int) -> bool:
        return internals.is_answer(sender, RtcpReceiverInfo(1, 0, 0, 0, 0, lsr=lsr, dlsr=held))

    assert answers(77, 1)
    assert not answers(76, 1) and not answers(77, 0)
    await connection.close()


def test_without_the_names_each_feature_is_left_out_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    bare = object()
    internals._report_missing.cache_clear()
    for _ in range(2):
        assert internals.hear_rtcp(bare, str) is False  # type: ignore[arg-type]
        assert internals.watch_packets(SimpleNamespace(transport=bare), print, print) is False  # type: ignore[arg-type]
        assert internals.route_rtcp(SimpleNamespace(transport=bare), bool) is False  # type: ignore[arg-type]
        assert internals.take_payloads(bare, list) is False  # type: ignore[arg-type]
        assert internals.reassemble(bare, None) is False  # type: ignore[arg-type]
        assert internals.is_answer(bare, None) is False  # type: ignore[arg-type]
        assert internals.request_missing(bare, list) is False  # type: ignore[arg-type]
        assert internals.sent_timestamp(bare) is None  # type: ignore[arg-type]
        assert internals.received_timestamp(bare, 0) is None  # type: ignore[arg-type]
        assert internals.outlive_bad_datagrams(bare) is False  # type: ignore[arg-type]
        internals.bound_gathering(bare, 0.5)  # type: ignore[arg-type]
        assert internals.extend_headers(SimpleNamespace(sender=bare), 7, "uri", b"") is False  # type: ignore[arg-type]
    assert len(caplog.records) == 12
    assert all("this version of aiortc has no" in record.message for record in caplog.records)
    internals._report_missing.cache_clear()
