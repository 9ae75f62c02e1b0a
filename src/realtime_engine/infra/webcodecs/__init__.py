"""H.264 for browsers that decode with WebCodecs, and JPEGs, as WebSocket messages. Independent of web frameworks."""

from .feed import PacketFeed
from .flow_control import InFlightWindow, RateEstimate
from .jpeg_feed import JpegFeed
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
    "JpegFeed",
    "KeyframeRequest",
    "PacketFeed",
    "RateEstimate",
    "VideoPacket",
    "parse_packet",
    "parse_viewer_message",
]
