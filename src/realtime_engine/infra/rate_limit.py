"""How much a connection may ask for in a time."""

from __future__ import annotations

from ..core.clock import MONOTONIC, NS_PER_S, Clock


class TokenBucket:
    """Lets ``burst`` through at once and ``rate`` a second from then on."""

    def __init__(self, rate: float, burst: float, clock: Clock = MONOTONIC) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._level = burst
        self._at_ns = clock.now_ns()

    def take(self, cost: float) -> float:
        """Take ``cost``, more than there is if need be; returns the seconds to wait until that is made good."""
        now_ns = self._clock.now_ns()
        gained = (now_ns - self._at_ns) / NS_PER_S * self._rate
        self._level = min(self._level + gained, self._burst) - cost
        self._at_ns = now_ns
        return max(-self._level, 0.0) / self._rate
