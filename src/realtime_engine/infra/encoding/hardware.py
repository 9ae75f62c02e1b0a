"""H.264 hardware encoders of FFmpeg.

Like libx264 they spend bits per frame at the declared frame rate, but a new rate costs at least a keyframe. Therefore
the rate follows the measured frame rate in steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import av
from av.codec.hwaccel import HWAccel
from av.video.codeccontext import VideoCodecContext

from .base import PyavEncoder, frame_time
from .h264 import level_for

_SMPTE170M = 6  # BT.601 in ITU-T H.273, for primaries, transfer and matrix


class HardwareEncoder(PyavEncoder):
    """Base of the hardware encoders. A new rate requires a new stream."""

    live_range: ClassVar[tuple[float, float]] = (0.9, 1.1)

    def _opening_rate(self, bitrate: int) -> int:
        return round(bitrate * self._budget.interval_s * self._fps)

    def _configure(self, context: VideoCodecContext, rate: int) -> None:
        context.time_base = frame_time(self._fps)
        context.framerate = 1 / context.time_base
        context.bit_rate = rate
        context.max_b_frames = 0
        context.color_primaries = context.color_trc = context.colorspace = _SMPTE170M
        self._count = 0

    def _schedule(self, context: VideoCodecContext, frame: av.VideoFrame, bits: float) -> None:
        frame.pts, frame.time_base = self._count, context.time_base
        self._count += 1


class NvencEncoder(HardwareEncoder):
    """NVIDIA NVENC. A running stream can change its rate, with a keyframe."""

    library = "h264_nvenc"

    def _options(self, width: int, height: int, rate: int) -> Mapping[str, str]:
        return {
            "preset": "p4",
            "tune": "ull",
            "profile": "baseline",
            "level": level_for(width, height, self._fps),
            "rc": "cbr",
            "zerolatency": "1",
            "delay": "0",
            "forced-idr": "1",
            "bufsize": str(self._vbv_bits(rate)),
        }

    def _retune(self, context: VideoCodecContext, rate: int) -> bool:
        context.bit_rate = rate
        return True


class VaapiEncoder(HardwareEncoder):
    """VA-API (Intel and AMD on Linux). PyAV uploads the picture to the device."""

    library = "h264_vaapi"
    pix_fmt = "nv12"

    def _new_context(self) -> VideoCodecContext:
        context = av.CodecContext.create(self.library, "w", HWAccel("vaapi"))
        assert isinstance(context, VideoCodecContext)
        return context

    def _options(self, width: int, height: int, rate: int) -> Mapping[str, str]:
        return {
            "profile": "constrained_baseline",
            "level": level_for(width, height, self._fps).removesuffix(".0"),
            "rc_mode": "CBR",
            "async_depth": "1",
            "maxrate": str(rate),
            "bufsize": str(self._vbv_bits(rate)),
        }


class VideoToolboxEncoder(HardwareEncoder):
    """Apple VideoToolbox."""

    library = "h264_videotoolbox"

    def _options(self, width: int, height: int, rate: int) -> Mapping[str, str]:
        return {
            "profile": "constrained_baseline",
            "level": level_for(width, height, self._fps),
            "realtime": "1",
            "prio_speed": "1",
        }


HARDWARE_ENCODERS: tuple[type[HardwareEncoder], ...] = (NvencEncoder, VaapiEncoder, VideoToolboxEncoder)
