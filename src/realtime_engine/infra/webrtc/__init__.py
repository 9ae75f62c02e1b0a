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
from .ingest import PublisherEnd, PublisherPeer
from .intake import Picture
from .liveness import Patience
from .peer import CloseReason, ViewerPeer
from .receiver import ReceivedFrame, WebRtcReceiver
from .shared import SharedVideo
from .source import FrameSource, FrameSubscription

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
    "Picture",
    "PublisherEnd",
    "PublisherPeer",
    "ReceivedFrame",
    "SharedVideo",
    "VideoEncoder",
    "ViewerPeer",
    "WebRtcError",
    "WebRtcReceiver",
    "create_encoder",
    "default_bitrate",
    "frame_message",
    "parse_frame_message",
]
