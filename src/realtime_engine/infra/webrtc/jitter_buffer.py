"""From received packets to encoded pictures: each as soon as its last packet is there, and on from the next keyframe
when something is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...core.clock import NS_PER_S, Clock
from ..encoding.base import Codec

_MAX_PIECES = 2048
_TIMEOUT = 45_000  # of the 90 kHz clock: how much is received behind a gap before a keyframe is asked for
_HALF, _ALL = 1 << 15, 1 << 16
_ALL_TIME = 1 << 32


class Piece(NamedTuple):
    """A packet. It may be the last one of its picture (``ends``), or the first one of a keyframe (``keys``)."""

    number: int
    timestamp: int
    data: bytes
    ends: bool
    keys: bool


class EncodedPicture(NamedTuple):
    """An encoded picture and its RTP timestamp."""

    data: bytes
    timestamp: int


class Reassembly:
    """Takes the packets of one video stream in any order."""

    def __init__(self) -> None:
        self._pieces: dict[int, Piece] = {}
        self._next: int | None = None
        self._blocked_at: int | None = None

    def add(self, piece: Piece) -> tuple[list[EncodedPicture], bool]:
        """Take a packet; returns the pictures that are complete now, and whether only a keyframe can help."""
        number = self._unwrap(piece.number)
        if self._next is None:
            self._next = number
        if number < self._next:
            return [], False
        self._pieces[number] = piece
        pictures = []
        while (count := self._length(self._next)) or self._skip(self._next):
            if count:
                parts = [self._pieces.pop(number) for number in range(self._next, self._next + count)]
                pictures.append(EncodedPicture(b"".join(part.data for part in parts), parts[0].timestamp))
                self._next += count
        if pictures:
            self._blocked_at = None
        return pictures, self._is_stuck(piece)

    def needs(self, number: int) -> bool:
        """Whether the packet of this number would still be of use."""
        return self._next is None or self._unwrap(number) >= self._next

    def _unwrap(self, number: int) -> int:
        """The number without its wrap at 16 bits: the nearest to the one that is next."""
        reference = number if self._next is None else self._next
        return reference + (number - reference + _HALF) % _ALL - _HALF

    @property
    def _has_gap(self) -> bool:
        return bool(self._pieces) and max(self._pieces) - (self._next or 0) >= len(self._pieces)

    def _length(self, begin: int) -> int:
        """How many packets the picture that begins there has; 0 when it is not complete."""
        first = self._pieces.get(begin)
        number = begin
        while first is not None and (piece := self._pieces.get(number)) is not None:
            if piece.timestamp != first.timestamp:
                return number - begin
            number += 1
            if piece.ends:
                return number - begin
        return 0

    def _skip(self, begin: int) -> bool:
        """Go on at the newest complete keyframe behind a gap; false when there is none."""
        keys = [number for number, piece in self._pieces.items() if piece.keys and number > begin]
        complete = [number for number in keys if self._length(number)]
        if not complete:
            return False
        self._next = max(complete)
        self._pieces = {number: piece for number, piece in self._pieces.items() if number >= self._next}
        return True

    def _is_stuck(self, piece: Piece) -> bool:
        if not self._has_gap:
            self._blocked_at = None
            return False
        if len(self._pieces) > _MAX_PIECES:
            self._next = max(self._pieces) + 1
            self._pieces.clear()
            return True
        if self._blocked_at is None:
            self._blocked_at = piece.timestamp
        if (piece.timestamp - self._blocked_at) % _ALL_TIME not in range(_TIMEOUT, _ALL_TIME // 2):
            return False
        self._blocked_at = piece.timestamp
        return True


def begins_keyframe(codec: Codec, payload: bytes, data: bytes) -> bool:
    """Whether this RTP payload, which holds this part of a picture, is the first of a keyframe."""
    if codec is Codec.VP8:  # a first partition begins (RFC 7741 section 4.2), of a key frame (RFC 6386 section 9.1)
        return bool(payload and data) and bool(payload[0] & 0x10) and not data[0] & 0x01
    return data[:4] == b"\0\0\0\x01" and data[4] & 0x1F == 7  # with its parameter sets


_TIMEOUT_NS = NS_PER_S // 20  # a good sender repeats nothing that may be on its way, however long that is
_MAX_BEHIND = 128  # what the sender can send again
_REQUESTS_ALL, _REQUESTS_HALF = 1 << 16, 1 << 15


class NackGenerator:
    """Tells what to put into a generic NACK (RFC 4585) when a packet comes.

    A request or its answer can be lost too, so each packet is asked for again in a while, also when nothing new is
    missing.

    Args:
        is_needed: whether the packet of this sequence number would still be of use.
    """

    def __init__(self, clock: Clock, is_needed: Callable[[int], bool]) -> None:
        self._clock = clock
        self._is_needed = is_needed
        self._newest: int | None = None
        self._asked_ns: dict[int, int | None] = {}

    def hear(self, number: int) -> list[int]:
        """The packet of this number came; returns the numbers to ask for now."""
        ahead = 0 if self._newest is None else (number - self._newest + _REQUESTS_HALF) % _REQUESTS_ALL - _REQUESTS_HALF
        if ahead > 0:
            skipped = range(max(1, ahead - _MAX_BEHIND), ahead)
            self._asked_ns.update({((self._newest or 0) + step) % _REQUESTS_ALL: None for step in skipped})
        if ahead > 0 or self._newest is None:
            self._newest = number
        self._asked_ns.pop(number, None)
        self._forget(self._newest)
        now_ns = self._clock.now_ns()
        due = [n for n, at_ns in self._asked_ns.items() if at_ns is None or now_ns - at_ns >= _TIMEOUT_NS]
        self._asked_ns.update(dict.fromkeys(due, now_ns))
        return due

    def _forget(self, newest: int) -> None:
        kept = [n for n in self._asked_ns if (newest - n) % _REQUESTS_ALL < _MAX_BEHIND and self._is_needed(n)]
        self._asked_ns = {number: self._asked_ns[number] for number in kept}
