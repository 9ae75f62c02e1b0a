"""What one viewer's connection can carry, from what its receiver reports.

A receiver's estimate (REMB, draft-alvestrand-rmcat-remb-03) says something only when it falls: it follows the rate that
is received, up to 1.5 times that, so a low one may only mean that little was sent; or when it stays low although more
is sent. From then on, the limit grows by itself: fast while far from the rate at which the connection was last full,
slowly near it, as the window of CUBIC does (RFC 9438); and not far beyond the estimate, which could not fall then,
unless the round trip shows that nothing queues up. A round trip that gets long is congestion too. Loss is judged as on
the sender's side of Google Congestion Control (draft-ietf-rmcat-gcc-02, section 6).
"""

from __future__ import annotations

from collections import deque

from ...core.clock import NS_PER_S, Clock

_HEADROOM = 0.95  # of an estimate: it counts headers and retransmissions too
_BACK_OFF = 0.85  # what a receiver reports of the rate at which the connection was full
_FALL = 0.97  # an estimate below this share of the highest since the last fall has fallen
_NEAR = 1.2  # an estimate above this multiple of the sent rate falls because less is sent
_LOW, _STUCK, _STUCK_NS = 0.9, 1.04, NS_PER_S * 9 // 10  # below the sent rate, and not rising in this time
_REST_NS = NS_PER_S  # for what has queued up
_USED = 0.7  # a limit is tried out when this share of it is sent
_KNEE = (0.9, 1.15)  # shares of the full rate between which growth is slow
_SAME, _DOUBT = 0.12, 0.9
_SLOW, _FAST = 0.15, 0.5  # growth in a second
_BEYOND = 1.1  # times the estimate
_NO_QUEUE_S, _LONG_QUEUE_S = 0.03, 0.15
_QUEUE_KNOWN_NS = 5 * NS_PER_S // 2
_MIN_KNOWN_NS = 10 * NS_PER_S  # the way to the viewer may have become longer since
_MUCH_LOSS, _LITTLE_LOSS = 0.1, 0.02
_LOSS_RECOVERY = 1.08  # for each report
_NO_LIMIT = 10**9  # bits per second: a limit beyond that says nothing any more
_MAX_ROUND_TRIPS = 64  # receivers report every second or so


