"""Video encoders for live viewing: I420 planes in, packets out, no frame of delay.

The settings are those that were measured to give the best picture for the time on few cores: one thread, no lookahead,
no B-frames, keyframes only on demand.
"""

from __future__ import annotations

from typing import Protocol

import av
import numpy as np
from numpy.typing import NDArray

from .codecs import Codec
from .h264 import H264Encoder
from .pyav_encoder import PyavEncoder
from .rate import default_bitrate
from .vp8 import Vp8Encoder

__all__ = ["VideoEncoder", "create_encoder", "default_bitrate"]


class VideoEncoder(Protocol):
    """One stream. One encode at a time, from whichever thread."""

    def encode(
        self, planes: NDArray[np.uint8], force_keyframe: bool = False, *, at_ns: int
    ) -> list[av.Packet[av.VideoStream]]:
        """Packets of this picture; the first of a stream is a keyframe.

        A new size begins a new stream, with a keyframe. After ``close``: ``ValueError``.

        Args:
            planes: I420, (height * 3 / 2, width) uint8, both sides even, as of :func:`~..colour.to_i420`.
            at_ns: when the picture is meant to be shown, in nanoseconds; the rate control follows it.
        """

    def set_bitrate(self, bits_per_second: int) -> None:
        """Aim at this rate from the next picture on. May be called during an encode."""

    def close(self) -> None:
        """Free the codec, once a picture in work is done. May be called again, and during an encode."""


_ENCODERS: dict[Codec, type[PyavEncoder]] = {Codec.H264: H264Encoder, Codec.VP8: Vp8Encoder}


def create_encoder(codec: Codec, fps: float = 30.0, bitrate: int | None = None) -> VideoEncoder:
    """The software encoder of ``codec``; the arguments are those of :class:`PyavEncoder`."""
    return _ENCODERS[codec](fps, bitrate)
