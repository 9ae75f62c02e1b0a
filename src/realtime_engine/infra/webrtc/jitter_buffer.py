"""The receiving side of RTP video: pictures from packets, NACKs for missing packets, frames for the decoder.

Unlike aiortc's jitter buffer, this one emits a picture with its last packet, and skips to the next complete keyframe
when a packet stays missing.
"""

from __future__ import annotations

import queue
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ...core.clock import NS_PER_S, Clock
from ..encoding.base import Codec

_MAX_PACKETS = 2048
_STUCK_TICKS = 45_000  # of the 90 kHz clock: media received after a gap until a keyframe is requested
_TIMESTAMPS = 1 << 32
_RETRY_NS = NS_PER_S // 20  # senders ignore a repeated request while the packet may be on its way
_MAX_BEHIND = 128  # packets that the sender can retransmit
_H264_KEYFRAME = re.compile(rb"\x00\x00\x01[\x05\x07\x25\x27\x45\x47\x65\x67]")  # an IDR slice or parameter sets


class ReceivedPacket(NamedTuple):
    """An RTP packet.

    Attributes:
        number: the sequence number.
        timestamp: the RTP timestamp, 32 bits.
        data: the depacketized payload.
        is_last: it is the last one of its picture (marker bit).
        starts_keyframe: it is the first one of a keyframe.
    """

    number: int
    timestamp: int
    data: bytes
    is_last: bool
    starts_keyframe: bool


class EncodedPicture(NamedTuple):
    """An encoded picture and its RTP timestamp."""

    data: bytes
    timestamp: int


