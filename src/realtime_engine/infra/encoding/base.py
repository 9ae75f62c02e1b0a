"""Video encoders for live viewing: I420 planes in, packets out, no frame of delay.

The settings are those that were measured to give the best picture for the time on few cores: one thread, no lookahead,
no B-frames, keyframes only on demand.
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


class Codec(str, enum.Enum):
    """What a viewer decodes. The value is the encoding name of the SDP."""

    H264 = "H264"
    VP8 = "VP8"


_VBV_S = 0.4  # a keyframe may borrow this much of the rate, which bounds the time that it needs on the wire
_VBV_INTERVALS = 5  # and with fewer pictures than this in it, no encoder keeps its rate
_MAX_VBV_BITS = 2**31 - 1  # FFmpeg's number for it
_SLOWEST = fractions.Fraction(1, 1001)  # frames per second: the least that encoders are told
_NEVER = 1_000_000  # frames between keyframes that nobody asked for
_TIMEOUT_NS = 2 * NS_PER_S  # between streams that begin anew for their rate
_BIG_STEP, _BIG_STEP_TIMEOUT_NS = 0.5, NS_PER_S // 4  # a network that lost half its rate is full at once

Packets = list["av.Packet[av.VideoStream]"]


class PyavEncoder(ABC):
    """A stream that opens with the first picture, and again when its size changes.

    ``set_bitrate`` may be called while another thread encodes, and so may ``close``: the picture in work is finished.

    Args:
        fps: frames per second to begin with; what is measured counts.
        bitrate: bits per second; ``None`` for :func:`default_bitrate` of each size.
        copies: where copies into the encoder's buffers are counted.
    """

    library: ClassVar[str]
    pix_fmt: ClassVar[str] = "yuv420p"
    live_range: ClassVar[tuple[float, float]]
    """Rates, as multiples of the one it was opened with, that a running stream can be turned to."""

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
        check_bitrate(bits_per_second)
        self._bitrate = bits_per_second

    def close(self) -> None:
        self._closed = True
        self._context = None

    def _context_for(self, width: int, height: int, rate: int, at_ns: int) -> VideoCodecContext:
        context = self._context
        if context is None or (context.width, context.height) != (width, height):
            return self._open_anew(width, height, rate, at_ns)
        if self._is_due(rate, at_ns):
            if not self._retune(context, rate):
                return self._open_anew(width, height, rate, at_ns)
            self._opened_rate, self._opened_ns = rate, at_ns
        return context

    def _is_due(self, rate: int, at_ns: int) -> bool:
        """Whether the stream must begin anew for this rate, and may: a keyframe goes with it."""
        low, high = self.live_range
        change = rate / self._opened_rate
        patience_ns = _BIG_STEP_TIMEOUT_NS if change < _BIG_STEP else _TIMEOUT_NS
        return not low <= change <= high and at_ns - self._opened_ns >= patience_ns

    def _open_anew(self, width: int, height: int, rate: int, at_ns: int) -> VideoCodecContext:
        self._context = None  # first, since hardware may have room for one only
        context = self._new_context()
        context.width, context.height = width, height
        context.pix_fmt = self.pix_fmt
        context.gop_size = _NEVER
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
        """What a stream of ``bitrate`` is opened with."""
        return bitrate

    def _retune(self, context: VideoCodecContext, rate: int) -> bool:
        """Turn a running stream to a rate out of its range; false when it takes a new one."""
        return False

    def _vbv_bits(self, rate: int) -> int:
        return min(round(rate * max(_VBV_S, _VBV_INTERVALS * self._budget.interval_s)), _MAX_VBV_BITS)

    def _wrap(self, planes: NDArray[np.uint8]) -> av.VideoFrame:
        """A frame of these planes, without a copy where PyAV can: it takes heights for multiples of 4."""
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
        """Set the rate and the time base of a stream that is about to open."""

    @abstractmethod
    def _schedule(self, context: VideoCodecContext, frame: av.VideoFrame, bits: float) -> None:
        """Stamp ``frame`` and let it have ``bits``."""


def frame_time(fps: float) -> fractions.Fraction:
    """The declared interval between frames, in seconds."""
    return 1 / max(fractions.Fraction(fps).limit_denominator(1001), _SLOWEST)
