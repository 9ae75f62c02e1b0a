"""H.264 as messages of a WebSocket, which a browser decodes by WebCodecs. Knows no web framework."""

from .feed import PacketFeed
from .flow_control import InFlightWindow, RateEstimate
from .protocol import (
    Acknowledge,
    BadMessageError,
    BadPacketError,
    KeyframeRequest,
    VideoPacket,
    parse_packet,
    parse_viewer_message,
)

__all__ = [
    "Acknowledge",
    "BadMessageError",
    "BadPacketError",
    "InFlightWindow",
    "KeyframeRequest",
    "PacketFeed",
    "RateEstimate",
    "VideoPacket",
    "parse_packet",
    "parse_viewer_message",
]
