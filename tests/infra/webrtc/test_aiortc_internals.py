from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import aiortc
import pytest
from aiortc import RTCPeerConnection
from aiortc.jitterbuffer import JitterBuffer
from aiortc.rtp import (
    RTCP_PSFB_FIR,
    RTCP_PSFB_PLI,
    HeaderExtensionsMap,
    RtcpPsfbPacket,
    RtcpReceiverInfo,
    RtcpRrPacket,
    RtcpSenderInfo,
    RtcpSrPacket,
    RtpPacket,
    pack_header_extensions,
)

from realtime_engine.infra.webrtc import aiortc_internals as internals
from realtime_engine.infra.webrtc.jitter_buffer import DecoderQueue, EncodedPicture

ROOT = Path(__file__).parents[3]


async def test_this_aiortc_has_every_private_name(caplog: pytest.LogCaptureFixture) -> None:
    connection = RTCPeerConnection()
    transceiver = connection.addTransceiver("video")
    sender, receiver = transceiver.sender, transceiver.receiver
    internals.report_missing.cache_clear()
    assert internals.intercept_rtcp(sender, lambda packet: packet)
    assert internals.route_rtcp(sender, bool)
    assert internals.intercept_rtp(sender, AsyncMock(), lambda: None)
    assert internals.send_payloads(sender, list)
    assert internals.sent_timestamp(sender) == 0
    assert not internals.answers_last_report(sender, RtcpReceiverInfo(1, 0, 0, 0, 0, lsr=7, dlsr=1))
    assert internals.ignore_bad_datagrams(sender.transport)
    receiver._RTCRtpReceiver__timestamp_mapper.map(2**32 - 10)
    assert internals.received_timestamp(receiver, 15) == 5
    assert internals.emit_at_marker(receiver)
    assert internals.replace_decoder_queue(receiver, DecoderQueue(2, lambda: None))
    assert internals.replace_jitter_buffer(receiver, lambda codec, packet: ([], False))
    assert internals.replace_nack_generator(receiver, lambda number: [])
    assert internals.limit_sources(receiver, 4)
    await internals.request_keyframe(receiver)
    assert internals.send_extension(transceiver, 7, "uri", b"")
    assert internals.receive_extension(transceiver, 7, "uri", lambda value: None)
    assert internals.limit_gathering(sender.transport.transport.iceGatherer, 0.5)
    assert not caplog.records
    await connection.close()


def test_this_aiortc_is_a_verified_version() -> None:
    assert aiortc.__version__.rsplit(".", 1)[0] in internals.VERIFIED_VERSIONS


def test_pyproject_allows_the_verified_versions_only() -> None:
    (requirement,) = re.findall(r'"aiortc(>=[^"]*)"', (ROOT / "pyproject.toml").read_text())
    first, *_, last = internals.VERIFIED_VERSIONS
    major, minor = map(int, last.split("."))
    assert requirement == f">={first},<{major}.{minor + 1}"


async def test_a_missing_name_disables_its_feature_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    bare: Any = object()
    of_bare: Any = SimpleNamespace(transport=bare, sender=bare, receiver=SimpleNamespace(transport=bare))
    internals.report_missing.cache_clear()
    for _ in range(2):
        assert internals.intercept_rtcp(bare, str) is False
        assert internals.route_rtcp(of_bare, bool) is False
        assert internals.intercept_rtp(of_bare, AsyncMock(), print) is False
        assert internals.send_payloads(bare, list) is False
        assert internals.sent_timestamp(bare) is None
        assert internals.answers_last_report(bare, bare) is False
        assert internals.ignore_bad_datagrams(bare) is False
        assert internals.received_timestamp(bare, 0) is None
        assert internals.emit_at_marker(bare) is False
        assert internals.replace_decoder_queue(bare, DecoderQueue(2, print)) is False
        assert internals.replace_jitter_buffer(SimpleNamespace(_RTCRtpReceiver__jitter_buffer=1), bare) is False  # type: ignore[arg-type]
        assert internals.replace_nack_generator(bare, bare) is False
        assert internals.limit_sources(of_bare, 4) is False
        await internals.request_keyframe(bare)
        assert internals.send_extension(of_bare, 7, "uri", b"") is False
        assert internals.receive_extension(of_bare, 7, "uri", print) is False
        assert internals.limit_gathering(bare, 0.5) is False
    assert len(caplog.records) == 17
    for record in caplog.records:
        assert record.message.startswith(f"aiortc {aiortc.__version__} has no ")
        assert f"(verified versions: {', '.join(internals.VERIFIED_VERSIONS)})" in record.message
    internals.report_missing.cache_clear()


