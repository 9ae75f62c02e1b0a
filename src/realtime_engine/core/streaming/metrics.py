"""Latencies, periods and idle intervals of sessions and stages, over the newest chunks.

Times are recorded in monotonic nanoseconds under the scheduling lock and read without it. The public summaries are in
seconds.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..clock import NS_PER_S
from ..monitor import IdleTotal, PipelineSnapshot, StageSnapshot
from ..statistics import WINDOW_SIZE, Ring, RollingWindow, WindowSnapshot, quantile
from .types import ControlStamp

__all__ = ["StreamingLatencySummary", "StreamingSessionMetrics", "StreamingStageIdleInterval", "StreamingStageTiming"]


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
        """Summarize durations, in any order."""
        if not seconds:
            return cls(0)
        ordered = sorted(seconds)
        return cls(
            len(ordered),
            ordered[0],
            quantile(ordered, 0.5),
            quantile(ordered, 0.95),
            ordered[-1],
            math.fsum(ordered) / len(ordered),
        )


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

        ``None`` before the second chunk.

        Raises:
            ValueError: the duration is not finite and above 0.
        """
        if not 0 < chunk_duration_s < math.inf:
            raise ValueError(f"chunk_duration_s must be finite and above 0, got {chunk_duration_s!r}")
        p95 = self.chunk_period.p95_seconds
        return None if p95 is None else p95 / chunk_duration_s


class PipelineTotals:
    """Latencies and periods of all sessions of a pipeline; see :class:`StreamingSessionMetrics`."""

    __slots__ = ("first_output", "control_to_output", "chunk_period")

    def __init__(self) -> None:
        self.first_output = RollingWindow()
        self.control_to_output = RollingWindow()
        self.chunk_period = RollingWindow()


class SessionRecord:
    """The measurements behind the metrics of one session.

    Args:
        window: how many of the newest sequences are kept.
        totals: counts along, for all sessions of the pipeline.
    """

    __slots__ = (
        "accepted",
        "emitted",
        "first_output",
        "control_to_output",
        "chunk_period",
        "_totals",
        "_first_accepted_ns",
        "_seen_controls",
    )

    def __init__(self, window: int, totals: PipelineTotals) -> None:
        self.accepted = Ring(window)  # by sequence: when it had all its inputs
        self.emitted = Ring(window)  # by sequence: when all its outputs could be read
        self.first_output = Ring(1)
        self.control_to_output = Ring(window)
        self.chunk_period = Ring(window)
        self._totals = totals
        self._first_accepted_ns = 0
        self._seen_controls: dict[str, int] = {}

    def on_accepted(self, now_ns: int) -> None:
        """The next sequence has all its inputs."""
        if self.accepted.count == 0:
            self._first_accepted_ns = now_ns
        self.accepted.append(now_ns)

    def on_first_output(self, now_ns: int) -> None:
        """The first output can be read."""
        latency_ns = now_ns - self._first_accepted_ns
        self.first_output.append(latency_ns)
        self._totals.first_output.record(latency_ns)

    def on_chunk(self, sequence_id: int, now_ns: int, controls: Mapping[str, ControlStamp] | None) -> None:
        """All outputs of a sequence can be read; ``controls`` is ``None`` in a pipeline that has none."""
        previous_ns = self.emitted.at(sequence_id - 1)
        if previous_ns is not None:
            self.chunk_period.append(now_ns - previous_ns)
            self._totals.chunk_period.record(now_ns - previous_ns)
        self.emitted.append(now_ns)
        if controls is None:
            accepted_ns = self.accepted.at(sequence_id)
            if accepted_ns is not None:  # None in a pipeline that is deeper than the window
                self._record_control_latency(now_ns - accepted_ns)
            return
        for artifact, (version, set_ns) in controls.items():
            if version > self._seen_controls.get(artifact, 0):
                self._seen_controls[artifact] = version
                self._record_control_latency(now_ns - set_ns)

    def _record_control_latency(self, latency_ns: int) -> None:
        self.control_to_output.append(latency_ns)
        self._totals.control_to_output.record(latency_ns)

    def snapshot(self) -> StreamingSessionMetrics:
        """The metrics now, in seconds."""
        first = self.first_output.values()
        return StreamingSessionMetrics(
            ingress_accepted_at=_in_seconds(self.accepted),
            output_emitted_at=_in_seconds(self.emitted),
            first_output_latency_seconds=first[0] / NS_PER_S if first else None,
            control_to_output_latency=_summary(self.control_to_output),
            chunk_period=_summary(self.chunk_period),
        )


