"""Rolling statistics over the newest values: fixed memory, O(1) a value, sorted only when they are read.

One thread writes, any thread reads; neither takes a lock.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Ring", "RollingWindow", "WindowSnapshot", "quantile"]

WINDOW_SIZE = 512
_MAX_VALUE = 2**63 - 1


def quantile(ordered: Sequence[float], share: float) -> float:
    """The ``share`` quantile of sorted, non-empty values, interpolated linearly (type 7 of Hyndman and Fan, 1996).

    Raises:
        ValueError: ``share`` is not between 0 and 1.
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share must be between 0 and 1, got {share!r}")
    position = share * (len(ordered) - 1)
    lower = int(position)
    if lower + 1 == len(ordered):
        return ordered[lower]
    return ordered[lower] + (position - lower) * (ordered[lower + 1] - ordered[lower])


class Ring:
    """The newest ``size`` integers of a series, found by their index in it.

    Attributes:
        count: how many values were appended, which is the index of the next one.

    Raises:
        ValueError: ``size`` is below 1.
    """

    __slots__ = ("_ring", "count")

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"size must be 1 or more, got {size!r}")
        self._ring = array("q", bytes(8 * (size + 1)))  # one entry is being written while the others are read
        self.count = 0

    def append(self, value: int) -> None:
        """Add a value; it has to fit in 64 bits."""
        self._ring[self.count % len(self._ring)] = value
        self.count += 1

    def at(self, index: int) -> int | None:
        """The value at ``index``; ``None`` unless it is among the newest."""
        size = len(self._ring)
        return self._ring[index % size] if 0 <= index < self.count < index + size else None

    def items(self) -> tuple[tuple[int, int], ...]:
        """``(index, value)``, oldest first."""
        while True:
            count, ring = self.count, self._ring[:]
            if count == self.count:  # otherwise the copy may hold a value that was written during it
                break
        return tuple((index, ring[index % len(ring)]) for index in range(max(0, count + 1 - len(ring)), count))

    def values(self) -> list[int]:
        """Oldest first."""
        return [value for _, value in self.items()]


@dataclass(frozen=True)
class WindowSnapshot:
    """A reading of a :class:`RollingWindow`. Without values everything is 0.

    Attributes:
        count, sum_ns, peak_ns: number, sum and maximum of all values ever recorded.
        newest: the values in the window, sorted; all other figures are computed from these.
    """

    count: int
    sum_ns: int
    peak_ns: int
    newest: tuple[int, ...]

    @property
    def min_ns(self) -> int:
        """Smallest value in the window."""
        return self.newest[0] if self.newest else 0

    @property
    def p50_ns(self) -> float:
        """Median of the window."""
        return self.quantile_ns(0.5)

    @property
    def p90_ns(self) -> float:
        """90th percentile of the window."""
        return self.quantile_ns(0.9)

    @property
    def p95_ns(self) -> float:
        """95th percentile of the window."""
        return self.quantile_ns(0.95)

    @property
    def p99_ns(self) -> float:
        """99th percentile of the window."""
        return self.quantile_ns(0.99)

    @property
    def max_ns(self) -> int:
        """Largest value in the window."""
        return self.newest[-1] if self.newest else 0

    @property
    def mean_ns(self) -> float:
        """Mean of the window."""
        return math.fsum(self.newest) / len(self.newest) if self.newest else 0.0

    def quantile_ns(self, share: float) -> float:
        """See :func:`quantile`."""
        return quantile(self.newest or (0,), share)


class RollingWindow(Ring):
    """Durations in nanoseconds: the newest ``size`` of them, and the sum and maximum of all.

    Raises:
        ValueError: ``size`` is below 1.
    """

    __slots__ = ("_sum_ns", "_peak_ns")

    def __init__(self, size: int = WINDOW_SIZE) -> None:
        super().__init__(size)
        self._sum_ns = 0
        self._peak_ns = 0

    def record(self, duration_ns: int) -> None:
        """Add a duration; a negative one counts as 0."""
        value = duration_ns if 0 <= duration_ns <= _MAX_VALUE else min(max(duration_ns, 0), _MAX_VALUE)
        self._sum_ns += value
        if value > self._peak_ns:
            self._peak_ns = value
        ring = self._ring
        ring[self.count % len(ring)] = value
        self.count += 1

    def snapshot(self) -> WindowSnapshot:
        """The state now; sorts the window."""
        kept = self.items()
        count = kept[-1][0] + 1 if kept else 0
        return WindowSnapshot(count, self._sum_ns, self._peak_ns, tuple(sorted(value for _, value in kept)))
