"""Video to a browser over WebRTC, and text both ways. The only importer of aiortc."""

from .codecs import DEFAULT_CODECS, Codec
from .encoder import VideoEncoder, create_encoder, default_bitrate
from .errors import (
    BadAnswerError,
    BadCandidateError,
    BadOfferError,
    NoCandidatesError,
    PeerClosedError,
    WebRtcError,
)
from .ice import IceConfig, IceServer
from .identity import FrameInfo, frame_message, parse_frame_message
from .liveness import Patience
from .peer import CloseReason, ViewerPeer
from .ports import UdpPorts
from .receiver import ReceivedFrame, WebRtcReceiver
from .route import Route, RouteKind, find_route
from .shared import SharedVideo
from .source import FrameSource, FrameSubscription
from .turn import TurnSecret

__all__ = [
    "DEFAULT_CODECS",
    "BadAnswerError",
    "BadCandidateError",
    "BadOfferError",
    "CloseReason",
    "Codec",
    "FrameInfo",
    "FrameSource",
    "FrameSubscription",
    "IceConfig",
    "IceServer",
    "NoCandidatesError",
    "Patience",
    "PeerClosedError",
    "ReceivedFrame",
    "Route",
    "RouteKind",
    "SharedVideo",
    "TurnSecret",
    "UdpPorts",
    "VideoEncoder",
    "ViewerPeer",
    "WebRtcError",
    "WebRtcReceiver",
    "create_encoder",
    "default_bitrate",
    "find_route",
    "frame_message",
    "parse_frame_message",
]
