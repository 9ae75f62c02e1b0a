from __future__ import annotations

import numpy as np
import pytest
from aiortc.codecs import h264_depayload, vp8_depayload

from realtime_engine.infra.color import to_i420
from realtime_engine.infra.encoding.base import Codec
from realtime_engine.infra.encoding.factory import SOFTWARE_ENCODERS
from realtime_engine.infra.webrtc.packetizer import MAX_PAYLOAD, MTU, packetize_h264, packetize_vp8, split_annex_b

from .support import picture


def unit(kind: int, size: int, seed: int = 0) -> bytes:
    """A NAL unit without start codes in it."""
    body = np.random.default_rng(seed).integers(1, 256, size - 1, dtype=np.uint8)
    return bytes([0x60 | kind]) + bytes(body)


def annex_b(*units: bytes) -> bytes:
    return b"".join(b"\0\0\0\1" + unit for unit in units)


def test_a_datagram_has_room_for_all_headers() -> None:
    assert MAX_PAYLOAD + 12 + 24 + 16 <= MTU == 1200


@pytest.mark.parametrize("size", [1, 99, 100, 101, 1000, 60_001])
def test_vp8_is_split_into_even_parts(size: int) -> None:
    data = unit(1, size)
    payloads = packetize_vp8(data, limit=100)
    assert b"".join(vp8_depayload(payload) for payload in payloads) == data
    assert [payload[0] for payload in payloads] == [0x10] + [0] * (len(payloads) - 1)
    sizes = [len(payload) for payload in payloads]
    assert max(sizes) <= 100 and max(sizes) - min(sizes) <= 1 and len(sizes) == -(-size // 99)


@pytest.mark.parametrize(
    "sizes",
    [[5], [100], [101], [98, 5], [97, 5], [20, 30, 5000], [5000, 20, 30], [40, 40, 40, 40], [30, 99, 200, 30], [1, 1]],
)
def test_h264_units_survive_packetization_in_order(sizes: list[int]) -> None:
    units = [unit(7 + index % 2, size, index) for index, size in enumerate(sizes)]
    payloads = packetize_h264(annex_b(*units), limit=100)
    assert b"".join(h264_depayload(payload) for payload in payloads) == annex_b(*units)
    assert max(len(payload) for payload in payloads) <= 100


def test_small_units_share_a_payload() -> None:
    payloads = packetize_h264(annex_b(unit(7, 20), unit(8, 8), unit(5, 500)), limit=100)
    assert payloads[0][0] & 0x1F == 24 and len(payloads[0]) == 1 + 2 + 20 + 2 + 8
    assert [payload[0] & 0x1F for payload in payloads[1:]] == [28] * (len(payloads) - 1)


def test_units_end_before_either_start_code_and_padding() -> None:
    assert list(split_annex_b(b"\0\0\1ab\0\0\0\1cd\0\0\1e\0\0")) == [b"ab", b"cd", b"e"]
    assert list(split_annex_b(b"")) == []


@pytest.mark.parametrize("codec", list(Codec))
def test_packets_of_the_encoders_fit(codec: Codec) -> None:
    packetize, depayload = {
        Codec.VP8: (packetize_vp8, vp8_depayload),
        Codec.H264: (packetize_h264, h264_depayload),
    }[codec]
    encoder = SOFTWARE_ENCODERS(codec)
    noise = np.random.default_rng(0).integers(0, 256, (360, 640, 3), dtype=np.uint8)
    for number, pixels in enumerate((noise, picture(1, 640, 360))):
        (packet,) = encoder.encode(to_i420(pixels), at_ns=number * 33_000_000)
        payloads = packetize(bytes(packet))
        assert max(len(payload) for payload in payloads) <= MAX_PAYLOAD
        whole = b"".join(depayload(payload) for payload in payloads)
        expected = bytes(packet)
        if codec is Codec.H264:
            whole, expected = (b"".join(split_annex_b(stream)) for stream in (whole, expected))
        assert whole == expected
    encoder.close()