def pipeline_snapshot(
    stages: Mapping[str, StageSnapshot], record: PipelineTotals | SessionRecord, chunk_duration_s: float
) -> PipelineSnapshot:
    """These stages with the latencies and periods of ``record``; a chunk plays for ``chunk_duration_s``."""
    chunk_period = _window(record.chunk_period)
    return PipelineSnapshot(
        stages=stages,
        first_output=_window(record.first_output),
        control_to_output=_window(record.control_to_output),
        chunk_period=chunk_period,
        real_time_factor=chunk_period.p95_ns / NS_PER_S / chunk_duration_s if chunk_period.count else None,
    )


def _window(durations: Ring) -> WindowSnapshot:
    if isinstance(durations, RollingWindow):
        return durations.snapshot()
    values = sorted(durations.values())
    return WindowSnapshot(len(values), sum(values), max(values, default=0), tuple(values))


def _in_seconds(times: Ring) -> tuple[tuple[int, float], ...]:
    return tuple((sequence_id, at_ns / NS_PER_S) for sequence_id, at_ns in times.items())


def _summary(durations: Ring) -> StreamingLatencySummary:
    return StreamingLatencySummary.of([value / NS_PER_S for value in durations.values()])


@dataclass(frozen=True)
class StreamingStageTiming:
    """One sequence at one stage; monotonic seconds, ``None`` for what has not happened yet.

    Attributes:
        inputs_ready_at: everything that the stage consumes by sequence was there.
        admitted_at: handed to the actor.
        completed_at: the actor had answered.
        begun_at: the handler was started (``None`` for an actor that does not call ``begin``).
    """

    stage_id: str
    sequence_id: int
    inputs_ready_at: float
    admitted_at: float | None = None
    completed_at: float | None = None
    begun_at: float | None = None


