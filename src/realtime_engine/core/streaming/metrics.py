"""How a session does: latencies and periods, over the newest chunks."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from .types import ControlStamp

__all__ = ["StreamingLatencySummary", "StreamingSessionMetrics", "StreamingStageIdleInterval", "StreamingStageTiming"]


NEVER = math.nan


@dataclass(frozen=True)
class StreamingLatencySummary:
    """Durations in seconds; ``None`` everywhere when there are none. Percentiles are interpolated linearly."""

    count: int
    minimum_seconds: float | None = None
    p50_seconds: float | None = None
    p95_seconds: float | None = None
    maximum_seconds: float | None = None
    mean_seconds: float | None = None

    @classmethod
    def of(cls, seconds: list[float]) -> StreamingLatencySummary:
        """Summarise durations, in any order."""
        if not seconds:
            return cls(0)
        found = sorted(seconds)
        return cls(
            len(found),
            found[0],
            percentile(found, 0.5),
            percentile(found, 0.95),
            found[-1],
            math.fsum(found) / len(found),
        )


def percentile(found: list[float], share: float) -> float:
    """The ``share`` quantile of sorted, non-empty ``found``, interpolated linearly."""
    place = share * (len(found) - 1)
    below = int(place)
    if below + 1 == len(found):
        return found[below]
    return found[below] + (place - below) * (found[below + 1] - found[below])


@dataclass(frozen=True)
class StreamingSessionMetrics:
    """A session over its newest chunks; times are monotonic seconds.

    Attributes:
        ingress_accepted_at: (sequence, when the last of its inputs was accepted).
        output_emitted_at: (sequence, when the last of its outputs could be read).
        first_output_latency_seconds: from the first sequence's acceptance to the first output; ``None`` before.
        control_to_output_latency: from ``set_control`` to the first output that was made with that very value; values
            that no invocation sampled do not count. Without controls: from a sequence's acceptance to its output.
        chunk_period: between the outputs of one sequence and the next.
    """

    ingress_accepted_at: tuple[tuple[int, float], ...]
    output_emitted_at: tuple[tuple[int, float], ...]
    first_output_latency_seconds: float | None
    control_to_output_latency: StreamingLatencySummary
    chunk_period: StreamingLatencySummary

    def real_time_factor(self, chunk_duration_s: float) -> float | None:
        """p95 of the chunk period over the media duration of a chunk: at most 1 plays without stalls.

        ``None`` before the second chunk. ``ValueError`` unless the duration is finite and above 0.
        """
        if not 0 < chunk_duration_s < math.inf:
            raise ValueError(f"chunk_duration_s must be finite and above 0, got {chunk_duration_s!r}")
        p95 = self.chunk_period.p95_seconds
        return None if p95 is None else p95 / chunk_duration_s


class FixedWindow:
    """The newest ``size`` numbers, in memory that does not grow. One thread writes; any thread reads without a lock."""

    __slots__ = ("_ring", "count")

    def __init__(self, size: int) -> None:
        self._ring = array("d", [NEVER]) * (size + 1)  # one is being written while the others are read
        self.count = 0

    def append(self, value: float) -> None:
        self._ring[self.count % len(self._ring)] = value
        self.count += 1

    def items(self) -> tuple[tuple[int, float], ...]:
        """(how many came before, number), oldest first."""
        while True:
            count, ring = self.count, self._ring[:]
            if count == self.count:  # else it was written meanwhile
                break
        return tuple((place, ring[place % len(ring)]) for place in range(max(0, count + 1 - len(ring)), count))

    def values(self) -> list[float]:
        """Oldest first."""
        return [value for _, value in self.items()]


class SequenceTimes(FixedWindow):
    """When something happened to each of the newest ``size`` sequences, which come one by one from 0."""

    __slots__ = ()

    def at(self, sequence_id: int) -> float:
        """NaN when that sequence is not there (any more)."""
        size = len(self._ring)
        return self._ring[sequence_id % size] if 0 < self.count - sequence_id < size else NEVER


class SessionRecord:
    """What a session's metrics are made of. Written under the scheduling lock, read without it."""

    __slots__ = (
        "accepted",
        "emitted",
        "_first_accepted",
        "_first_latency",
        "_control_latencies",
        "_periods",
        "_seen_controls",
    )

    def __init__(self, window: int) -> None:
        self.accepted = SequenceTimes(window)
        self.emitted = SequenceTimes(window)
        self._first_accepted = self._first_latency = NEVER
        self._control_latencies = FixedWindow(window)
        self._periods = FixedWindow(window)
        self._seen_controls: dict[str, int] = {}

    def note_accepted(self, at: float) -> None:
        """The next sequence has all its inputs."""
        if self.accepted.count == 0:
            self._first_accepted = at
        self.accepted.append(at)

    def note_output(self, at: float) -> None:
        """Something has come out."""
        if math.isnan(self._first_latency):
            self._first_latency = at - self._first_accepted

    def note_chunk(self, sequence_id: int, at: float, controls: dict[str, ControlStamp] | None) -> None:
        """All outputs of a sequence are out; ``controls`` is ``None`` in a pipeline that has none."""
        if sequence_id > 0:
            self._periods.append(at - self.emitted.at(sequence_id - 1))
        self.emitted.append(at)
        if controls is None:
            latency = at - self.accepted.at(sequence_id)
            if not math.isnan(latency):  # a pipeline that is deeper than the window
                self._control_latencies.append(latency)
            return
        for artifact, (version, set_at) in controls.items():
            if version > self._seen_controls.get(artifact, 0):
                self._seen_controls[artifact] = version
                self._control_latencies.append(at - set_at)

    def snapshot(self) -> StreamingSessionMetrics:
        first = self._first_latency
        return StreamingSessionMetrics(
            ingress_accepted_at=self.accepted.items(),
            output_emitted_at=self.emitted.items(),
            first_output_latency_seconds=None if math.isnan(first) else first,
            control_to_output_latency=StreamingLatencySummary.of(self._control_latencies.values()),
            chunk_period=StreamingLatencySummary.of(self._periods.values()),
        )


