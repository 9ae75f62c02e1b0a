"""When each stage worked on a session's newest chunks, and why it did not in between."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from .metrics import NEVER

__all__ = ["StreamingStageIdleInterval", "StreamingStageTiming"]

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
