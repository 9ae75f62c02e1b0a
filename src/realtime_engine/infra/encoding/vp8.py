"""VP8 in software."""

from __future__ import annotations

import fractions
from collections.abc import Mapping
from typing import ClassVar

import av
from av.video.codeccontext import VideoCodecContext

from .base import PyavEncoder

_TICKS = 90_000
_MAX_OVERDRAFT_S = 0.5
_PLENTY = 0.08  # bits for a pixel
_KEYFRAME_PERCENT = 400  # of what a picture has on average; libvpx would spend all that the rate buffer holds


class Vp8Encoder(PyavEncoder):
    """libvpx in its real-time mode at a constant rate.

    It never changes its rate, but gives a frame bits for the time that its timestamp says has gone by. So time is
    stretched: a frame is stamped to last as long as what it may have takes at the rate that the stream was opened with.

    A negative ``cpu-used`` fixes the speed; a positive one lets libvpx slow down until it has spent its share of the
    frame time.
    """

    library = "libvpx"
    live_range: ClassVar[tuple[float, float]] = (0.25, 1.5)

    def _options(self, width: int, height: int, rate: int) -> Mapping[str, str]:
        return {
            "deadline": "realtime",
            "cpu-used": self._speed(width, height, rate),
            "lag-in-frames": "0",
            "noise-sensitivity": "0",
            "auto-alt-ref": "0",
            "static-thresh": "0",
            "qmin": "2",
            "qmax": "60",  # coarser pictures spoil the prediction of the next, and cost more bits in the end
            "minrate": str(rate),
            "maxrate": str(rate),
            "bufsize": str(self._vbv_bits(rate)),
            "undershoot-pct": "100",
            "overshoot-pct": "15",
            "max-intra-rate": str(_KEYFRAME_PERCENT),
        }

    def _speed(self, width: int, height: int, rate: int) -> str:
        """The fastest while bits are plenty: it costs a fifth less and as good as nothing. Where they are scarce, the
        searches that it leaves out are worth 4 dB."""
        return "-12" if rate / (width * height * self._fps) >= _PLENTY else "-6"

    def _configure(self, context: VideoCodecContext, rate: int) -> None:
        context.time_base = fractions.Fraction(1, _TICKS)
        context.framerate = fractions.Fraction(self._fps).limit_denominator(1001)
        context.bit_rate = rate
        self._ticks = 0.0
        self._overdraft_bits = 0.0

    def _schedule(self, context: VideoCodecContext, frame: av.VideoFrame, bits: float) -> None:
        # libvpx takes a frame's duration from the distance to the one before, so the stamp moves before the frame.
        # What pictures took that it could not make smaller it would save on later ones, for minutes: forgive it.
        forgiven = max(self._overdraft_bits - _MAX_OVERDRAFT_S * self._opened_rate, 0)
        self._overdraft_bits -= bits + forgiven
        self._overdraft_bits = max(self._overdraft_bits, -_MAX_OVERDRAFT_S * self._opened_rate)
        self._ticks += max((bits + forgiven) / self._opened_rate * _TICKS, 1)
        frame.pts, frame.time_base = round(self._ticks), context.time_base

    def _spend(self, bits: int) -> None:
        super()._spend(bits)
        self._overdraft_bits += bits
