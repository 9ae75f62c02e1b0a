"""H.264 as messages of a WebSocket, which a browser decodes by WebCodecs. Knows no web framework."""

from .errors import BadMessageError, BadPacketError
from .feed import PacketFeed
from .flight import Flight
from .messages import Acknowledge, KeyframeRequest, parse_viewer_message
from .packet import VideoPacket, parse_packet
from .rate import RateEstimate

__all__ = [
    "Acknowledge",
    "BadMessageError",
    "BadPacketError",
    "Flight",
    "KeyframeRequest",
    "PacketFeed",
    "RateEstimate",
    "VideoPacket",
    "parse_packet",
    "parse_viewer_message",
]