async def test_rtcp_is_intercepted_and_the_sender_handles_the_rest() -> None:
    connection = RTCPeerConnection()
    sender = connection.addTransceiver("video").sender
    handled: list[object] = []

    async def handle(packet: object) -> None:
        handled.append(packet)

    sender._handle_rtcp_packet = handle
    assert internals.intercept_rtcp(sender, {1: None, 2: "other"}.get)
    for packet in (1, 2):
        await sender._handle_rtcp_packet(packet)
    assert handled == ["other"]
    await connection.close()


async def test_packets_without_a_media_ssrc_are_routed_to_the_sender() -> None:
    connection = RTCPeerConnection()
    sender = connection.addTransceiver("video").sender
    assert internals.route_rtcp(sender, lambda packet: packet.fmt == RTCP_PSFB_FIR)
    route = sender.transport._rtp_router.route_rtcp
    assert route(RtcpPsfbPacket(fmt=RTCP_PSFB_FIR, ssrc=1, media_ssrc=0)) == {sender}
    assert route(RtcpPsfbPacket(fmt=RTCP_PSFB_PLI, ssrc=1, media_ssrc=0)) == set()
    await connection.close()


async def test_only_the_senders_own_media_packets_are_intercepted() -> None:
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
    assert internals.intercept_rtp(sender, before, lambda: reports.append(len(sent)))
    own = RtpPacket(payload_type=96, sequence_number=7, ssrc=sender._ssrc, payload=b"12345")
    other = RtpPacket(payload_type=97, sequence_number=8, ssrc=sender._ssrc ^ 1)
    times = RtcpSenderInfo(0, 0, 0, 0)
    packets = [own.serialize(), other.serialize(), bytes(RtcpRrPacket(ssrc=sender._ssrc))]
    packets += [bytes(RtcpSrPacket(ssrc, times)) for ssrc in (sender._ssrc ^ 1, sender._ssrc)]
    for packet in packets:
        await sender.transport._send_rtp(packet)
    assert sent == packets and watched == [(7, 17)] and reports == [4]
    await connection.close()


async def test_a_sender_sends_existing_payloads() -> None:
    connection = RTCPeerConnection()
    sender = connection.addTransceiver("video").sender
    assert internals.send_payloads(sender, lambda: [b"one", b"two"])
    encoder = sender._RTCRtpSender__encoder
    assert encoder.pack(SimpleNamespace(pts=90)) == ([b"one", b"two"], 90)
    with pytest.raises(TypeError):
        encoder.encode("a frame")
    await connection.close()


async def test_a_receiver_decodes_the_assembled_pictures() -> None:
    connection = RTCPeerConnection()
    receiver = connection.addTransceiver("video").receiver
    codec = SimpleNamespace(name="VP8")
    receiver._RTCRtpReceiver__codecs[96] = codec
    pictures = [EncodedPicture(b"one", 2**32 - 90), EncodedPicture(b"two", 0), EncodedPicture(b"three", 90)]
    assert internals.replace_jitter_buffer(receiver, lambda name, packet: (pictures, name == "VP8"))
    needs_keyframe, last = receiver._RTCRtpReceiver__jitter_buffer.add(RtpPacket(payload_type=96))
    queued = [receiver._RTCRtpReceiver__decoder_queue.get_nowait() for _ in range(2)]
    assert [(kind, frame.data, frame.timestamp) for kind, frame in queued] == [(codec, b"one", 0), (codec, b"two", 90)]
    assert needs_keyframe and last.data == b"three" and last.timestamp == 90  # the receiver itself maps that one
    await connection.close()


async def test_a_receiver_requests_the_returned_numbers() -> None:
    connection = RTCPeerConnection()
    receiver = connection.addTransceiver("video").receiver
    assert internals.replace_nack_generator(receiver, {7: [], 9: [8]}.__getitem__)
    generator = receiver._RTCRtpReceiver__nack_generator
    assert generator.add(RtpPacket(sequence_number=9)) and generator.missing == [8]
    assert not generator.add(RtpPacket(sequence_number=7))
    await connection.close()


