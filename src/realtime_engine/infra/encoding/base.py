"""Video encoders for live viewing: I420 planes in, packets out, without a frame of delay.

The settings gave the best picture for the CPU time on few cores in measurements: one thread, no lookahead, no B-frames,
keyframes only on demand.
"""

from __future__ import annotations

import enum
import fractions
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import nullcontext
from typing import ClassVar, Protocol

import av
import numpy as np
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType
from numpy.typing import NDArray

from ...core.clock import NS_PER_S
from ..color import check_i420, split_i420
from ..copy_stats import Copy, CopyStats
from .rate_control import RateBudget, check_bitrate, default_bitrate


class VideoEncoder(Protocol):
    """The encoder of one stream. One call of :meth:`encode` at a time, from any thread."""

    def encode(
        self, planes: NDArray[np.uint8], force_keyframe: bool = False, *, at_ns: int
    ) -> list[av.Packet[av.VideoStream]]:
        """Encode a picture; returns its packets. The first picture of a stream, or of a new size, is a keyframe.

        Args:
            planes: I420 (:mod:`realtime_engine.infra.color`), (height * 3 / 2, width) uint8.
            force_keyframe: encode a keyframe.
            at_ns: presentation time in nanoseconds, which the rate control follows.

        Raises:
            ValueError: the encoder is closed, or the array is not I420.
        """

    def set_bitrate(self, bits_per_second: int) -> None:
        """Set the target bitrate from the next picture on. May be called during an encode."""

    def close(self) -> None:
        """Free the codec, after an encode in progress. Idempotent; may be called during an encode."""


class Codec(str, enum.Enum):
    """A video codec; the value is its encoding name in SDP."""

    H264 = "H264"
    VP8 = "VP8"


_VBV_S = 0.4  # the rate control buffer; bounds the size of a keyframe, and the time to send it
_MIN_VBV_INTERVALS = 5  # encoders do not keep their rate with a buffer of fewer pictures
_MAX_VBV_BITS = 2**31 - 1  # the limit of FFmpeg
_MIN_FPS = fractions.Fraction(1, 1001)  # declared to encoders
_MAX_GOP = 1_000_000  # frames between keyframes that were not requested
_REOPEN_INTERVAL_NS = 2 * NS_PER_S  # between new streams that a new rate requires
_BIG_STEP, _BIG_STEP_INTERVAL_NS = 0.5, NS_PER_S // 4  # a network that lost half its rate must not wait

Packets = list["av.Packet[av.VideoStream]"]


