"""Video to and from browsers over WebRTC, and messages over a data channel. The only package that imports aiortc."""

from .client import ReceivedFrame, WebRtcReceiver
from .codecs import DEFAULT_CODECS
from .errors import (
    BadAnswerError,
    BadCandidateError,
    BadOfferError,
    NoCandidatesError,
    PeerClosedError,
    WebRtcError,
)
from .ice import IceConfig, IceServer, TurnSecret
from .peer import PeerOptions, PeerTimeouts, RemotePeer, close_all
from .publisher_peer import PublisherCloseReason, PublisherPeer, ReceivedPicture
from .reachability import Reachability, ReachabilityKind, find_reachability
from .send_queue import EncodedFrame, Loss, StreamEnded, VideoViewer
from .shared_video import SharedVideo
from .stream import StreamStats
from .tiers import Tier
from .track import SentFrame
from .udp_ports import UdpPorts
from .viewer_peer import ViewerCloseReason, ViewerPeer, frame_text

__all__ = [
    "DEFAULT_CODECS",
    "BadAnswerError",
    "BadCandidateError",
    "BadOfferError",
    "ViewerCloseReason",
    "EncodedFrame",
    "IceConfig",
    "IceServer",
    "Loss",
    "NoCandidatesError",
    "PeerOptions",
    "PeerTimeouts",
    "PeerClosedError",
    "ReceivedPicture",
    "PublisherCloseReason",
    "PublisherPeer",
    "ReceivedFrame",
    "SentFrame",
    "RemotePeer",
    "Reachability",
    "ReachabilityKind",
    "SharedVideo",
    "TurnSecret",
    "UdpPorts",
    "StreamEnded",
    "StreamStats",
    "Tier",
    "VideoViewer",
    "ViewerPeer",
    "frame_text",
    "WebRtcError",
    "WebRtcReceiver",
    "find_reachability",
    "close_all",
]
