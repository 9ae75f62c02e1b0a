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
        """``{"stage", "values"}`` of each stage and of the whole pipeline; a name ends with the unit of its value.

        Only what fits on the page beside the picture; ``GET /metrics`` has all figures.
        """
        pipeline = self._monitor.pipeline
        snapshot = None if pipeline is None else pipeline.session_snapshot(self._session_id)
        return [] if snapshot is None else _statistics(snapshot)


def _statistics(pipeline: PipelineSnapshot) -> list[dict[str, Any]]:
    factor = pipeline.real_time_factor
    whole: NamedValues = {
        "chunk_period_p95_ms": _quantile_ms(pipeline.chunk_period, 0.95),
        "control_to_output_p95_ms": _quantile_ms(pipeline.control_to_output, 0.95),
        "first_output_ms": _quantile_ms(pipeline.first_output, 1.0),
        "real_time_factor": None if factor is None else round(factor, 3),
    }
    stages = [{"stage": stage_id, "values": _values(stage)} for stage_id, stage in pipeline.stages.items()]
    return [*stages, {"stage": "pipeline", "values": whole}]


def _values(stage: StageSnapshot) -> NamedValues:
    longest = max(stage.idle.items(), key=lambda item: item[1].idle_ns, default=None)
    return {
        "run_p50_ms": _quantile_ms(stage.run, 0.5),
        "run_p95_ms": _quantile_ms(stage.run, 0.95),
        "queue_p95_ms": _quantile_ms(stage.queue, 0.95),
        "waiting": stage.waiting,
        "in_flight": stage.in_flight,
        "longest_idle_reason": None if longest is None else longest[0],
    }


def _quantile_ms(window: WindowSnapshot, share: float) -> float | None:
    return round(window.quantile_ns(share) / 1e6, 3) if window.count else None
