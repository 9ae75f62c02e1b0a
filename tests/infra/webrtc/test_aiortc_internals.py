from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiortc import RTCPeerConnection, RTCRtpReceiver
from aiortc.jitterbuffer import JitterBuffer, JitterFrame
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
from realtime_engine.infra.webrtc import aiortc_internals as reception
from realtime_engine.infra.webrtc.aiortc_internals import (
    DecoderQueue,
    bound_decoding,
    bound_sources,
    emit_at_marker,
    hear_extension,
    starts_anew,
)
from realtime_engine.infra.webrtc.jitter_buffer import EncodedPicture


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
    pictures = [EncodedPicture(b"one", 2**32 - 90), EncodedPicture(b"two", 0), EncodedPicture(b"three", 90)]
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


VP8 = SimpleNamespace(name="VP8")
KEY, DELTA = b"\x10", b"\x11"


class Receiver:
    """As much of aiortc's receiver as is changed."""

    def __init__(self) -> None:
        self._RTCRtpReceiver__jitter_buffer = JitterBuffer(capacity=16, is_video=True)
        emit_at_marker(self)  # type: ignore[arg-type]

    def add(self, seq: int, data: bytes, timestamp: int, marker: int = 0) -> bytes | None:
        packet: Any = RtpPacket(payload_type=97, sequence_number=seq, timestamp=timestamp, marker=marker)
        packet._data = data
        _, frame = self._RTCRtpReceiver__jitter_buffer.add(packet)
        return None if frame is None else frame.data


def test_a_frame_comes_with_its_last_packet() -> None:
    receiver = Receiver()
    assert receiver.add(1, b"a", 10) is None
    assert receiver.add(2, b"b", 10, marker=1) == b"ab"
    assert receiver.add(3, b"c", 20, marker=1) == b"c"


def test_a_frame_whose_middle_comes_last_comes_with_that() -> None:
    receiver = Receiver()
    assert receiver.add(1, b"a", 10) is None
    assert receiver.add(3, b"c", 10, marker=1) is None
    assert receiver.add(2, b"b", 10) == b"abc"


def test_without_markers_a_frame_comes_with_the_next_one() -> None:
    receiver = Receiver()
    assert receiver.add(1, b"a", 10) is None
    assert receiver.add(2, b"b", 20) == b"a"
    assert receiver.add(3, b"c", 30) == b"b"


def test_padding_is_no_frame_and_holds_none_up() -> None:
    receiver = Receiver()
    assert receiver.add(1, b"a", 10, marker=1) == b"a"
    assert receiver.add(2, b"", 10) is None
    assert receiver.add(3, b"", 10) is None
    assert receiver.add(4, b"b", 20, marker=1) == b"b"


def test_a_frame_that_waits_for_a_lost_packet_comes_before_its_successor() -> None:
    receiver = Receiver()
    assert receiver.add(1, b"a", 10) is None
    assert receiver.add(3, b"c", 20, marker=1) is None
    assert receiver.add(2, b"b", 10, marker=1) == b"ab"
    assert receiver.add(4, b"d", 30, marker=1) == b"c", "one for each packet"


@pytest.mark.parametrize(
    ("codec", "data", "anew"),
    [
        ("VP8", KEY, True),
        ("VP8", DELTA, False),
        ("VP8", b"", False),
        ("H264", b"\0\0\0\1\x67...\0\0\0\1\x68..\0\0\0\1\x65...", True),
        ("H264", b"\0\0\0\1\x65...", True),
        ("H264", b"\0\0\0\1\x41...", False),
    ],
)
def test_where_a_decoder_can_begin(codec: str, data: bytes, anew: bool) -> None:
    assert starts_anew(codec, data) is anew


def test_a_full_queue_drops_up_to_the_next_keyframe() -> None:
    drops: list[int] = []
    waiting = DecoderQueue(2, lambda: drops.append(1))

    def put(*frames: bytes) -> None:
        for data in frames:
            waiting.put((VP8, JitterFrame(data, 0)))

    put(KEY, DELTA, DELTA)
    assert (waiting.qsize(), len(drops)) == (2, 1)
    waiting.get(), waiting.get()
    put(DELTA)
    assert (waiting.qsize(), len(drops)) == (0, 2), "it refers to one that is missing"
    put(KEY, DELTA)
    assert (waiting.qsize(), len(drops)) == (2, 2)
    waiting.put(None)
    assert waiting.qsize() == 3, "the end is never dropped"


def test_an_extension_is_heard_and_the_others_are_still_read() -> None:
    heard: list[bytes] = []
    extensions = HeaderExtensionsMap()
    transport = SimpleNamespace(_rtp_header_extensions_map=extensions)
    transceiver: Any = SimpleNamespace(_headerExtensions=[], receiver=SimpleNamespace(transport=transport))
    assert hear_extension(transceiver, 8, "urn:colours", heard.append)
    (negotiated,) = transceiver._headerExtensions
    assert (negotiated.id, negotiated.uri) == (8, "urn:colours")
    mid = SimpleNamespace(id=1, uri="urn:ietf:params:rtp-hdrext:sdes:mid")
    extensions.configure(SimpleNamespace(headerExtensions=[mid, negotiated]))  # type: ignore[arg-type]
    packed = pack_header_extensions([(1, b"7"), (8, b"abcd"), (9, b"x")])
    assert extensions.get(*packed).mid == "7"
    extensions.get(*pack_header_extensions([(1, b"7")]))
    assert heard == [b"abcd"]


async def test_a_sender_that_makes_up_streams_is_heard_with_a_few() -> None:
    connection = RTCPeerConnection()
    receiver = connection.addTransceiver("video", direction="recvonly").receiver
    router = receiver.transport._rtp_router
    router.register_receiver(receiver, ssrcs=[], payload_types=[96])
    assert bound_sources(receiver, 4)
    packets = [RtpPacket(payload_type=96, ssrc=ssrc) for ssrc in range(1000)]
    assert [router.route_rtp(packet) for packet in packets[:4]] == [receiver] * 4
    assert {router.route_rtp(packet) for packet in packets[4:]} == {None}
    assert router.route_rtp(packets[2]) is receiver and len(router.ssrc_table) == 4
    await connection.close()


class Strange:
    """A receiver of an aiortc that has none of these names."""


async def test_a_missing_name_leaves_its_feature_out_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    reception._report_missing.cache_clear()
    strange: Any = Strange()
    for _ in range(2):
        assert not emit_at_marker(strange) and not bound_decoding(strange, 2, lambda: None)
        await reception.request_keyframe(strange)
        nothing: Any = SimpleNamespace(receiver=SimpleNamespace(transport=None))
        assert not bound_sources(nothing.receiver, 4)
        assert not hear_extension(nothing, 8, "urn:colours", print)
    assert len(caplog.records) == 5
    reception._report_missing.cache_clear()


def test_this_aiortc_has_the_names() -> None:
    transport: Any = SimpleNamespace(state="new")
    receiver = RTCRtpReceiver("video", transport)
    assert emit_at_marker(receiver) and bound_decoding(receiver, 2, lambda: None)
    assert callable(getattr(receiver, reception._SEND_PLI))
