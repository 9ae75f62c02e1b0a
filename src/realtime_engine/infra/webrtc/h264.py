"""H.264 in software: constrained baseline, Annex B, parameter sets before every keyframe.

Colours are BT.601 limited range and the stream says so, since a decoder would otherwise guess BT.709.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import av
from av.video.codeccontext import VideoCodecContext

from .h264_levels import level_for
from .pyav_encoder import PyavEncoder, frame_time

_CEILING = 8  # times the rate: room for a higher one, and for frame rates down to this part of the declared one


class H264Encoder(PyavEncoder):
    """libx264 in its lowest-delay mode.

    It goes by frames and not by their times, so what a frame may have is set as a rate at the declared frame rate. It
    changes that in a running stream only if it was opened at a constant rate, and then only downwards from there: the
    stream opens far above the rate that is wanted and is turned down at once.
    """

    library = "libx264"
    live_range: ClassVar[tuple[float, float]] = (0.25, 1.5)

    def _options(self, width: int, height: int, rate: int) -> Mapping[str, str]:
        return {
            "preset": "superfast",
            "tune": "zerolatency",
            "profile": "baseline",
            "level": level_for(width, height, self._fps),
            "forced-idr": "1",
            "maxrate": str(_CEILING * rate),
            "bufsize": str(self._vbv_bits(rate)),
            "x264-params": "colorprim=smpte170m:transfer=smpte170m:colormatrix=smpte170m:scenecut=0",
        }

    def _configure(self, context: VideoCodecContext, rate: int) -> None:
        context.time_base = frame_time(self._fps)
        context.framerate = 1 / context.time_base
        context.bit_rate = _CEILING * rate
        self._count = 0

    def _schedule(self, context: VideoCodecContext, frame: av.VideoFrame, bits: float) -> None:
        context.bit_rate = min(round(bits * self._fps), _CEILING * self._opened_rate)
        frame.pts, frame.time_base = self._count, context.time_base
        self._count += 1