@dataclass(frozen=True)
class StreamingStageIdleInterval:
    """An interval between two sequences of a session in which a stage had nothing of it.

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


class WaitReason(IntEnum):
    """What keeps a chunk whose inputs are there."""

    SCHEDULER_ADMISSION = 0
    STAGE_CAPACITY = 1
    RESOURCE_GROUP = 2
    EDGE_CAPACITY = 3


NEVER = -1
_CONTINUOUS_NS = 1_000_000
_CONTINUOUS = -1
_INPUTS = 16  # an idle reason of _INPUTS + mask stands for the inputs of the mask, a lower one for a WaitReason


def idle_reason(completed_ns: int, ready_ns: int, admitted_ns: int, wait_reason: int, missing: int) -> int:
    """Why a stage was idle between a completion and an admission, as a code that :func:`reason_name` spells out."""
    if admitted_ns - completed_ns <= _CONTINUOUS_NS:
        return _CONTINUOUS
    if ready_ns - completed_ns > admitted_ns - ready_ns:  # waited longer for inputs than with them
        return _INPUTS + missing
    return wait_reason


def reason_name(code: int, queued: tuple[str, ...]) -> str:
    """The name of an :func:`idle_reason`; ``queued`` are the artifacts of a mask, in the order of its bits."""
    if code == _CONTINUOUS:
        return "continuous"
    if code >= _INPUTS:
        return "+".join(named(code - _INPUTS, queued)) or "inputs_not_ready"
    return WaitReason(code).name.lower()


def named(mask: int, queued: tuple[str, ...]) -> tuple[str, ...]:
    """The artifacts of a mask."""
    return tuple(name for place, name in enumerate(queued) if mask >> place & 1)


SEQUENCE, READY, ADMITTED, BEGUN, COMPLETED, WAIT_REASON, MISSING, PREVIOUS = range(8)
FIELDS = 8
FRESH = array("q", [-1, NEVER, NEVER, NEVER, NEVER, 0, 0, NEVER])


class StageSpanNs(NamedTuple):
    """One sequence of a session at a stage, in nanoseconds; ``NEVER`` for what has not happened.

    Attributes:
        wait_reason, missing: what kept it, once its inputs were there, and the mask of the inputs that were missing
            when the previous sequence was completed.
        previous_ns: when the previous sequence was completed, if that was before the admission of this one.
    """

    sequence_id: int
    ready_ns: int
    admitted_ns: int
    begun_ns: int
    completed_ns: int
    wait_reason: int
    missing: int
    previous_ns: int


class StageRecord:
    """The newest ``size`` sequences of a session at a stage, in memory of fixed size.

    Written under the scheduling lock (``begun`` by the actor's thread), read without it. When more sequences wait for a
    stage than there are rows, the times of the older ones are not kept.
    """

    __slots__ = ("_table", "_size", "newest")

    def __init__(self, size: int) -> None:
        self._table = FRESH * (size + 1)  # one row is begun while the others are read
        self._size = size + 1
        self.newest = -1

    def ready(self, sequence_id: int, now_ns: int) -> None:
        start, table = sequence_id % self._size * FIELDS, self._table
        if table[start] > sequence_id:
            return
        table[start : start + FIELDS] = FRESH
        table[start + READY] = now_ns
        table[start] = sequence_id
        if sequence_id > self.newest:
            self.newest = sequence_id

    def admitted(self, sequence_id: int, now_ns: int, wait_reason: int, missing: int) -> None:
        start, table = sequence_id % self._size * FIELDS, self._table
        if table[start] == sequence_id:
            table[start + ADMITTED] = now_ns
            table[start + WAIT_REASON] = wait_reason
            table[start + MISSING] = missing
            before = (sequence_id - 1) % self._size * FIELDS
            if table[before] == sequence_id - 1:
                table[start + PREVIOUS] = table[before + COMPLETED]

    def begun(self, sequence_id: int, now_ns: int) -> None:
        start = sequence_id % self._size * FIELDS
        if self._table[start] == sequence_id:
            self._table[start + BEGUN] = now_ns

    def completed(self, sequence_id: int, now_ns: int) -> array[int] | None:
        """Returns the row of the sequence, ``None`` when a newer one has it."""
        start, table = sequence_id % self._size * FIELDS, self._table
        if table[start] != sequence_id:
            return None
        table[start + COMPLETED] = now_ns
        return table[start : start + FIELDS]

    def spans(self) -> Iterator[StageSpanNs]:
        """The newest sequences, oldest first."""
        while True:
            newest, table = self.newest, self._table[:]
            if newest == self.newest:  # otherwise a sequence took the row of an old one during the copy
                break
        for sequence_id in range(max(0, newest + 2 - self._size), newest + 1):
            start = sequence_id % self._size * FIELDS
            row = table[start : start + FIELDS]
            if row[SEQUENCE] == sequence_id:
                yield StageSpanNs(*row)

    def timings(self, stage_id: str) -> tuple[StreamingStageTiming, ...]:
        return tuple(
            StreamingStageTiming(
                stage_id,
                span.sequence_id,
                span.ready_ns / NS_PER_S,
                _seconds(span.admitted_ns),
                _seconds(span.completed_ns),
                _seconds(span.begun_ns),
            )
            for span in self.spans()
        )

    def idle_intervals(self, stage_id: str, queued: tuple[str, ...]) -> tuple[StreamingStageIdleInterval, ...]:
        """``queued``: the artifacts of the missing masks, in the order of their bits."""
        return tuple(
            StreamingStageIdleInterval(
                stage_id,
                before.sequence_id,
                after.sequence_id,
                idle_ns / NS_PER_S,
                reason_name(code, queued),
                named(after.missing, queued),
            )
            for before, after, idle_ns, code in self._idle()
        )

    def rows(self) -> Iterator[StageSpanNs]:
        """The newest completed sequences."""
        return (span for span in self.spans() if span.completed_ns != NEVER)

    def _idle(self) -> Iterator[tuple[StageSpanNs, StageSpanNs, int, int]]:
        """Neighboring sequences, the idle time between them, and its reason."""
        previous: StageSpanNs | None = None
        for span in self.spans():
            if span.admitted_ns == NEVER:
                return
            if previous is not None:
                completed_ns = span.admitted_ns if previous.completed_ns == NEVER else previous.completed_ns
                code = idle_reason(completed_ns, span.ready_ns, span.admitted_ns, span.wait_reason, span.missing)
                yield previous, span, max(0, span.admitted_ns - completed_ns), code
            previous = span


def _seconds(at_ns: int) -> float | None:
    return None if at_ns == NEVER else at_ns / NS_PER_S


class StageStatistics:
    """What a stage does, over all sessions; the figures are those of :class:`StageSnapshot`.

    The rows of completed sequences are only collected under the scheduling lock, and evaluated in batches, which costs
    a tenth of evaluating one at a time. NumPy releases the GIL during an evaluation, so it runs without the lock: the
    threads that wait for a lock whose holder has given up the GIL form a convoy, which costs a third of the throughput.
    """

    __slots__ = ("admitted", "completed", "failed", "_state")

    def __init__(self) -> None:
        self.admitted = 0
        self.completed = 0
        self.failed = 0
        # Evaluated rows, rows in evaluation, collected rows; one attribute, so that a reader sees them consistently.
        self._state: tuple[StageTotals, array[int], array[int]] = (_EMPTY, _NO_ROWS, array("q"))

    def add(self, row: array[int] | None) -> bool:
        """A sequence was completed; ``row`` is its row of the :class:`StageRecord`, if it is still there.

        Returns whether a batch is complete, for which the caller then calls :meth:`evaluate` and :meth:`commit`.
        """
        self.completed += 1
        if row is None:
            return False
        totals, evaluated, rows = self._state
        rows += row
        if evaluated or len(rows) < WINDOW_SIZE * FIELDS:
            return False
        self._state = (totals, rows, array("q"))
        return True

    def evaluate(self) -> StageTotals:
        """The totals with the complete batch. Called without the scheduling lock."""
        totals, evaluated, _ = self._state
        return totals.plus(evaluated)

    def commit(self, totals: StageTotals) -> None:
        """Replace the batch by its totals. Called with the scheduling lock."""
        self._state = (totals, _NO_ROWS, self._state[2])

    def snapshot(self, queued: tuple[str, ...], waiting: int = 0, in_flight: int = 0) -> StageSnapshot:
        """The figures now.

        Args:
            queued: the artifacts that the stage consumes by sequence, in the order of the bits of a mask.
            waiting: chunks that have their inputs and wait for admission.
            in_flight: chunks that the actor has.
        """
        totals, evaluated, rows = self._state
        totals = totals.plus(evaluated + rows[:])
        queue, mailbox, run = totals.windows()
        return StageSnapshot(
            admitted=self.admitted,
            completed=self.completed,
            failed=self.failed,
            waiting=waiting,
            in_flight=in_flight,
            queue=queue,
            mailbox=mailbox,
            run=run,
            idle=_by_reason(totals.idle, queued),
        )


def _by_reason(totals: Mapping[int, IdleTotal], queued: tuple[str, ...]) -> dict[str, IdleTotal]:
    """The totals by name; an artifact may have the name of another reason, and then shares its total."""
    found: dict[str, IdleTotal] = {}
    for code, total in sorted(totals.items()):
        name = reason_name(code, queued)
        before = found.get(name, IdleTotal(0, 0))
        found[name] = IdleTotal(before.intervals + total.intervals, before.idle_ns + total.idle_ns)
    return found


Rows: TypeAlias = "NDArray[np.int64]"


@dataclass(frozen=True, eq=False)
class StageTotals:
    """Evaluated rows of a stage.

    Attributes:
        count: rows evaluated.
        sums, peaks: sum and maximum of the three phases: queue, mailbox, run.
        newest: durations of the phases of the newest rows, (512, 3) at most.
        idle: reason -> idle intervals.
    """

    count: int
    sums: tuple[int, ...]
    peaks: tuple[int, ...]
    newest: Rows
    idle: Mapping[int, IdleTotal]

    def plus(self, flat: array[int]) -> StageTotals:
        """With more rows, one after another."""
        table = np.array(flat, np.int64).reshape(-1, FIELDS)
        if not len(table):
            return self
        begun_ns = np.where(table[:, BEGUN] == NEVER, table[:, ADMITTED], table[:, BEGUN])
        moments = np.stack([table[:, READY], table[:, ADMITTED], begun_ns, table[:, COMPLETED]], 1)
        phases = np.maximum(np.diff(moments, axis=1), 0)
        return StageTotals(
            self.count + len(table),
            tuple(total + added for total, added in zip(self.sums, phases.sum(0).tolist(), strict=True)),
            tuple(max(pair) for pair in zip(self.peaks, phases.max(0).tolist(), strict=True)),
            np.concatenate([self.newest, phases])[-WINDOW_SIZE:],
            _add_idle(self.idle, table),
        )

    def windows(self) -> list[WindowSnapshot]:
        """The phases, in order."""
        return [
            WindowSnapshot(self.count, total, peak, tuple(np.sort(durations).tolist()))
            for total, peak, durations in zip(self.sums, self.peaks, self.newest.T, strict=True)
        ]


_NO_ROWS = array("q")
_EMPTY = StageTotals(0, (0, 0, 0), (0, 0, 0), np.zeros((0, 3), np.int64), MappingProxyType({}))


def _add_idle(totals: Mapping[int, IdleTotal], table: Rows) -> dict[int, IdleTotal]:
    """``totals`` with the idle intervals before these sequences; the first of a session has none before it."""
    later = table[table[:, SEQUENCE] > 0]
    previous_ns = np.where(later[:, PREVIOUS] == NEVER, later[:, ADMITTED], later[:, PREVIOUS])
    idle_ns = later[:, ADMITTED] - previous_ns
    codes = np.where(
        later[:, READY] - previous_ns > later[:, ADMITTED] - later[:, READY],
        later[:, MISSING] + _INPUTS,
        later[:, WAIT_REASON],
    )
    codes[idle_ns <= _CONTINUOUS_NS] = _CONTINUOUS
    found = dict(totals)
    for code in np.unique(codes).tolist():
        before, chosen = found.get(code, IdleTotal(0, 0)), idle_ns[codes == code]
        found[code] = IdleTotal(before.intervals + len(chosen), before.idle_ns + int(chosen.sum()))
    return found
