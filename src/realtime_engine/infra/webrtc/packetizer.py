"""RTP payloads of encoded pictures, small enough for any network.

VP8 by RFC 7741 with the shortest payload descriptor. H.264 by RFC 6184 in its non-interleaved mode: small NAL units are
aggregated in a STAP-A, a large one is fragmented into FU-As.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..encoding.base import Codec

MTU = 1200  # bytes of a UDP datagram
_OVERHEAD = 12 + 24 + 16 + 2 + 4  # RTP header, header extensions, SRTP tag, RTX sequence number, TURN channel
MAX_PAYLOAD = MTU - _OVERHEAD

_VP8_FIRST, _VP8_NEXT = b"\x10", b"\x00"
_FU_A, _STAP_A = 28, 24
_FU_FIRST, _FU_LAST = 0x80, 0x40
_START_CODE = b"\x00\x00\x01"


def packetize_vp8(picture: bytes, limit: int = MAX_PAYLOAD) -> list[bytes]:
    """Payloads of at most ``limit`` bytes, about equally long."""
    parts = _even_parts(picture, limit - 1)
    return [(_VP8_NEXT if index else _VP8_FIRST) + part for index, part in enumerate(parts)]


def packetize_h264(picture: bytes, limit: int = MAX_PAYLOAD) -> list[bytes]:
    """Payloads of at most ``limit`` bytes of a picture in Annex B format."""
    payloads: list[bytes] = []
    small: list[bytes] = []
    room = 0
    for unit in split_annex_b(picture):
        if len(unit) > limit:
            payloads += _aggregate(small)
            small = []
            payloads += _fragments(unit, limit)
            continue
        if small and len(unit) + 2 > room:
            payloads += _aggregate(small)
            small = []
        room = (room if small else limit - 1) - len(unit) - 2
        small.append(unit)
    return payloads + _aggregate(small)


def split_annex_b(stream: bytes) -> Iterator[bytes]:
    """The NAL units between start codes of three or four bytes."""
    start = stream.find(_START_CODE)
    while start != -1:
        start += len(_START_CODE)
        end = stream.find(_START_CODE, start)
        unit = stream[start:] if end == -1 else stream[start:end]
        unit = unit.rstrip(b"\x00")  # of a longer start code, or padding: a NAL unit ends with a one bit
        if unit:
            yield unit
        start = end


def _aggregate(units: list[bytes]) -> list[bytes]:
    if len(units) < 2:
        return units
    importance = max(unit[0] & 0x60 for unit in units)
    return [bytes([importance | _STAP_A]) + b"".join(len(unit).to_bytes(2, "big") + unit for unit in units)]


def _fragments(unit: bytes, limit: int) -> Iterator[bytes]:
    indicator, kind = unit[0] & 0xE0 | _FU_A, unit[0] & 0x1F
    parts = _even_parts(unit[1:], limit - 2)
    for index, part in enumerate(parts):
        first = _FU_FIRST if index == 0 else 0
        last = _FU_LAST if index == len(parts) - 1 else 0
        yield bytes([indicator, first | last | kind]) + part


def _even_parts(data: bytes, limit: int) -> list[bytes]:
    count = -(-len(data) // limit)
    ends = [len(data) * (index + 1) // count for index in range(count)]
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


PACKETIZERS: dict[Codec, Callable[[bytes], list[bytes]]] = {Codec.VP8: packetize_vp8, Codec.H264: packetize_h264}
