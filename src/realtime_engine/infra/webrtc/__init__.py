"""Video to a browser over WebRTC, and text both ways. The only importer of aiortc."""

from .codecs import DEFAULT_CODECS, Codec
from .encoder import VideoEncoder, create_encoder, default_bitrate
from .encoders import ENCODER_CHOICES, Encoders, choose_encoders
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
from .ingest import PublisherEnd, PublisherPeer
from .intake import Picture
from .liveness import Patience
from .peer import CloseReason, ViewerPeer
from .ports import UdpPorts
from .rate import LEAST_BITRATE, MOST_BITRATE
from .receiver import ReceivedFrame, WebRtcReceiver
from .remote import RemotePeer, hang_up
from .route import Route, RouteKind, find_route
from .shared import SharedVideo
from .source import FrameSource, FrameSubscription
from .stream import StreamStats
from .tiers import Tier
from .track import SentFrame
from .turn import TurnSecret
from .viewer import EncodedFrame, Loss, StreamEnded, VideoViewer

__all__ = [
    "DEFAULT_CODECS",
    "ENCODER_CHOICES",
    "LEAST_BITRATE",
    "MOST_BITRATE",
    "BadAnswerError",
    "BadCandidateError",
    "BadOfferError",
    "CloseReason",
    "Codec",
    "Encoders",
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
    "Picture",
    "PublisherEnd",
    "PublisherPeer",
    "ReceivedFrame",
    "SentFrame",
    "RemotePeer",
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
    "choose_encoders",
    "create_encoder",
    "default_bitrate",
    "find_route",
    "hang_up",
    "frame_message",
    "parse_frame_message",
]
