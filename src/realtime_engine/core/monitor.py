"""Counters of a serve loop: written by the loop's thread without a lock, readable from any thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from .outbox import Outbox
from .statistics import RollingWindow, WindowSnapshot

__all__ = [
    "IdleTotal",
    "PipelineMonitor",
    "PipelineSnapshot",
    "ServeMonitor",
    "ServeSnapshot",
    "StageSnapshot",
    "StageSpan",
]


class IdleTotal(NamedTuple):
    """Idle intervals of one reason: how many, and their sum in nanoseconds."""

    intervals: int
    idle_ns: int


@dataclass(frozen=True)
class StageSnapshot:
    """A stage of a stage graph.

    Attributes:
        admitted, completed, failed: chunks handed to the stage, and what came of them.
        waiting: chunks whose inputs are ready and that are not admitted yet.
        in_flight: chunks admitted and not completed.
        queue: from the inputs being ready to the admission.
        mailbox: from the admission to the begin of the work.
        run: from the begin to the completion.
        idle: reason -> intervals in which the stage had nothing of a session between two of its chunks.
    """

    admitted: int
    completed: int
    failed: int
    waiting: int
    in_flight: int
    queue: WindowSnapshot
    mailbox: WindowSnapshot
    run: WindowSnapshot
    idle: Mapping[str, IdleTotal]


@dataclass(frozen=True)
class PipelineSnapshot:
    """A stage graph, over all sessions or for one of them.

    Attributes:
        stages: stage id -> its figures, sources before targets.
        first_output: from the acceptance of a session's first inputs to its first output.
        control_to_output: from a new value of a control to the first output made with it.
        chunk_period: between two chunks of a session.
        real_time_factor: p95 of ``chunk_period`` over the media duration of a chunk; ``None`` before the second chunk.
    """

    stages: Mapping[str, StageSnapshot]
    first_output: WindowSnapshot
    control_to_output: WindowSnapshot
    chunk_period: WindowSnapshot
    real_time_factor: float | None


class StageSpan(NamedTuple):
    """One chunk at one stage, in monotonic nanoseconds; ``None`` for what has not happened.

    ``epoch`` and ``seq`` are those of the :class:`~realtime_engine.core.messages.Chunk`.
    """

    stage: str
    epoch: int
    seq: int
    ready_ns: int
    admitted_ns: int | None
    begun_ns: int | None
    completed_ns: int | None


class PipelineMonitor(Protocol):
    """The stage statistics of an engine that serves a stage graph. All methods from any thread."""

    def snapshot(self) -> PipelineSnapshot:
        """All sessions since serving began, ended ones included."""

    def session_snapshot(self, session_id: str) -> PipelineSnapshot | None:
        """The newest chunks of one session; ``None`` for one that is not attached."""

    def session_spans(self, session_id: str, since_ns: int) -> Sequence[StageSpan]:
        """The stages' work for a session whose inputs were ready at ``since_ns`` or later, as far as it is kept."""


@dataclass(frozen=True)
class ServeSnapshot:
    """A reading of a serve loop.

    In an engine that serves a stage graph, a tick is a request for one chunk of one session, and a step is a call of a
    stage for one chunk.

    Attributes:
        ticks: rounds of the loop that stepped the engine.
        overruns: deadlines that had passed when the tick before them ended.
        steps: calls of ``engine.step``, including those that search for the session that failed.
        chunks: chunks put into the outbox.
        rejected: messages and sessions refused.
        failed: :class:`Failed` events, fatal ones included.
        foreign: results discarded because their session is not attached, paused or finished.
        step: how long the engine took for a tick; in a stage graph, for a chunk.
        input_to_step: from an Action's arrival in the inbox to the begin of the step that it shapes.
        dropped: session id -> chunks that the outbox dropped.
        pipeline: the stage graph; ``None`` when the engine has none.
    """

    ticks: int
    overruns: int
    steps: int
    chunks: int
    rejected: int
    failed: int
    foreign: int
    step: WindowSnapshot
    input_to_step: WindowSnapshot
    dropped: Mapping[str, int]
    pipeline: PipelineSnapshot | None = None


@dataclass
class ServeMonitor:
    """Pass one to ``run_engine`` or ``default_serve`` and read it from any thread with :meth:`snapshot`.

    Attributes:
        outbox: set by the loop.
        pipeline: set by an engine that serves a stage graph.
    """

    ticks: int = 0
    overruns: int = 0
    steps: int = 0
    chunks: int = 0
    rejected: int = 0
    failed: int = 0
    foreign: int = 0
    step: RollingWindow = field(default_factory=RollingWindow)
    input_to_step: RollingWindow = field(default_factory=RollingWindow)
    outbox: Outbox | None = None
    pipeline: PipelineMonitor | None = None

    def snapshot(self) -> ServeSnapshot:
        """The counters now."""
        pipeline = None if self.pipeline is None else self.pipeline.snapshot()
        stage_calls = 0 if pipeline is None else sum(stage.admitted for stage in pipeline.stages.values())
        return ServeSnapshot(
            ticks=self.ticks,
            overruns=self.overruns,
            steps=self.steps + stage_calls,
            chunks=self.chunks,
            rejected=self.rejected,
            failed=self.failed,
            foreign=self.foreign,
            step=self.step.snapshot(),
            input_to_step=self.input_to_step.snapshot(),
            dropped=self.outbox.statistics().dropped if self.outbox is not None else {},
            pipeline=pipeline,
        )
