"""How much a link takes, told from what arrives over it."""

from __future__ import annotations

from ...core.clock import NS_PER_S

_INTERVAL_NS = NS_PER_S // 2
_LEAST_SPAN_NS = NS_PER_S // 20
_GROWTH = 1.1
_LEAST, _MOST = 50_000, 100_000_000


class RateEstimate:
    """Bits per second that a link takes, once it has shown that it does not take everything.

    A link that never held anything back says nothing about itself. In an interval in which it did, it takes what
    arrived after the first arrival of a row, in the time since then: neither distance nor a stall before it counts.
    While nothing is held back the estimate grows by a tenth an interval, so that a link that has become faster is
    found out.

    Attributes:
        bits_per_s: the estimate, ``None`` while nothing is known.
    """

    def __init__(self, now_ns: int) -> None:
        self.bits_per_s: float | None = None
        self._began_ns = now_ns
        self._last_ns: int | None = None
        self._span_ns = 0
        self._arrived = 0
        self._was_full = False

    def arrive(self, size: int, now_ns: int, *, is_last: bool) -> None:
        """So many bytes have arrived; after the last of a row nothing is on its way."""
        if self._last_ns is not None:
            self._arrived += size
            self._span_ns += now_ns - self._last_ns
        self._last_ns = None if is_last else now_ns

    def hold_back(self) -> None:
        """The link is full: something must wait."""
        self._was_full = True

    def review(self, now_ns: int) -> bool:
        """Call it often: estimates at the end of each interval; whether it has."""
        is_short = self._was_full and self._span_ns < _LEAST_SPAN_NS  # until enough has arrived to say something
        if is_short or now_ns - self._began_ns < _INTERVAL_NS:
            return False
        if self._was_full:
            self.bits_per_s = min(max(8 * self._arrived * NS_PER_S / self._span_ns, _LEAST), _MOST)
        elif self.bits_per_s is not None:
            self.bits_per_s = min(self.bits_per_s * _GROWTH, _MOST)
        self._began_ns, self._span_ns, self._arrived, self._was_full = now_ns, 0, 0, False
        return True
