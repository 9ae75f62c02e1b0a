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
from .receiver import ReceivedFrame, WebRtcReceiver
from .shared import SharedVideo
from .source import FrameSource, FrameSubscription
from .stream import EncodedFrame, StreamEnded

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
    "NoCandidatesError",
    "Patience",
    "PeerClosedError",
    "ReceivedFrame",
    "SharedVideo",
    "StreamEnded",
    "VideoEncoder",
    "ViewerPeer",
    "WebRtcError",
    "WebRtcReceiver",
    "create_encoder",
    "default_bitrate",
    "frame_message",
    "parse_frame_message",
]
