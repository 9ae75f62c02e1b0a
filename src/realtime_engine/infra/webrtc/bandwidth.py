"""Bandwidth estimation for one viewer, from what its receiver reports.

A receiver's estimate (REMB, draft-alvestrand-rmcat-remb-03) follows the received rate, up to 1.5 times that, so a low
estimate may only mean that little was sent. It is taken for a limit when it falls, or when it stays below the sent
rate. After that the limit grows over time: fast while far from the rate at which the link was last full, slowly near
it, like the window of CUBIC (RFC 9438). It does not grow far beyond the estimate, whose fall would then go unnoticed,
unless the round-trip time shows that nothing is queued. A long round trip is congestion too. Loss is handled as on the
sender's side of Google Congestion Control (draft-ietf-rmcat-gcc-02, section 6).
"""

from __future__ import annotations

from collections import deque

from ...core.clock import NS_PER_S, Clock

_HEADROOM = 0.95  # of an estimate, which counts headers and retransmissions too
_BACK_OFF = 0.85  # estimate of a full link, as a share of its rate
_FALL = 0.97  # an estimate below this share of the highest since the last fall has fallen
_NEAR = 1.2  # an estimate above this multiple of the sent rate falls because less is sent
_LOW, _STUCK, _STUCK_NS = 0.9, 1.04, NS_PER_S * 9 // 10  # below the sent rate, and not rising in this time
_DRAIN_NS = NS_PER_S  # time for queues to drain after congestion
_USED = 0.7  # a limit is tested when this share of it is sent
_KNEE = (0.9, 1.15)  # shares of the full rate between which growth is slow
_SAME, _DOUBT = 0.12, 0.9
_SLOW, _FAST = 0.15, 0.5  # growth in a second
_BEYOND = 1.1  # times the estimate
_NO_QUEUE_S, _LONG_QUEUE_S = 0.03, 0.15
_QUEUE_VALID_NS = 5 * NS_PER_S // 2
_MIN_VALID_NS = 10 * NS_PER_S  # the shortest round trip may have changed since
_HIGH_LOSS, _LOW_LOSS = 0.1, 0.02
_LOSS_RECOVERY = 1.08  # for each report
_NO_LIMIT = 10**9  # bits per second: a higher limit is no limit
_MAX_ROUND_TRIPS = 64  # receivers report about once a second


class BandwidthEstimator:
    """Turns the reports of one viewer into a limit. Its only time is that of the reports.

    Attributes:
        congested_ns: when a report last showed congestion; ``None`` before the first.
    """

    def __init__(self) -> None:
        self.congested_ns: int | None = None
        self._reported_ns: int | None = None
        self._fell_ns: int | None = None
        self._highest = 0
        self._low: tuple[int, int] | None = None
        self._full = self._seemed_full = 0.0
        self._round_trips: deque[tuple[int, float]] = deque(maxlen=_MAX_ROUND_TRIPS)
        self._estimate_limit: float | None = None
        self._loss_limit: float | None = None

    @property
    def limit(self) -> int | None:
        """Bits per second that are safe to send; ``None`` while no report limits them."""
        limits = [limit for limit in (self._estimate_limit, self._loss_limit) if limit is not None]
        return int(min(limits)) if limits else None

    def on_estimate(self, now_ns: int, bits_per_second: int, sent: int) -> None:
        """The receiver estimates ``bits_per_second``, while ``sent`` bits per second are sent."""
        before_ns, self._reported_ns = self._reported_ns, now_ns
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
        if now_ns - (self.congested_ns or 0) >= _DRAIN_NS:
            grown = self._grown(self._estimate_limit, min(now_ns - before_ns, NS_PER_S) / NS_PER_S, sent)
            if not self._has_no_queue(now_ns):
                grown = min(grown, bits_per_second * _BEYOND)
            self._estimate_limit = max(grown, bits_per_second * _HEADROOM)

    def on_loss(self, now_ns: int, share: float, sent: int) -> None:
        """This share of packets, from 0 to 1, was lost since the last report."""
        limit = self._loss_limit
        if share > _HIGH_LOSS and sent:
            self.congested_ns = now_ns
            lowered = (sent if limit is None else min(limit, sent)) * (1 - share / 2)
            self._loss_limit = max(lowered, self._recent_fall(now_ns))
        elif share < _LOW_LOSS and limit is not None:
            recovered = limit * _LOSS_RECOVERY
            self._loss_limit = recovered if recovered < _NO_LIMIT else None

    def on_round_trip(self, now_ns: int, seconds: float, sent: int) -> None:
        """A round trip took this long; queues on the way lengthen it."""
        round_trips = self._round_trips
        round_trips.append((now_ns, seconds))
        while round_trips[0][0] < now_ns - _MIN_VALID_NS:
            round_trips.popleft()
        is_draining = self.congested_ns is not None and now_ns - self.congested_ns < 3 * _DRAIN_NS // 2
        if self._queue_s > _LONG_QUEUE_S and sent and not is_draining:
            self.congested_ns = now_ns
            limit = sent if self._estimate_limit is None else min(self._estimate_limit, sent)
            self._full = self._full or limit
            self._estimate_limit = limit * _BACK_OFF

    def _recent_fall(self, now_ns: int) -> float:
        """The limit of an estimate that fell a moment ago, which accounts for earlier losses already; else 0."""
        if self._fell_ns is None or now_ns - self._fell_ns > 3 * _DRAIN_NS // 2:
            return 0.0
        return self._estimate_limit or 0.0

    def reset(self) -> None:
        """Drop every limit, to try a higher rate."""
        self._estimate_limit = self._loss_limit = None

    def _learn_full(self, rate: float) -> None:
        """The link seemed full at ``rate``; a lower rate than before must be seen twice."""
        before, self._seemed_full = self._seemed_full, rate
        seen_twice = abs(rate - before) < _SAME * before
        self._full = rate if seen_twice else max(rate, self._full * _DOUBT)

    @property
    def _queue_s(self) -> float:
        """How much longer the last round trip was than the shortest, in seconds."""
        return self._round_trips[-1][1] - min(seconds for _, seconds in self._round_trips)

    def _has_no_queue(self, now_ns: int) -> bool:
        if not self._round_trips or now_ns - self._round_trips[-1][0] > _QUEUE_VALID_NS:
            return False
        return self._queue_s < _NO_QUEUE_S

    def _is_stuck(self, now_ns: int, estimate: int, sent: int) -> bool:
        """Whether the estimate has been below the sent rate for a while and has not risen."""
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
    """The bit rate over the last second."""

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
        """Count bits that are sent now."""
        self._counts.append((self._clock.now_ns(), bits))
        self._bits += bits
        self._forget()

    def _forget(self) -> None:
        counts, begin_ns = self._counts, self._clock.now_ns() - NS_PER_S
        while counts and counts[0][0] <= begin_ns:
            self._bits -= counts.popleft()[1]
