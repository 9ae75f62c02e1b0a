"""Video encoders for live viewing: I420 planes in, packets out, no frame of delay.

The settings are those that were measured to give the best picture for the time on few cores: one thread, no lookahead,
no B-frames, keyframes only on demand. Colours are BT.601 limited range, and H.264 streams say so, since a decoder
would otherwise guess BT.709.
"""

from __future__ import annotations

import fractions
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Protocol

import av
import numpy as np
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType
from numpy.typing import NDArray

from .codecs import Codec

_REFERENCE_PIXELS = 640 * 360
_REFERENCE_BITRATE = 1_500_000
_REFERENCE_FPS = 30.0
_LEAST_BITRATE = 100_000
_SIZE_EXPONENT = 0.71  # 1.5 Mb/s at 640x360 and 4 Mb/s at 1280x720
_VBV_SECONDS = 0.5  # a keyframe may borrow this much of the rate, which bounds the time that it needs on the wire
_NEVER = 1_000_000  # frames between keyframes that nobody asked for


def default_bitrate(width: int, height: int, fps: float = _REFERENCE_FPS) -> int:
    """Bits per second for a live picture of ``width`` x ``height`` pixels at ``fps`` frames per second."""
    size: float = (width * height / _REFERENCE_PIXELS) ** _SIZE_EXPONENT
    return max(round(_REFERENCE_BITRATE * size * fps / _REFERENCE_FPS), _LEAST_BITRATE)


def _to_frame(planes: NDArray[np.uint8]) -> av.VideoFrame:
    """Wrap I420 planes, without a copy where PyAV can: it takes heights for multiples of 4."""
    height, width = planes.shape[0] * 2 // 3, planes.shape[1]
    if height % 4 == 0:
        return av.VideoFrame.from_numpy_buffer(planes, format="yuv420p")
    frame = av.VideoFrame(width, height, "yuv420p")
    flat, start = planes.reshape(-1), 0
    for plane in frame.planes:
        rows = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)
        size = plane.height * plane.width
        rows[:, : plane.width] = flat[start : start + size].reshape(plane.height, plane.width)
        start += size
    return frame


class VideoEncoder(Protocol):
    """One stream. Not thread-safe: one call at a time, from whichever thread."""

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
        """Aim at this rate from the next picture on."""

    def close(self) -> None:
        """Free the codec. May be called again."""


class PyavEncoder(ABC):
    """What the encoders share: the stream opens with the first picture and again when its size changes.

    Args:
        fps: frames per second that the rate control assumes.
        bitrate: bits per second; ``None`` for :func:`default_bitrate` of each size.
    """

    library: ClassVar[str]

    def __init__(self, fps: float = 30.0, bitrate: int | None = None) -> None:
        if not fps > 0:
            raise ValueError(f"fps must be above 0 frames per second, got {fps!r}")
        if bitrate is not None:
            _check_bitrate(bitrate)
        self._fps = fps
        self._bitrate = bitrate
        self._context: VideoCodecContext | None = None
        self._count = 0
        self._closed = False

    def encode(
        self, planes: NDArray[np.uint8], force_keyframe: bool = False, *, at_ns: int
    ) -> list[av.Packet[av.VideoStream]]:
        if self._closed:
            raise ValueError("this encoder is closed")
        if planes.ndim != 2 or planes.shape[0] % 3 or planes.shape[1] % 2 or planes.dtype != np.uint8:
            raise ValueError(f"expected I420 planes (height * 3 / 2, width) uint8, got {planes.shape} {planes.dtype}")
        frame = _to_frame(planes)
        context = self._context_for(frame.width, frame.height)
        frame.pts = self._count  # an even cadence, since libvpx takes the rate control's time from it
        frame.time_base = self._time_base
        frame.pict_type = PictureType.I if force_keyframe else PictureType.NONE
        self._count += 1
        return context.encode(frame)

    def set_bitrate(self, bits_per_second: int) -> None:
        _check_bitrate(bits_per_second)
        if bits_per_second == self._bitrate:
            return
        self._bitrate = bits_per_second
        if self._context is not None and not self._retune(self._context, bits_per_second):
            self._context = None

    def close(self) -> None:
        self._closed = True
        self._context = None

    @property
    def _time_base(self) -> fractions.Fraction:
        return 1 / fractions.Fraction(self._fps).limit_denominator(1001)

    def _context_for(self, width: int, height: int) -> VideoCodecContext:
        context = self._context
        if context is None or (context.width, context.height) != (width, height):
            bitrate = self._bitrate or default_bitrate(width, height, self._fps)
            context = self._context = self._open(width, height, bitrate)
        return context

    def _open(self, width: int, height: int, bitrate: int) -> VideoCodecContext:
        context = av.CodecContext.create(self.library, "w")
        assert isinstance(context, VideoCodecContext)
        context.width, context.height = width, height
        context.pix_fmt = "yuv420p"
        context.time_base = self._time_base
        context.framerate = 1 / self._time_base
        context.gop_size = _NEVER
        context.thread_count = 1
        context.bit_rate = self._opening_bitrate(bitrate)
        context.options = dict(self._options(bitrate))
        context.open()
        context.bit_rate = bitrate
        return context

    def _opening_bitrate(self, bitrate: int) -> int:
        return bitrate

    @abstractmethod
    def _options(self, bitrate: int) -> Mapping[str, str]:
        """The codec's private options."""

    @abstractmethod
    def _retune(self, context: VideoCodecContext, bitrate: int) -> bool:
        """Change the rate of an open stream; false when it takes a new stream."""


