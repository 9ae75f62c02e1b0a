"""What is on its way to a viewer: policy over moments, without sockets or timers."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ...core.clock import NS_PER_S

_INTERVAL_NS = NS_PER_S // 2
_MIN_SPAN_NS = NS_PER_S // 20
_GROWTH = 1.1
_MIN, _MAX = 50_000, 100_000_000


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
        is_short = self._was_full and self._span_ns < _MIN_SPAN_NS  # until enough has arrived to say something
        if is_short or now_ns - self._began_ns < _INTERVAL_NS:
            return False
        if self._was_full:
            self.bits_per_s = min(max(8 * self._arrived * NS_PER_S / self._span_ns, _MIN), _MAX)
        elif self.bits_per_s is not None:
            self.bits_per_s = min(self.bits_per_s * _GROWTH, _MAX)
        self._began_ns, self._span_ns, self._arrived, self._was_full = now_ns, 0, 0, False
        return True


_ASSUMED_NS = NS_PER_S // 10
_MAX_NS = NS_PER_S // 2  # what takes longer than this on an empty way was stuck


class _Sent(NamedTuple):
    number: int
    size: int
    at_ns: int
    is_alone: bool  # nothing else was on its way, so that it did not queue up


class InFlightWindow:
    """Packets sent and not yet acknowledged, and whether one more may follow.

    Buffers between here and the viewer, those of a tunnel or a proxy too, hold a second of video and more without
    telling anybody; only the viewer's own acknowledgements say what has arrived. As in BBR (Cardwell et al., 2016),
    the way is as long as a packet takes that finds it empty, less the time for its bytes once the link's rate is known.
    One more packet may be sent while the oldest on its way is no older than that plus ``slack_ns``, and while the link
    needs no longer than that for all bytes that are on their way: so much may queue up in those buffers.

    Args:
        slack_ns: nanoseconds that packets may queue up on the way.

    Attributes:
        rate: how much the link takes.
    """

    def __init__(self, slack_ns: int, now_ns: int) -> None:
        self.rate = RateEstimate(now_ns)
        self._slack_ns = slack_ns
        self._sent: deque[_Sent] = deque()
        self._bytes = 0
        self._alone_ns, self._alone_bytes = _ASSUMED_NS, 0
        self._is_measured = False
        self._emptying = False

    @property
    def is_empty(self) -> bool:
        """Everything has arrived."""
        return not self._sent

    def age_ns(self, now_ns: int) -> int:
        """How long the oldest packet has been on its way; 0 when there is none."""
        return now_ns - self._sent[0].at_ns if self._sent else 0

    def is_open(self, now_ns: int) -> bool:
        """Whether one more packet may be sent."""
        if self.is_empty:
            return True
        most_ns = max(self._alone_ns - self._needed_ns(self._alone_bytes), 0) + self._slack_ns
        return not self._emptying and self.age_ns(now_ns) <= most_ns and self._needed_ns(self._bytes) <= most_ns

    def send(self, number: int, size: int, now_ns: int) -> None:
        """A packet of ``size`` bytes goes out; numbers grow."""
        self._sent.append(_Sent(number, size, now_ns, self.is_empty))
        self._bytes += size

    def acknowledge(self, number: int, now_ns: int) -> None:
        """All packets up to ``number`` have arrived."""
        while self._sent and self._sent[0].number <= number:
            sent = self._sent.popleft()
            self._bytes -= sent.size
            self._measure(sent, now_ns - sent.at_ns)
            self.rate.arrive(sent.size, now_ns, is_last=self.is_empty)
        if self.is_empty:
            self._emptying = False

    def drain(self) -> None:
        """Send nothing until all has arrived, and measure the way anew from then on."""
        self._emptying = not self.is_empty
        self._is_measured = False

    def _measure(self, sent: _Sent, delay_ns: int) -> None:
        if sent.is_alone and not self._is_measured:
            self._alone_ns, self._alone_bytes = min(delay_ns, _MAX_NS), sent.size
            self._is_measured = True
        elif self._is_measured and delay_ns < self._alone_ns:
            self._alone_ns, self._alone_bytes = delay_ns, sent.size

    def _needed_ns(self, size: int) -> float:
        """How long the link needs for so many bytes, 0 while its rate is not known."""
        return 8 * size * NS_PER_S / self.rate.bits_per_s if self.rate.bits_per_s is not None else 0
