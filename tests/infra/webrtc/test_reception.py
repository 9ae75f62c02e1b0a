from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiortc import RTCPeerConnection, RTCRtpReceiver
from aiortc.jitterbuffer import JitterBuffer, JitterFrame
from aiortc.rtp import HeaderExtensionsMap, RtpPacket, pack_header_extensions

from realtime_engine.infra.webrtc import reception
from realtime_engine.infra.webrtc.reception import (
    DecoderQueue,
    bound_decoding,
    bound_sources,
    emit_at_marker,
    hear_extension,
    starts_anew,
)

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
