"""Rate control: the bits for the next picture, so that a stream keeps its bitrate at any cadence of pictures.

Encoders spend bits per frame at a declared frame rate, or by each frame's timestamp; a live producer keeps to neither.
Here the interval between pictures is measured and smoothed, which keeps the sum of the allotments at rate x elapsed
time, and the bits really spent are compared with it.
"""

from __future__ import annotations

from ...core.clock import NS_PER_S

_REFERENCE_PIXELS = 640 * 360
_REFERENCE_BITRATE = 1_500_000
_REFERENCE_FPS = 30.0
_MIN_DEFAULT = 100_000
MIN_BITRATE, MAX_BITRATE = 10_000, 250_000_000  # what encoders keep, and what fits into 32 bits
_SIZE_EXPONENT = 0.71  # 1.5 Mb/s at 640x360 and 4 Mb/s at 1280x720

_MEMORY = 16  # pictures over which the interval is smoothed
_FIRST_GUESS_WEIGHT = 2  # the declared interval counts like this many measured ones
_PAUSE_S = 1.0
_PAUSE_INTERVALS = 8  # a gap longer than both is a pause, which does not count
_MIN_INTERVAL_S = 1 / 240

_WINDOW_S = 2.0  # in which a debt is repaid
_MAX_DEBT_S = 1.0
_MAX_CREDIT_S = 0.5  # limits what easy pictures save for later ones
_MIN_CORRECTION, _MAX_CORRECTION = 0.6, 1.25


def default_bitrate(width: int, height: int, fps: float = _REFERENCE_FPS) -> int:
    """Bits per second for a live picture of ``width`` x ``height`` pixels at ``fps`` frames per second."""
    size: float = (width * height / _REFERENCE_PIXELS) ** _SIZE_EXPONENT
    return min(max(round(_REFERENCE_BITRATE * size * fps / _REFERENCE_FPS), _MIN_DEFAULT), MAX_BITRATE)


def check_bitrate(bits_per_second: int) -> None:
    """Validate a bitrate.

    Raises:
        ValueError: no encoder keeps it.
    """
    if not MIN_BITRATE <= bits_per_second <= MAX_BITRATE:
        raise ValueError(f"a bitrate is {MIN_BITRATE} to {MAX_BITRATE} bits per second, got {bits_per_second!r}")


class Cadence:
    """The smoothed interval between pictures, in seconds.

    Args:
        fps: expected frames per second.
    """

    def __init__(self, fps: float) -> None:
        self.interval_s = 1 / fps
        self._measured = 0
        self._last_ns: int | None = None

    def record(self, at_ns: int) -> None:
        """A picture has this presentation time."""
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
    """Allots bits to pictures, and compares that with the bits spent.

    Args:
        fps: expected frames per second.
    """

    def __init__(self, fps: float) -> None:
        self._cadence = Cadence(fps)
        self._debt_bits = 0.0

    @property
    def interval_s(self) -> float:
        """The smoothed interval between pictures."""
        return self._cadence.interval_s

    def allot(self, bits_per_second: int, at_ns: int) -> float:
        """Bits for the picture of ``at_ns``; report the bits spent by :meth:`spend`."""
        self._cadence.record(at_ns)
        due = bits_per_second * self._cadence.interval_s
        correction = 1 - self._debt_bits / (bits_per_second * _WINDOW_S)
        low, high = -_MAX_CREDIT_S * bits_per_second, _MAX_DEBT_S * bits_per_second
        self._debt_bits = min(max(self._debt_bits - due, low), high)
        return due * min(max(correction, _MIN_CORRECTION), _MAX_CORRECTION)

    def spend(self, bits: int) -> None:
        """The picture took this many bits."""
        self._debt_bits += bits