class PyavEncoder(ABC):
    """A :class:`VideoEncoder` of PyAV. The codec is opened for the first picture, and again when the size changes.

    Args:
        fps: expected frames per second; the rate control measures the real rate.
        bitrate: bits per second; ``None`` for :func:`default_bitrate` of each size.
        copies: counts copies into the encoder's buffers.

    Raises:
        ValueError: a rate out of range.
    """

    library: ClassVar[str]
    pix_fmt: ClassVar[str] = "yuv420p"
    live_range: ClassVar[tuple[float, float]]
    """Range of rates to which a running stream can change, as multiples of the one with which it was opened."""

    def __init__(self, fps: float = 30.0, bitrate: int | None = None, copies: CopyStats | None = None) -> None:
        if not fps > 0:
            raise ValueError(f"fps must be above 0 frames per second, got {fps!r}")
        if bitrate is not None:
            check_bitrate(bitrate)
        self._fps = fps
        self._bitrate = bitrate
        self._copies = copies
        self._budget = RateBudget(fps)
        self._context: VideoCodecContext | None = None
        self._opened_rate = 0
        self._opened_ns = 0
        self._closed = False

    def encode(self, planes: NDArray[np.uint8], force_keyframe: bool = False, *, at_ns: int) -> Packets:
        """Encode a picture, as :meth:`VideoEncoder.encode`."""
        if self._closed:
            raise ValueError("this encoder is closed")
        check_i420(planes)
        frame = self._wrap(planes)
        bitrate = self._bitrate or default_bitrate(frame.width, frame.height, self._fps)
        bits = self._budget.allot(bitrate, at_ns)
        context = self._context_for(frame.width, frame.height, self._opening_rate(bitrate), at_ns)
        self._schedule(context, frame, bits)
        frame.pict_type = PictureType.I if force_keyframe else PictureType.NONE
        packets = context.encode(frame)
        self._spend(8 * sum(packet.size for packet in packets))
        if self._closed:
            self._context = None
        return packets

    def set_bitrate(self, bits_per_second: int) -> None:
        """Set the target bitrate; ``ValueError`` for one out of range."""
        check_bitrate(bits_per_second)
        self._bitrate = bits_per_second

    def close(self) -> None:
        """Free the codec."""
        self._closed = True
        self._context = None

    def _context_for(self, width: int, height: int, rate: int, at_ns: int) -> VideoCodecContext:
        context = self._context
        if context is None or (context.width, context.height) != (width, height):
            return self._open(width, height, rate, at_ns)
        if self._is_due(rate, at_ns):
            if not self._retune(context, rate):
                return self._open(width, height, rate, at_ns)
            self._opened_rate, self._opened_ns = rate, at_ns
        return context

    def _is_due(self, rate: int, at_ns: int) -> bool:
        """Whether this rate requires a new stream, and the last one is long enough ago: it costs a keyframe."""
        low, high = self.live_range
        change = rate / self._opened_rate
        interval_ns = _BIG_STEP_INTERVAL_NS if change < _BIG_STEP else _REOPEN_INTERVAL_NS
        return not low <= change <= high and at_ns - self._opened_ns >= interval_ns

    def _open(self, width: int, height: int, rate: int, at_ns: int) -> VideoCodecContext:
        self._context = None  # first, since hardware may support one stream only
        context = self._new_context()
        context.width, context.height = width, height
        context.pix_fmt = self.pix_fmt
        context.gop_size = _MAX_GOP
        context.thread_count = 1
        context.options = dict(self._options(width, height, rate))
        self._configure(context, rate)
        context.open()
        self._context, self._opened_rate, self._opened_ns = context, rate, at_ns
        return context

    def _new_context(self) -> VideoCodecContext:
        context = av.CodecContext.create(self.library, "w")
        assert isinstance(context, VideoCodecContext)
        return context

    def _opening_rate(self, bitrate: int) -> int:
        """The rate with which a stream of ``bitrate`` is opened."""
        return bitrate

    def _retune(self, context: VideoCodecContext, rate: int) -> bool:
        """Change a running stream to a rate out of its range; false if that requires a new stream."""
        return False

    def _vbv_bits(self, rate: int) -> int:
        return min(round(rate * max(_VBV_S, _MIN_VBV_INTERVALS * self._budget.interval_s)), _MAX_VBV_BITS)

    def _wrap(self, planes: NDArray[np.uint8]) -> av.VideoFrame:
        """A frame of these planes, without a copy where PyAV supports it: heights that are multiples of 4."""
        height, width = planes.shape[0] * 2 // 3, planes.shape[1]
        if height % 4 == 0 and planes.flags.c_contiguous:
            return av.VideoFrame.from_numpy_buffer(planes, format="yuv420p")
        with nullcontext() if self._copies is None else self._copies.timed(Copy.ENCODER_INPUT, planes.size):
            frame = av.VideoFrame(width, height, "yuv420p")
            for target, plane in zip(frame.planes, split_i420(planes), strict=True):
                rows = np.frombuffer(memoryview(target), np.uint8).reshape(target.height, target.line_size)
                rows[:, : target.width] = plane
            return frame

    def _spend(self, bits: int) -> None:
        self._budget.spend(bits)

    @abstractmethod
    def _options(self, width: int, height: int, rate: int) -> Mapping[str, str]:
        """The codec's private options."""

    @abstractmethod
    def _configure(self, context: VideoCodecContext, rate: int) -> None:
        """Set the rate and the time base before the codec is opened."""

    @abstractmethod
    def _schedule(self, context: VideoCodecContext, frame: av.VideoFrame, bits: float) -> None:
        """Stamp ``frame``, and let the codec spend ``bits`` on it."""


def frame_time(fps: float) -> fractions.Fraction:
    """The declared interval between frames, in seconds."""
    return 1 / max(fractions.Fraction(fps).limit_denominator(1001), _MIN_FPS)
