"""The VP8 software encoder."""

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
_KEYFRAME_PERCENT = 400  # of the bits of an average picture; without it libvpx spends the whole rate buffer


class Vp8Encoder(PyavEncoder):
    """libvpx in its real-time mode at a constant rate.

    libvpx cannot change the rate of a running stream, but it spends bits on a frame in proportion to its duration,
    which it takes from timestamps. Therefore timestamps are scaled: a frame lasts as long as its bits take at the rate
    with which the codec was opened.

    A negative ``cpu-used`` fixes the speed; a positive one lets libvpx slow down until it has used its share of the
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
            "qmax": "60",  # coarser pictures predict the next badly, and cost more bits in the end
            "minrate": str(rate),
            "maxrate": str(rate),
            "bufsize": str(self._vbv_bits(rate)),
            "undershoot-pct": "100",
            "overshoot-pct": "15",
            "max-intra-rate": str(_KEYFRAME_PERCENT),
        }

    def _speed(self, width: int, height: int, rate: int) -> str:
        """The speed setting: the fastest at high bitrates, where it saves a fifth of the time at no visible cost.

        At low bitrates the searches that it skips are worth 4 dB.
        """
        return "-12" if rate / (width * height * self._fps) >= _PLENTY else "-6"

    def _configure(self, context: VideoCodecContext, rate: int) -> None:
        context.time_base = fractions.Fraction(1, _TICKS)
        context.framerate = fractions.Fraction(self._fps).limit_denominator(1001)
        context.bit_rate = rate
        self._ticks = 0.0
        self._overdraft_bits = 0.0

    def _schedule(self, context: VideoCodecContext, frame: av.VideoFrame, bits: float) -> None:
        # libvpx takes a frame's duration from the distance to the previous one, so the stamp advances first. Bits of
        # pictures that it could not make smaller would be saved on later ones, for minutes: forgive that overdraft.
        forgiven = max(self._overdraft_bits - _MAX_OVERDRAFT_S * self._opened_rate, 0)
        self._overdraft_bits -= bits + forgiven
        self._overdraft_bits = max(self._overdraft_bits, -_MAX_OVERDRAFT_S * self._opened_rate)
        self._ticks += max((bits + forgiven) / self._opened_rate * _TICKS, 1)
        frame.pts, frame.time_base = round(self._ticks), context.time_base

    def _spend(self, bits: int) -> None:
        super()._spend(bits)
        self._overdraft_bits += bits
