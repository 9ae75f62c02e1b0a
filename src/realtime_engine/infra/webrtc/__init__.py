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
from .stream import StreamStats
from .tiers import Tier
from .turn import TurnSecret
from .viewer import EncodedFrame, Loss, StreamEnded, VideoViewer

__all__ = [
    "DEFAULT_CODECS",
    "BadAnswerError",
    "BadCandidateError",
    "BadOfferError",
    "CloseReason",
    "Codec",
    "EncodedFrame",
    "FrameInfo",
    "FrameSource",
    "FrameSubscription",
    "IceConfig",
    "IceServer",
    "Loss",
    "NoCandidatesError",
    "Patience",
    "PeerClosedError",
    "ReceivedFrame",
    "Route",
    "RouteKind",
    "SharedVideo",
    "TurnSecret",
    "UdpPorts",
    "StreamEnded",
    "StreamStats",
    "Tier",
    "VideoEncoder",
    "VideoViewer",
    "ViewerPeer",
    "WebRtcError",
    "WebRtcReceiver",
    "create_encoder",
    "default_bitrate",
    "find_route",
    "frame_message",
    "parse_frame_message",
]