CONTINUOUS_SECONDS = 0.001


@dataclass(frozen=True)
class StreamingStageTiming:
    """One sequence at one stage; monotonic seconds, ``None`` for what has not happened yet.

    Attributes:
        inputs_ready_at: all that it consumes by sequence was there.
        admitted_at: handed to the actor.
        completed_at: the actor had answered.
        begun_at: the actor's turn came (``None`` for an actor that does not say so).
    """

    stage_id: str
    sequence_id: int
    inputs_ready_at: float
    admitted_at: float | None = None
    completed_at: float | None = None
    begun_at: float | None = None


@dataclass(frozen=True)
class StreamingStageIdleInterval:
    """How long a stage had nothing of a session between two of its sequences, and why.

    Attributes:
        idle_seconds: from the completion of the previous sequence to the admission of this one; 0 when they overlap.
        reason: ``"continuous"`` for up to 1 ms; the missing inputs, joined by ``+``, when the stage had to wait for
            them; else what kept the chunk, once its inputs were there: ``"edge_capacity"``, ``"stage_capacity"``,
            ``"resource_group"``, or ``"scheduler_admission"`` for the turn of other sessions. ``"inputs_not_ready"``
            when it is not known which inputs were missing.
        missing_inputs: what was missing when the previous sequence was completed.
    """

    stage_id: str
    previous_sequence_id: int
    sequence_id: int
    idle_seconds: float
    reason: str
    missing_inputs: tuple[str, ...] = ()


class Hold(IntEnum):
    """What keeps a chunk whose inputs are there."""

    SCHEDULER_ADMISSION = 0
    STAGE_CAPACITY = 1
    RESOURCE_GROUP = 2
    EDGE_CAPACITY = 3


