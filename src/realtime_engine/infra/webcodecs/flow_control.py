"""Flow control of the video WebSocket: pure policy, without sockets or timers."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ...core.clock import NS_PER_S

_INTERVAL_NS = NS_PER_S // 2
_MIN_SPAN_NS = NS_PER_S // 20
_GROWTH = 1.1
_MIN_RATE, _MAX_RATE = 50_000, 100_000_000
_INITIAL_DELAY_NS = NS_PER_S // 10
_MAX_DELAY_NS = NS_PER_S // 2  # a longer delay on an empty path is a stall


class RateEstimate:
    """Estimates the rate of a link, once it has been full.

    A link that was never full gives no estimate. In an interval in which it was, its rate is what arrived after the
    first arrival of a burst, divided by the time since then, so that neither the delay of the path nor a stall before
    counts. While the link is not full, the estimate grows by a tenth an interval, to detect a link that has become
    faster.

    Attributes:
        bits_per_s: the estimate; ``None`` while unknown.
    """

    def __init__(self, now_ns: int) -> None:
        self.bits_per_s: float | None = None
        self._start_ns = now_ns
        self._last_ns: int | None = None
        self._span_ns = 0
        self._arrived = 0
        self._was_full = False

    def on_arrival(self, size: int, now_ns: int, *, is_last: bool) -> None:
        """``size`` bytes have arrived; ``is_last``: no more are in flight."""
        if self._last_ns is not None:
            self._arrived += size
            self._span_ns += now_ns - self._last_ns
        self._last_ns = None if is_last else now_ns

    def on_full(self) -> None:
        """The link is full: a packet must wait."""
        self._was_full = True

    def update(self, now_ns: int) -> bool:
        """Update the estimate at the end of an interval; false before. To be called often."""
        is_short = self._was_full and self._span_ns < _MIN_SPAN_NS  # too little has arrived for an estimate
        if is_short or now_ns - self._start_ns < _INTERVAL_NS:
            return False
        if self._was_full:
            self.bits_per_s = min(max(8 * self._arrived * NS_PER_S / self._span_ns, _MIN_RATE), _MAX_RATE)
        elif self.bits_per_s is not None:
            self.bits_per_s = min(self.bits_per_s * _GROWTH, _MAX_RATE)
        self._start_ns, self._span_ns, self._arrived, self._was_full = now_ns, 0, 0, False
        return True


class _Sent(NamedTuple):
    number: int
    size: int
    at_ns: int
    is_alone: bool  # nothing else was in flight, so it was not queued


class InFlightWindow:
    """The packets in flight (sent and not acknowledged), and whether one more may be sent.

    Buffers on the path, those of tunnels and proxies too, can hold a second of video without any sign of it; only the
    viewer's acknowledgements show what has arrived. As in BBR (Cardwell et al., 2016), the delay of the path is that of
    a packet that finds it empty, less the time for its bytes once the link's rate is known. One more packet may be sent
    while the oldest in flight is no older than that plus ``slack_ns``, and while the link needs no longer than that for
    all bytes in flight. This bounds what is queued in those buffers.

    Args:
        slack_ns: nanoseconds of video that may be queued on the path.
        now_ns: the time.

    Attributes:
        rate: the rate of the link.
    """

    def __init__(self, slack_ns: int, now_ns: int) -> None:
        self.rate = RateEstimate(now_ns)
        self._slack_ns = slack_ns
        self._sent: deque[_Sent] = deque()
        self._bytes = 0
        self._delay_ns, self._delay_bytes = _INITIAL_DELAY_NS, 0
        self._is_measured = False
        self._draining = False

    @property
    def is_empty(self) -> bool:
        """Whether everything has arrived."""
        return not self._sent

    def age_ns(self, now_ns: int) -> int:
        """How long the oldest packet has been in flight; 0 without any."""
        return now_ns - self._sent[0].at_ns if self._sent else 0

    def is_open(self, now_ns: int) -> bool:
        """Whether one more packet may be sent."""
        if self.is_empty:
            return True
        limit_ns = max(self._delay_ns - self._needed_ns(self._delay_bytes), 0) + self._slack_ns
        return not self._draining and self.age_ns(now_ns) <= limit_ns and self._needed_ns(self._bytes) <= limit_ns

    def on_sent(self, number: int, size: int, now_ns: int) -> None:
        """A packet of ``size`` bytes is sent; numbers grow."""
        self._sent.append(_Sent(number, size, now_ns, self.is_empty))
        self._bytes += size

    def on_acknowledged(self, number: int, now_ns: int) -> None:
        """All packets up to ``number`` have arrived."""
        while self._sent and self._sent[0].number <= number:
            sent = self._sent.popleft()
            self._bytes -= sent.size
            self._measure(sent, now_ns - sent.at_ns)
            self.rate.on_arrival(sent.size, now_ns, is_last=self.is_empty)
        if self.is_empty:
            self._draining = False

    def drain(self) -> None:
        """Send nothing until all packets have arrived; then measure the delay of the path again."""
        self._draining = not self.is_empty
        self._is_measured = False

    def _measure(self, sent: _Sent, delay_ns: int) -> None:
        if sent.is_alone and not self._is_measured:
            self._delay_ns, self._delay_bytes = min(delay_ns, _MAX_DELAY_NS), sent.size
            self._is_measured = True
        elif self._is_measured and delay_ns < self._delay_ns:
            self._delay_ns, self._delay_bytes = delay_ns, sent.size

    def _needed_ns(self, size: int) -> float:
        """Nanoseconds that the link needs for ``size`` bytes; 0 while its rate is unknown."""
        return 8 * size * NS_PER_S / self.rate.bits_per_s if self.rate.bits_per_s is not None else 0
