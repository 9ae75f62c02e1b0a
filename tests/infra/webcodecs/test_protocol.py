from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.infra.webcodecs import (
    Acknowledge,
    BadMessageError,
    BadPacketError,
    KeyframeRequest,
    VideoPacket,
    parse_packet,
    parse_viewer_message,
)


def test_viewer_messages_are_parsed() -> None:
    assert parse_viewer_message('{"v": 1, "type": "ack", "number": 7}') == Acknowledge(7)
    assert parse_viewer_message('{"v": 1, "type": "keyframe"}') == KeyframeRequest()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        '{"type": "keyframe"}',
        '{"v": 2, "type": "keyframe"}',
        '{"v": 1, "type": "dance"}',
        '{"v": 1, "type": "ack"}',
        '{"v": 1, "type": "ack", "number": -1}',
        '{"v": 1, "type": "ack", "number": true}',
        '{"v": 1, "type": "ack", "number": 1.5}',
        '{"v": 1, "type": "keyframe"}' + " " * 300,
    ],
)
def test_other_messages_are_refused(text: str) -> None:
    with pytest.raises(BadMessageError):
        parse_viewer_message(text)


def numbers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1)


PACKETS = st.builds(
    VideoPacket,
    number=numbers(32),
    keyframe=st.booleans(),
    timestamp_us=numbers(64),
    epoch=numbers(32),
    seq=numbers(64),
    index=numbers(16),
    action_seq=st.none() | st.integers(0, 2**53 - 1),
    data=st.binary(),
)


@given(PACKETS)
def test_a_packet_survives_a_round_trip(packet: VideoPacket) -> None:
    assert parse_packet(packet.encode()) == packet


def test_the_header_is_as_documented() -> None:
    message = VideoPacket(3, True, 40_000, 2, 208, 1, 12, b"\0\0\0\1").encode()
    assert (message[0], message[1], struct.unpack_from("!HI", message, 2)) == (1, 1, (1, 3))
    assert struct.unpack_from("!QQqI", message, 8) == (40_000, 208, 12, 2)
    assert message[36:] == b"\0\0\0\1"
    none = VideoPacket(0, False, 0, 1, 0, 0, None, b"").encode()
    assert (none[1], struct.unpack_from("!q", none, 24)) == (0, (-1,))


@pytest.mark.parametrize("message", [b"", b"\1" + bytes(34), b"\2" + bytes(40)])
def test_other_binary_messages_are_refused(message: bytes) -> None:
    with pytest.raises(BadPacketError, match="version|bytes"):
        parse_packet(message)