SEQUENCE, READY, ADMITTED, BEGUN, COMPLETED, HOLD, MISSING = range(7)
FIELDS = 7
FRESH = array("d", [-1, NEVER, NEVER, NEVER, NEVER, 0, 0])


class StageRecord:
    """The newest ``size`` sequences of a session at a stage, in memory that does not grow.

    Written under the scheduling lock (``begun`` by the actor's thread), read without it. A stage may have more
    sequences before it than there are rows: what comes for one whose row a newer one has is not kept.
    """

    __slots__ = ("_table", "_size", "newest")

    def __init__(self, size: int) -> None:
        self._table = FRESH * (size + 1)  # one is begun while the others are read
        self._size = size + 1
        self.newest = -1

    def ready(self, sequence_id: int, at: float) -> None:
        start, table = sequence_id % self._size * FIELDS, self._table
        if table[start] > sequence_id:
            return
        table[start : start + FIELDS] = FRESH
        table[start + READY] = at
        table[start] = sequence_id
        if sequence_id > self.newest:
            self.newest = sequence_id

    def admitted(self, sequence_id: int, at: float, hold: int, missing: int) -> None:
        start, table = sequence_id % self._size * FIELDS, self._table
        if table[start] == sequence_id:
            table[start + ADMITTED] = at
            table[start + HOLD] = hold
            table[start + MISSING] = missing

    def begun(self, sequence_id: int, at: float) -> None:
        start = sequence_id % self._size * FIELDS
        if self._table[start] == sequence_id:
            self._table[start + BEGUN] = at

    def completed(self, sequence_id: int, at: float) -> None:
        start = sequence_id % self._size * FIELDS
        if self._table[start] == sequence_id:
            self._table[start + COMPLETED] = at

    def _rows(self) -> Iterator[tuple[int, array[float]]]:
        while True:
            newest, table = self.newest, self._table[:]
            if newest == self.newest:  # else a sequence began meanwhile, in the place of an old one
                break
        for sequence_id in range(max(0, newest + 2 - self._size), newest + 1):
            start = sequence_id % self._size * FIELDS
            row = table[start : start + FIELDS]
            if row[SEQUENCE] == sequence_id:
                yield sequence_id, row

    def timings(self, stage_id: str) -> tuple[StreamingStageTiming, ...]:
        return tuple(
            StreamingStageTiming(
                stage_id, seq, row[READY], known(row[ADMITTED]), known(row[COMPLETED]), known(row[BEGUN])
            )
            for seq, row in self._rows()
        )

    def idle_intervals(self, stage_id: str, queued: tuple[str, ...]) -> tuple[StreamingStageIdleInterval, ...]:
        """``queued``: what the bits of the missing masks stand for."""
        found = []
        previous: tuple[int, array[float]] | None = None
        for seq, row in self._rows():
            if math.isnan(row[ADMITTED]):
                break
            if previous is not None:
                found.append(idle_interval(stage_id, queued, previous, (seq, row)))
            previous = (seq, row)
        return tuple(found)


def idle_interval(
    stage_id: str, queued: tuple[str, ...], before: tuple[int, array[float]], after: tuple[int, array[float]]
) -> StreamingStageIdleInterval:
    """The interval between two neighbouring rows of a record."""
    (previous_id, previous), (sequence_id, row) = before, after
    completed = previous[COMPLETED]
    idle = 0.0 if math.isnan(completed) else max(0.0, row[ADMITTED] - completed)
    missing = tuple(name for place, name in enumerate(queued) if int(row[MISSING]) >> place & 1)
    if idle <= CONTINUOUS_SECONDS:
        reason = "continuous"
    elif row[READY] - completed > row[ADMITTED] - row[READY]:  # waited longer for inputs than with them
        reason = "+".join(missing) or "inputs_not_ready"
    else:
        reason = Hold(int(row[HOLD])).name.lower()
    return StreamingStageIdleInterval(stage_id, previous_id, sequence_id, idle, reason, missing)


def known(at: float) -> float | None:
    """``None`` for what has not happened."""
    return None if math.isnan(at) else at