class H264Encoder(PyavEncoder):
    """libx264, constrained baseline, Annex B, parameter sets before every keyframe.

    libx264 changes its rate in a running stream only if it was opened at a constant rate, and then only downwards
    from there: the stream opens at twice the rate that is wanted and is turned down at once.
    """

    library = "libx264"

    def _opening_bitrate(self, bitrate: int) -> int:
        self._ceiling = 2 * bitrate
        return self._ceiling

    def _options(self, bitrate: int) -> Mapping[str, str]:
        return {
            "preset": "superfast",
            "tune": "zerolatency",
            "profile": "baseline",
            "forced-idr": "1",
            "maxrate": str(self._ceiling),
            "bufsize": str(round(bitrate * _VBV_SECONDS)),
            "x264-params": "colorprim=smpte170m:transfer=smpte170m:colormatrix=smpte170m:scenecut=0",
        }

    def _retune(self, context: VideoCodecContext, bitrate: int) -> bool:
        if bitrate > self._ceiling:
            return False
        context.bit_rate = bitrate
        return True


class Vp8Encoder(PyavEncoder):
    """libvpx VP8 in its real-time mode at a constant rate. A new rate takes a new stream.

    A negative ``cpu-used`` fixes the speed; a positive one lets libvpx slow down until it has spent its share of the
    frame time.
    """

    library = "libvpx"

    def _options(self, bitrate: int) -> Mapping[str, str]:
        return {
            "deadline": "realtime",
            "cpu-used": "-8",
            "lag-in-frames": "0",
            "noise-sensitivity": "0",
            "auto-alt-ref": "0",
            "static-thresh": "0",
            "qmin": "2",
            "qmax": "56",
            "minrate": str(bitrate),
            "maxrate": str(bitrate),
            "bufsize": str(round(bitrate * _VBV_SECONDS)),
            "undershoot-pct": "100",
            "overshoot-pct": "15",
        }

    def _retune(self, context: VideoCodecContext, bitrate: int) -> bool:
        return False


_ENCODERS: dict[Codec, type[PyavEncoder]] = {Codec.H264: H264Encoder, Codec.VP8: Vp8Encoder}


def create_encoder(codec: Codec, fps: float = 30.0, bitrate: int | None = None) -> VideoEncoder:
    """The encoder of ``codec``; the arguments are those of :class:`PyavEncoder`."""
    return _ENCODERS[codec](fps, bitrate)


def _check_bitrate(bits_per_second: int) -> None:
    if bits_per_second < 10_000:
        raise ValueError(f"a bitrate is at least 10000 bits per second, got {bits_per_second!r}")
