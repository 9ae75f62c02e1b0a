"""H.264 as WebSocket messages for browsers that decode with WebCodecs. Independent of web frameworks."""

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
