"""Video encoders for live viewing, independent of transports."""

from .base import Codec, PyavEncoder, VideoEncoder
from .factory import ENCODER_CHOICES, SOFTWARE_ENCODERS, Encoders, choose_encoders
from .h264 import H264Encoder
from .rate_control import MAX_BITRATE, MIN_BITRATE, default_bitrate
from .vp8 import Vp8Encoder

__all__ = [
    "ENCODER_CHOICES",
    "MIN_BITRATE",
    "MAX_BITRATE",
    "SOFTWARE_ENCODERS",
    "Codec",
    "Encoders",
    "H264Encoder",
    "PyavEncoder",
    "VideoEncoder",
    "Vp8Encoder",
    "choose_encoders",
    "default_bitrate",
]
