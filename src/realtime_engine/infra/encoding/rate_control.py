"""How many bits the next picture may have, so that a stream keeps its rate whatever its pictures' times.

Encoders think in bits per frame at a declared frame rate, or take each frame's duration from its timestamp; a live
producer keeps to neither. Here the interval between pictures is measured and smoothed, which keeps the sum of the
allotments at rate x elapsed time, and what was really spent is compared with it.
"""

from __future__ import annotations

from ...core.clock import NS_PER_S

_REFERENCE_PIXELS = 640 * 360
_REFERENCE_BITRATE = 1_500_000
_REFERENCE_FPS = 30.0
_MIN_DEFAULT = 100_000
MIN_BITRATE, MAX_BITRATE = 10_000, 250_000_000  # what encoders keep, and what fits into their 32 bits
_SIZE_EXPONENT = 0.71  # 1.5 Mb/s at 640x360 and 4 Mb/s at 1280x720

_MEMORY = 16  # pictures over which the interval is smoothed
_FIRST_GUESS_WEIGHT = 2  # the declared interval counts like this many measured ones
_PAUSE_S = 1.0
_PAUSE_INTERVALS = 8  # a gap longer than both is a pause, which says nothing of the cadence
_MIN_INTERVAL_S = 1 / 240

_WINDOW_S = 2.0  # within which a debt is paid back
_MAX_DEBT_S = 1.0
_MAX_CREDIT_S = 0.5  # what easy pictures leave over is not saved up
_MIN_CORRECTION, _MAX_CORRECTION = 0.6, 1.25


def default_bitrate(width: int, height: int, fps: float = _REFERENCE_FPS) -> int:
    """Bits per second for a live picture of ``width`` x ``height`` pixels at ``fps`` frames per second."""
    size: float = (width * height / _REFERENCE_PIXELS) ** _SIZE_EXPONENT
    return min(max(round(_REFERENCE_BITRATE * size * fps / _REFERENCE_FPS), _MIN_DEFAULT), MAX_BITRATE)


def check_bitrate(bits_per_second: int) -> None:
    """Raise ValueError for a rate that no encoder keeps."""
    if not MIN_BITRATE <= bits_per_second <= MAX_BITRATE:
        raise ValueError(f"a bitrate is {MIN_BITRATE} to {MAX_BITRATE} bits per second, got {bits_per_second!r}")


class Cadence:
    """The smoothed interval between pictures, in seconds.

    Args:
        fps: frames per second to begin with.
    """

    def __init__(self, fps: float) -> None:
        self.interval_s = 1 / fps
        self._measured = 0
        self._last_ns: int | None = None

    def record(self, at_ns: int) -> None:
        """A picture comes at this time."""
        last_ns, self._last_ns = self._last_ns, at_ns
        if last_ns is None:
            return
        gap_s = max(at_ns - last_ns, 0) / NS_PER_S
        if gap_s > max(_PAUSE_S, _PAUSE_INTERVALS * self.interval_s):
            return
        self._measured += 1
        share = max(1 / _MEMORY, 1 / (_FIRST_GUESS_WEIGHT + self._measured))
        self.interval_s = max(self.interval_s + share * (gap_s - self.interval_s), _MIN_INTERVAL_S)


class RateBudget:
    """Allots bits to pictures.

    Args:
        fps: frames per second to begin with.
    """

    def __init__(self, fps: float) -> None:
        self._cadence = Cadence(fps)
        self._debt_bits = 0.0

    @property
    def interval_s(self) -> float:
        """The smoothed interval between pictures."""
        return self._cadence.interval_s

    def allot(self, bits_per_second: int, at_ns: int) -> float:
        """Bits for the picture of ``at_ns``; :meth:`spend` tells what became of it."""
        self._cadence.record(at_ns)
        due = bits_per_second * self._cadence.interval_s
        correction = 1 - self._debt_bits / (bits_per_second * _WINDOW_S)
        low, high = -_MAX_CREDIT_S * bits_per_second, _MAX_DEBT_S * bits_per_second
        self._debt_bits = min(max(self._debt_bits - due, low), high)
        return due * min(max(correction, _MIN_CORRECTION), _MAX_CORRECTION)

    def spend(self, bits: int) -> None:
        """The picture took this many bits."""
        self._debt_bits += bits
