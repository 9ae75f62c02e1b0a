"""A token bucket, and the rate of messages that one connection may send."""

from __future__ import annotations

from ..core.clock import MONOTONIC, NS_PER_S, Clock

MESSAGES_PER_S = 500.0

_CHARACTERS_PER_MESSAGE = 1024


def message_cost(length: int) -> int:
    """How many messages one of ``length`` characters counts as."""
    return 1 + length // _CHARACTERS_PER_MESSAGE


class TokenBucket:
    """Lets ``burst`` tokens through at once and ``rate`` tokens a second from then on.

    Args:
        rate: tokens a second.
        burst: tokens at most, and at the start.
    """

    def __init__(self, rate: float, burst: float, clock: Clock = MONOTONIC) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._level = burst
        self._at_ns = clock.now_ns()

    def reserve(self, cost: float = 1) -> float:
        """Spend ``cost`` tokens, going into debt if need be; returns the seconds to wait until the debt is repaid."""
        self._refill()
        self._level -= cost
        return max(-self._level, 0.0) / self._rate

    def allow(self, cost: float = 1) -> bool:
        """Spend ``cost`` tokens if there are as many; false, and nothing spent, if not."""
        self._refill()
        if self._level < cost:
            return False
        self._level -= cost
        return True

    def _refill(self) -> None:
        now_ns = self._clock.now_ns()
        gained = (now_ns - self._at_ns) / NS_PER_S * self._rate
        self._level = min(self._level + gained, self._burst)
        self._at_ns = now_ns
