"""The work of the model's stages for one session: spans for traces, and statistics as the page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ...core.monitor import PipelineSnapshot, ServeMonitor, StageSnapshot, StageSpan
from ...core.statistics import WindowSnapshot

NamedValues: TypeAlias = dict[str, float | str | None]


class SessionStages:
    """The stages of a session; it has none unless the engine serves a stage graph.

    Args:
        monitor: counters of the engine.
        session_id: the session.
    """

    def __init__(self, monitor: ServeMonitor, session_id: str) -> None:
        self._monitor = monitor
        self._session_id = session_id

    def spans(self, since_ns: int) -> Sequence[StageSpan]:
        """The work of the stages since ``since_ns``, in monotonic nanoseconds."""
        pipeline = self._monitor.pipeline
        return () if pipeline is None else pipeline.session_spans(self._session_id, since_ns)

    def statistics(self) -> list[dict[str, Any]]:
        """``{"stage", "values"}`` of each stage and of the whole pipeline; a name ends with the unit of its value."""
        pipeline = self._monitor.pipeline
        snapshot = None if pipeline is None else pipeline.session_snapshot(self._session_id)
        return [] if snapshot is None else _statistics(snapshot)


def _statistics(pipeline: PipelineSnapshot) -> list[dict[str, Any]]:
    whole: NamedValues = {
        **_quantiles("chunk_period", pipeline.chunk_period),
        **_quantiles("control_to_output", pipeline.control_to_output),
        "first_output_ms": _ms(pipeline.first_output.max_ns) if pipeline.first_output.count else None,
        "real_time_factor": None if pipeline.real_time_factor is None else round(pipeline.real_time_factor, 3),
    }
    stages = [{"stage": stage_id, "values": _values(stage)} for stage_id, stage in pipeline.stages.items()]
    return [*stages, {"stage": "pipeline", "values": whole}]


def _values(stage: StageSnapshot) -> NamedValues:
    longest = max(stage.idle.items(), key=lambda item: item[1].idle_ns, default=None)
    return {
        **_quantiles("run", stage.run),
        **_quantiles("queue", stage.queue),
        **_quantiles("mailbox", stage.mailbox),
        "completed": stage.completed,
        "waiting": stage.waiting,
        "in_flight": stage.in_flight,
        "idle_ms": _ms(sum(total.idle_ns for total in stage.idle.values())),
        "longest_idle_reason": None if longest is None else longest[0],
    }


def _quantiles(name: str, window: WindowSnapshot) -> NamedValues:
    if not window.count:
        return {f"{name}_p50_ms": None, f"{name}_p95_ms": None}
    return {f"{name}_p50_ms": _ms(window.p50_ns), f"{name}_p95_ms": _ms(window.p95_ns)}


def _ms(duration_ns: float) -> float:
    return round(duration_ns / 1e6, 3)
