"""How many bits a second go by."""

from __future__ import annotations

from collections import deque

from ...core.clock import NS_PER_S, Clock


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