async def test_only_an_answer_to_the_last_report_counts() -> None:
    connection = RTCPeerConnection()
    sender = connection.addTransceiver("video").sender
    sender._RTCRtpSender__lsr = 77

    def answers(lsr: int, dlsr: int) -> bool:
        return internals.answers_last_report(sender, RtcpReceiverInfo(1, 0, 0, 0, 0, lsr=lsr, dlsr=dlsr))

    assert answers(77, 1)
    assert not answers(76, 1) and not answers(77, 0)
    await connection.close()


class Receiver:
    """The part of aiortc's receiver that is patched."""

    def __init__(self) -> None:
        self._RTCRtpReceiver__jitter_buffer = JitterBuffer(capacity=16, is_video=True)
        internals.emit_at_marker(self)  # type: ignore[arg-type]

    def add(self, seq: int, data: bytes, timestamp: int, marker: int = 0) -> bytes | None:
        packet: Any = RtpPacket(payload_type=97, sequence_number=seq, timestamp=timestamp, marker=marker)
        packet._data = data
        _, frame = self._RTCRtpReceiver__jitter_buffer.add(packet)
        return None if frame is None else frame.data


def test_a_frame_is_emitted_with_its_last_packet() -> None:
    receiver = Receiver()
    assert receiver.add(1, b"a", 10) is None
    assert receiver.add(2, b"b", 10, marker=1) == b"ab"
    assert receiver.add(3, b"c", 20, marker=1) == b"c"


def test_a_reordered_frame_is_emitted_when_it_is_complete() -> None:
    receiver = Receiver()
    assert receiver.add(1, b"a", 10) is None
    assert receiver.add(3, b"c", 10, marker=1) is None
    assert receiver.add(2, b"b", 10) == b"abc"


def test_without_markers_a_frame_is_emitted_with_the_next_one() -> None:
    receiver = Receiver()
    assert receiver.add(1, b"a", 10) is None
    assert receiver.add(2, b"b", 20) == b"a"
    assert receiver.add(3, b"c", 30) == b"b"


def test_padding_is_not_a_frame_and_delays_none() -> None:
    receiver = Receiver()
    assert receiver.add(1, b"a", 10, marker=1) == b"a"
    assert receiver.add(2, b"", 10) is None
    assert receiver.add(3, b"", 10) is None
    assert receiver.add(4, b"b", 20, marker=1) == b"b"


def test_a_late_frame_is_emitted_before_its_successor() -> None:
    receiver = Receiver()
    assert receiver.add(1, b"a", 10) is None
    assert receiver.add(3, b"c", 20, marker=1) is None
    assert receiver.add(2, b"b", 10, marker=1) == b"ab"
    assert receiver.add(4, b"d", 30, marker=1) == b"c", "one for each packet"


def test_an_extension_is_received_beside_the_others() -> None:
    received: list[bytes] = []
    extensions = HeaderExtensionsMap()
    transport = SimpleNamespace(_rtp_header_extensions_map=extensions)
    transceiver: Any = SimpleNamespace(_headerExtensions=[], receiver=SimpleNamespace(transport=transport))
    assert internals.receive_extension(transceiver, 8, "urn:color-space", received.append)
    (negotiated,) = transceiver._headerExtensions
    assert (negotiated.id, negotiated.uri) == (8, "urn:color-space")
    mid = SimpleNamespace(id=1, uri="urn:ietf:params:rtp-hdrext:sdes:mid")
    extensions.configure(SimpleNamespace(headerExtensions=[mid, negotiated]))  # type: ignore[arg-type]
    packed = pack_header_extensions([(1, b"7"), (8, b"abcd"), (9, b"x")])
    assert extensions.get(*packed).mid == "7"
    extensions.get(*pack_header_extensions([(1, b"7")]))
    assert received == [b"abcd"]


async def test_a_sender_that_invents_streams_is_limited_to_a_few() -> None:
    connection = RTCPeerConnection()
    receiver = connection.addTransceiver("video", direction="recvonly").receiver
    router = receiver.transport._rtp_router
    router.register_receiver(receiver, ssrcs=[], payload_types=[96])
    assert internals.limit_sources(receiver, 4)
    packets = [RtpPacket(payload_type=96, ssrc=ssrc) for ssrc in range(1000)]
    assert [router.route_rtp(packet) for packet in packets[:4]] == [receiver] * 4
    assert {router.route_rtp(packet) for packet in packets[4:]} == {None}
    assert router.route_rtp(packets[2]) is receiver and len(router.ssrc_table) == 4
    await connection.close()
