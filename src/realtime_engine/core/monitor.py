"""Counters of a serve loop. The loop's thread alone writes them, without a lock; anybody may take a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .outbox import Outbox

__all__ = ["Histogram", "HistogramSnapshot", "ServeMonitor", "ServeSnapshot"]

_SUB_BITS = 2  # four buckets for each doubling: a quantile is at most 25 % off
_BUCKETS = 64 << _SUB_BITS


class Histogram:
    """Durations in nanoseconds, in buckets that grow by a quarter of a doubling; fixed memory, O(1) a value."""

    __slots__ = ("_counts", "_sum_ns", "_max_ns")

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self._sum_ns = 0
        self._max_ns = 0

    def record(self, duration_ns: int) -> None:
        """Negative durations count as 0."""
        value = max(duration_ns, 0)
        self._counts[_bucket(value)] += 1
        self._sum_ns += value
        if value > self._max_ns:
            self._max_ns = value

    def snapshot(self) -> HistogramSnapshot:
        return HistogramSnapshot(tuple(self._counts), self._sum_ns, self._max_ns)


@dataclass(frozen=True)
class HistogramSnapshot:
    """A reading of a :class:`Histogram`."""

    counts: tuple[int, ...]
    sum_ns: int
    max_ns: int

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def mean_ns(self) -> float:
        return self.sum_ns / self.count if self.count else 0.0

    def quantile_ns(self, share: float) -> int:
        """Upper bound of the bucket that holds the value at ``share`` (0 to 1); 0 without values."""
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"share must be between 0 and 1, got {share!r}")
        rank, seen = share * self.count, 0
        for bucket, count in enumerate(self.counts):
            seen += count
            if count and seen >= rank:
                return min(_upper_bound(bucket), self.max_ns)
        return 0


def _bucket(value: int) -> int:
    octave = value.bit_length() - 1 - _SUB_BITS
    if octave <= 0:
        return min(value, _BUCKETS - 1)
    return min((octave << _SUB_BITS) + (value >> octave), _BUCKETS - 1)


def _upper_bound(bucket: int) -> int:
    octave = max((bucket >> _SUB_BITS) - 1, 0)
    return ((bucket - (octave << _SUB_BITS) + 1) << octave) - 1


@dataclass(frozen=True)
class ServeSnapshot:
    """A reading of a serve loop.

    Attributes:
        ticks: rounds of the loop that stepped the engine.
        overruns: deadlines that had passed when the tick before them ended.
        steps: calls of ``engine.step``, those that look for a culprit included.
        chunks: chunks put into the outbox.
        rejected: messages and sessions refused.
        failed: :class:`Failed` events, fatal ones included.
        foreign: results for sessions that are not attached, thrown away.
        step: how long the engine took for a tick.
        input_to_step: from an Action's arrival in the inbox to the begin of the step that it shapes.
        dropped: session id -> chunks that the outbox dropped.
    """

    ticks: int
    overruns: int
    steps: int
    chunks: int
    rejected: int
    failed: int
    foreign: int
    step: HistogramSnapshot
    input_to_step: HistogramSnapshot
    dropped: Mapping[str, int]


@dataclass
class ServeMonitor:
    """Pass one to ``default_serve`` and read it from any thread with :meth:`snapshot`."""

    ticks: int = 0
    overruns: int = 0
    steps: int = 0
    chunks: int = 0
    rejected: int = 0
    failed: int = 0
    foreign: int = 0
    step: Histogram = field(default_factory=Histogram)
    input_to_step: Histogram = field(default_factory=Histogram)
    outbox: Outbox | None = None  # set by the loop

    def snapshot(self) -> ServeSnapshot:
        return ServeSnapshot(
            ticks=self.ticks,
            overruns=self.overruns,
            steps=self.steps,
            chunks=self.chunks,
            rejected=self.rejected,
            failed=self.failed,
            foreign=self.foreign,
            step=self.step.snapshot(),
            input_to_step=self.input_to_step.snapshot(),
            dropped=self.outbox.statistics().dropped if self.outbox is not None else {},
        )
