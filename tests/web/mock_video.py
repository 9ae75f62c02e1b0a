"""The synthetic frames as H.264 packets of the video WebSocket."""

from __future__ import annotations

from functools import cache

from realtime_engine.infra.color import to_i420
from realtime_engine.infra.encoding import SOFTWARE_ENCODERS, Codec
from realtime_engine.infra.webcodecs import VideoPacket

from .mock_demo import FPS, paint

_LENGTH = 21
_NS = 1_000_000_000


def packet(number: int, action_seq: int | None, *, usable: bool = True) -> bytes:
    """Return the message with this number; each cycle of frames starts with a keyframe."""
    data = _encoded()[number % _LENGTH]
    if not usable:
        data = data[:8] + bytes(len(data) - 8)
    timestamp_us = number * 1_000_000 // FPS
    return VideoPacket(number, number % _LENGTH == 0, timestamp_us, 1, number, 0, action_seq, data).encode()


@cache
def _encoded() -> list[bytes]:
    encoder = SOFTWARE_ENCODERS(Codec.H264, FPS, 1_500_000)
    frames = [encoder.encode(to_i420(paint(index)), index == 0, at_ns=index * _NS // FPS) for index in range(_LENGTH)]
    encoder.close()
    return [b"".join(bytes(part) for part in parts) for parts in frames]
