"""The messages of the video WebSocket: video packets to the viewer, acknowledgements and requests back."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import NamedTuple

from ...core.errors import RealtimeEngineError


class BadPacketError(RealtimeEngineError, ValueError):
    """A binary message is not a video packet of this version."""


class BadMessageError(RealtimeEngineError, ValueError):
    """A viewer's message is not part of the protocol."""


VERSION = 1
_MAX_CHARACTERS = 256
_KEYFRAME = 1
_HEADER = struct.Struct("!BBHIQQqI")
_NO_ACTION = -1


class Acknowledge(NamedTuple):
    """All packets up to ``number`` have arrived."""

    number: int


class KeyframeRequest(NamedTuple):
    """The viewer cannot decode the next packet."""


def parse_viewer_message(text: str) -> Acknowledge | KeyframeRequest:
    """Read ``{"v": 1, "type": "ack", "number": 7}`` or ``{"v": 1, "type": "keyframe"}``.

    Raises:
        BadMessageError: it is something else.
    """
    if len(text) > _MAX_CHARACTERS:
        raise BadMessageError(f"a message has at most {_MAX_CHARACTERS} characters, got {len(text)}")
    try:
        message = json.loads(text)
    except ValueError as error:
        raise BadMessageError(f"not JSON: {error}") from None
    if not isinstance(message, dict) or message.get("v") != VERSION:
        raise BadMessageError(f'expected an object with "v": {VERSION}')
    kind, number = message.get("type"), message.get("number")
    if kind == "keyframe":
        return KeyframeRequest()
    if kind == "ack" and isinstance(number, int) and not isinstance(number, bool) and number >= 0:
        return Acknowledge(number)
    raise BadMessageError('expected type "ack" with a number of 0 or more, or type "keyframe"')


@dataclass(frozen=True, slots=True)
class VideoPacket:
    """A binary message to a viewer: a header of 36 bytes in network byte order, then ``data``.

    ====== ==== ============================================================
    offset type field
    ====== ==== ============================================================
    0      u8   version, 1
    1      u8   flags: bit 0 is ``keyframe``
    2      u16  ``index``
    4      u32  ``number``
    8      u64  ``timestamp_us``
    16     u64  ``seq``
    24     i64  ``action_seq``, -1 for ``None``
    32     u32  ``epoch``
    ====== ==== ============================================================

    Attributes:
        number: of the message in its connection, from 0; viewers acknowledge it.
        keyframe: a decoder can start with it.
        timestamp_us: presentation time, in microseconds of the stream's clock.
        epoch, seq, index: the identity of the frame, as in :class:`~realtime_engine.infra.frame.FrameId`.
        action_seq: ``seq`` of the newest controls message that shaped it.
        data: H.264, Annex B, one access unit; parameter sets come before every keyframe. Or a JPEG.
    """

    number: int
    keyframe: bool
    timestamp_us: int
    epoch: int
    seq: int
    index: int
    action_seq: int | None
    data: bytes

    def encode(self) -> bytes:
        """The binary message.

        Raises:
            struct.error: a number does not fit its field.
        """
        action = _NO_ACTION if self.action_seq is None else self.action_seq
        flags = _KEYFRAME if self.keyframe else 0
        head = _HEADER.pack(VERSION, flags, self.index, self.number, self.timestamp_us, self.seq, action, self.epoch)
        return head + self.data


def parse_packet(message: bytes) -> VideoPacket:
    """Read a binary message; unknown flags are ignored.

    Raises:
        BadPacketError: it is not a video packet of this version.
    """
    if len(message) < _HEADER.size:
        raise BadPacketError(
            f"a video packet has {_HEADER.size} bytes of header, this message has {len(message)} bytes"
        )
    version, flags, index, number, timestamp_us, seq, action, epoch = _HEADER.unpack_from(message)
    if version != VERSION:
        raise BadPacketError(f"expected a video packet of version {VERSION}, got version {version}")
    action_seq = None if action == _NO_ACTION else action
    data = message[_HEADER.size :]
    return VideoPacket(number, bool(flags & _KEYFRAME), timestamp_us, epoch, seq, index, action_seq, data)