class JitterBuffer:
    """Assembles the pictures of one video stream from its packets, in whatever order these arrive."""

    def __init__(self) -> None:
        self._packets: dict[int, ReceivedPacket] = {}  # by unwrapped sequence number
        self._next: int | None = None
        self._blocked_at: int | None = None

    def add(self, packet: ReceivedPacket) -> tuple[list[EncodedPicture], bool]:
        """Add a packet; returns the pictures that are now complete, and whether a keyframe should be requested."""
        number = self._unwrap(packet.number)
        if self._next is None:
            self._next = number
        if number < self._next:
            return [], False
        self._packets[number] = packet
        pictures = []
        while (count := self._length(self._next)) or self._skip(self._next):
            if count:
                parts = [self._packets.pop(number) for number in range(self._next, self._next + count)]
                pictures.append(EncodedPicture(b"".join(part.data for part in parts), parts[0].timestamp))
                self._next += count
        if pictures:
            self._blocked_at = None
        return pictures, self._is_stuck(packet)

    def needs(self, number: int) -> bool:
        """Whether the packet with this sequence number would still be used."""
        return self._next is None or self._unwrap(number) >= self._next

    def _unwrap(self, number: int) -> int:
        """The sequence number without its wrap at 16 bits: the value nearest to the next expected one."""
        return number if self._next is None else self._next + _sequence_distance(self._next, number)

    @property
    def _has_gap(self) -> bool:
        return bool(self._packets) and max(self._packets) - (self._next or 0) >= len(self._packets)

    def _length(self, start: int) -> int:
        """The number of packets of the picture that starts there; 0 while it is incomplete."""
        first = self._packets.get(start)
        number = start
        while first is not None and (packet := self._packets.get(number)) is not None:
            if packet.timestamp != first.timestamp:
                return number - start
            number += 1
            if packet.is_last:
                return number - start
        return 0

    def _skip(self, start: int) -> bool:
        """Continue at the newest complete keyframe after a gap; false if there is none."""
        keyframes = [number for number, packet in self._packets.items() if packet.starts_keyframe and number > start]
        complete = [number for number in keyframes if self._length(number)]
        if not complete:
            return False
        self._next = max(complete)
        self._packets = {number: packet for number, packet in self._packets.items() if number >= self._next}
        return True

    def _is_stuck(self, packet: ReceivedPacket) -> bool:
        if not self._has_gap:
            self._blocked_at = None
            return False
        if len(self._packets) > _MAX_PACKETS:
            self._next = max(self._packets) + 1
            self._packets.clear()
            return True
        if self._blocked_at is None:
            self._blocked_at = packet.timestamp
        if (packet.timestamp - self._blocked_at) % _TIMESTAMPS not in range(_STUCK_TICKS, _TIMESTAMPS // 2):
            return False
        self._blocked_at = packet.timestamp
        return True


class NackGenerator:
    """Determines what to request in a generic NACK (RFC 4585) when a packet arrives.

    A request or its answer can be lost too, so each packet is requested again after 50 ms, also when no further one is
    missing.

    Args:
        clock: measures the time since a request.
        is_needed: whether the packet with this sequence number would still be used.
    """

    def __init__(self, clock: Clock, is_needed: Callable[[int], bool]) -> None:
        self._clock = clock
        self._is_needed = is_needed
        self._newest: int | None = None
        self._requested_ns: dict[int, int | None] = {}  # missing numbers; None: not requested yet

    def on_packet(self, number: int) -> list[int]:
        """The packet with this sequence number has arrived; returns the numbers to request now."""
        newest = number if self._newest is None else self._newest
        ahead = _sequence_distance(newest, number)
        if ahead > 0:
            skipped = range(max(1, ahead - _MAX_BEHIND), ahead)
            self._requested_ns.update({(newest + step) & 0xFFFF: None for step in skipped})
            newest = number
        self._newest = newest
        self._requested_ns.pop(number, None)
        self._forget(newest)
        now_ns = self._clock.now_ns()
        due = [n for n, at_ns in self._requested_ns.items() if at_ns is None or now_ns - at_ns >= _RETRY_NS]
        self._requested_ns.update(dict.fromkeys(due, now_ns))
        return due

    def _forget(self, newest: int) -> None:
        kept = [n for n in self._requested_ns if (newest - n) & 0xFFFF < _MAX_BEHIND and self._is_needed(n)]
        self._requested_ns = {number: self._requested_ns[number] for number in kept}


class DecoderQueue(queue.Queue[Any]):
    """A bounded queue for aiortc's decoder thread; when it is full, frames are dropped up to the next keyframe.

    Items are ``(codec, frame)``, or ``None`` to end the thread.

    Args:
        limit: frames that may wait.
        on_drop: called for each frame that is dropped.
    """

    def __init__(self, limit: int, on_drop: Callable[[], None]) -> None:
        super().__init__()
        self._limit = limit
        self._on_drop = on_drop
        self._skipping = False

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item, or drop it; never blocks."""
        if item is None or self._has_room_for(*item):
            super().put(item)
        else:
            self._on_drop()

    def _has_room_for(self, codec: Any, frame: Any) -> bool:
        if self.qsize() >= self._limit:
            self._skipping = True
        elif self._skipping and is_keyframe(codec.name, frame.data):
            self._skipping = False
        return not self._skipping


def is_keyframe(codec: str, data: bytes) -> bool:
    """Whether a decoder can start with this picture (RFC 6386, section 9.1; H.264, section 7.4.1)."""
    if codec.upper() == "VP8":
        return bool(data) and not data[0] & 1
    return _H264_KEYFRAME.search(data) is not None


def starts_keyframe(codec: Codec, payload: bytes, data: bytes) -> bool:
    """Whether this RTP payload, depacketized to ``data``, is the first of a keyframe."""
    if codec is Codec.VP8:  # start of the first partition (RFC 7741, section 4.2) of a key frame
        return bool(payload and data) and bool(payload[0] & 0x10) and is_keyframe(codec, data)
    return len(data) > 4 and data[:4] == b"\0\0\0\x01" and data[4] & 0x1F == 7  # a sequence parameter set


def _sequence_distance(earlier: int, later: int) -> int:
    """Steps from one 16-bit sequence number to another, from -32768 to 32767."""
    return (later - earlier + 0x8000) % 0x10000 - 0x8000
