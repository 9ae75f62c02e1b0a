"""From an encoded picture to RTP payloads that fit through any network.

VP8 as of RFC 7741 with the shortest payload descriptor, H.264 as of RFC 6184 in its non-interleaved mode: small units
together in a STAP-A, a large one in several FU-A.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..encoding.base import Codec

MTU = 1200  # bytes of a UDP datagram
_AROUND = 12 + 24 + 16 + 2 + 4  # RTP header, header extensions, SRTP tag, number of a retransmission, TURN channel
MAX_PAYLOAD = MTU - _AROUND

_VP8_FIRST, _VP8_NEXT = b"\x10", b"\x00"
_FU_A, _STAP_A = 28, 24
_FU_FIRST, _FU_LAST = 0x80, 0x40
_START_CODE = b"\x00\x00\x01"


def packetize_vp8(picture: bytes, most: int = MAX_PAYLOAD) -> list[bytes]:
    """Payloads of at most ``most`` bytes, about equally long."""
    parts = _even_parts(picture, most - 1)
    return [(_VP8_NEXT if index else _VP8_FIRST) + part for index, part in enumerate(parts)]


def packetize_h264(picture: bytes, most: int = MAX_PAYLOAD) -> list[bytes]:
    """Payloads of at most ``most`` bytes of a picture in Annex B format."""
    payloads: list[bytes] = []
    small: list[bytes] = []
    room = 0
    for unit in split_annex_b(picture):
        if len(unit) > most:
            payloads += _aggregate(small)
            small = []
            payloads += _fragments(unit, most)
            continue
        if small and len(unit) + 2 > room:
            payloads += _aggregate(small)
            small = []
        room = (room if small else most - 1) - len(unit) - 2
        small.append(unit)
    return payloads + _aggregate(small)


def split_annex_b(stream: bytes) -> Iterator[bytes]:
    """The units between start codes of three or four bytes."""
    begin = stream.find(_START_CODE)
    while begin != -1:
        begin += len(_START_CODE)
        end = stream.find(_START_CODE, begin)
        unit = stream[begin:] if end == -1 else stream[begin:end]
        unit = unit.rstrip(b"\x00")  # of a longer start code, or padding: a unit ends with a one
        if unit:
            yield unit
        begin = end


def _aggregate(units: list[bytes]) -> list[bytes]:
    if len(units) < 2:
        return units
    importance = max(unit[0] & 0x60 for unit in units)
    return [bytes([importance | _STAP_A]) + b"".join(len(unit).to_bytes(2, "big") + unit for unit in units)]


def _fragments(unit: bytes, most: int) -> Iterator[bytes]:
    indicator, kind = unit[0] & 0xE0 | _FU_A, unit[0] & 0x1F
    parts = _even_parts(unit[1:], most - 2)
    for index, part in enumerate(parts):
        first = _FU_FIRST if index == 0 else 0
        last = _FU_LAST if index == len(parts) - 1 else 0
        yield bytes([indicator, first | last | kind]) + part


def _even_parts(data: bytes, most: int) -> list[bytes]:
    count = -(-len(data) // most)
    ends = [len(data) * (index + 1) // count for index in range(count)]
    return [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


PACKETIZERS: dict[Codec, Callable[[bytes], list[bytes]]] = {Codec.VP8: packetize_vp8, Codec.H264: packetize_h264}