class Downlink:
    """Takes reports of one viewer, tells what it can take. Its only time is that of the reports.

    Attributes:
        congested_ns: when a report last spoke of congestion; ``None`` while none has.
    """

    def __init__(self) -> None:
        self.congested_ns: int | None = None
        self._heard_ns: int | None = None
        self._fell_ns: int | None = None
        self._highest = 0
        self._low: tuple[int, int] | None = None
        self._full = self._seemed_full = 0.0
        self._round_trips: deque[tuple[int, float]] = deque(maxlen=_MAX_ROUND_TRIPS)
        self._estimate_limit: float | None = None
        self._loss_limit: float | None = None

    @property
    def limit(self) -> int | None:
        """Bits per second that are safe to send; ``None`` while nothing speaks against any rate."""
        limits = [limit for limit in (self._estimate_limit, self._loss_limit) if limit is not None]
        return int(min(limits)) if limits else None

    def hear_estimate(self, now_ns: int, bits_per_second: int, sent: int) -> None:
        """A receiver's estimate, while ``sent`` bits per second are sent."""
        before_ns, self._heard_ns = self._heard_ns, now_ns
        stuck = self._is_stuck(now_ns, bits_per_second, sent)
        if stuck or bits_per_second < min(self._highest * _FALL, sent * _NEAR):
            self.congested_ns = self._fell_ns = now_ns
            self._highest = bits_per_second
            self._learn_full(bits_per_second / _BACK_OFF)
            self._estimate_limit = bits_per_second * _HEADROOM
            return
        self._highest = max(self._highest, bits_per_second)
        if self._estimate_limit is None or before_ns is None:
            return
        if now_ns - (self.congested_ns or 0) >= _REST_NS:
            grown = self._grown(self._estimate_limit, min(now_ns - before_ns, NS_PER_S) / NS_PER_S, sent)
            if not self._has_no_queue(now_ns):
                grown = min(grown, bits_per_second * _BEYOND)
            self._estimate_limit = max(grown, bits_per_second * _HEADROOM)

    def hear_loss(self, now_ns: int, share: float, sent: int) -> None:
        """The share of packets, from 0 to 1, that were lost since the last report."""
        limit = self._loss_limit
        if share > _MUCH_LOSS and sent:  # whoever is sent nothing shows nothing
            self.congested_ns = now_ns
            lowered = (sent if limit is None else min(limit, sent)) * (1 - share / 2)
            self._loss_limit = max(lowered, self._answered(now_ns))
        elif share < _LITTLE_LOSS and limit is not None:
            recovered = limit * _LOSS_RECOVERY
            self._loss_limit = recovered if recovered < _NO_LIMIT else None

    def hear_round_trip(self, now_ns: int, seconds: float, sent: int) -> None:
        """The time of a round trip, which grows by what queues up on the way."""
        round_trips = self._round_trips
        round_trips.append((now_ns, seconds))
        while round_trips[0][0] < now_ns - _MIN_KNOWN_NS:
            round_trips.popleft()
        rests = self.congested_ns is not None and now_ns - self.congested_ns < 3 * _REST_NS // 2
        if self._queue_s > _LONG_QUEUE_S and sent and not rests:
            self.congested_ns = now_ns
            limit = sent if self._estimate_limit is None else min(self._estimate_limit, sent)
            self._full = self._full or limit
            self._estimate_limit = limit * _BACK_OFF

    def _answered(self, now_ns: int) -> float:
        """The limit that an estimate which fell a moment ago set: what was lost till then has been answered by it."""
        if self._fell_ns is None or now_ns - self._fell_ns > 3 * _REST_NS // 2:
            return 0.0
        return self._estimate_limit or 0.0

    def forget(self) -> None:
        """Drop every limit, to try a higher rate."""
        self._estimate_limit = self._loss_limit = None

    def _learn_full(self, rate: float) -> None:
        """The connection seemed full at ``rate``: a lower one than before is believed when it is seen twice."""
        before, self._seemed_full = self._seemed_full, rate
        seen_twice = abs(rate - before) < _SAME * before
        self._full = rate if seen_twice else max(rate, self._full * _DOUBT)

    @property
    def _queue_s(self) -> float:
        """By how much the last round trip was longer than the shortest."""
        return self._round_trips[-1][1] - min(seconds for _, seconds in self._round_trips)

    def _has_no_queue(self, now_ns: int) -> bool:
        if not self._round_trips or now_ns - self._round_trips[-1][0] > _QUEUE_KNOWN_NS:
            return False
        return self._queue_s < _NO_QUEUE_S

    def _is_stuck(self, now_ns: int, estimate: int, sent: int) -> bool:
        """Whether it has been below the sent rate for a while and has not risen."""
        if estimate >= sent * _LOW:
            self._low = None
            return False
        low_ns, low = self._low = self._low or (now_ns, estimate)
        if now_ns - low_ns < _STUCK_NS:
            return False
        self._low = (now_ns, estimate)
        lags = self._estimate_limit is not None and self._has_no_queue(now_ns)
        return estimate < low * _STUCK and not lags

    def _grown(self, limit: float, seconds: float, sent: int) -> float:
        if sent < limit * _USED:
            return limit
        knee, past = (share * self._full for share in _KNEE)
        if knee <= limit <= past:
            return float(limit * (1 + _SLOW) ** seconds)
        fast = float(limit * (1 + _FAST) ** seconds)
        return min(fast, knee) if limit < knee else fast


class RateMeter:
    """Counts over the last second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: deque[tuple[int, int]] = deque()
        self._bits = 0

    @property
    def rate(self) -> int:
        """Bits per second."""
        self._forget()
        return self._bits

    def add(self, bits: int) -> None:
        self._counts.append((self._clock.now_ns(), bits))
        self._bits += bits
        self._forget()

    def _forget(self) -> None:
        counts, begin_ns = self._counts, self._clock.now_ns() - NS_PER_S
        while counts and counts[0][0] <= begin_ns:
            self._bits -= counts.popleft()[1]
