"""The H.264 software encoder: constrained baseline, Annex B, parameter sets before every keyframe.

Colors are BT.601 limited range. The stream is labeled so, since decoders otherwise assume BT.709.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import av
from av.video.codeccontext import VideoCodecContext

from .base import PyavEncoder, frame_time

# level, macroblocks in a picture and in a second at most (H.264, table A-1); from 3.1 on, which the SDP announces
_LEVELS = (
    ("3.1", 3_600, 108_000),
    ("3.2", 5_120, 216_000),
    ("4.0", 8_192, 245_760),
    ("4.2", 8_704, 522_240),
    ("5.0", 22_080, 589_824),
    ("5.1", 36_864, 983_040),
    ("5.2", 36_864, 2_073_600),
    ("6.2", 139_264, 16_711_680),
)


def level_for(width: int, height: int, fps: float) -> str:
    """The lowest H.264 level from 3.1 on for pictures of this size and rate."""
    blocks = -(-width // 16) * -(-height // 16)
    fitting = (level for level, size, speed in _LEVELS if blocks <= size and blocks * fps <= speed)
    return next(fitting, _LEVELS[-1][0])


_MIN_RATE = 8_000  # libx264 counts in thousands, and 0 means no limit
_CEILING = 8  # times the rate: allows for a higher one, and for an eighth of the declared frame rate


class H264Encoder(PyavEncoder):
    """libx264 in its lowest-delay mode.

    libx264 ignores timestamps, so the bits for a frame are set as a rate at the declared frame rate. The rate of a
    running stream can change only if it was opened as constant, and only to lower rates. Therefore the codec is opened
    with a multiple of the target rate, which is lowered at once.
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
        context.bit_rate = min(max(round(bits * self._fps), _MIN_RATE), _CEILING * self._opened_rate)
        frame.pts, frame.time_base = self._count, context.time_base
        self._count += 1
