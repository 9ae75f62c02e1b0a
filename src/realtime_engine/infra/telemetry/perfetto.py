"""Exports the frames of sessions in the Chrome Trace Event Format, which ui.perfetto.dev opens.

Each stage has its own track. If two frames are in one stage at the same time, the later one is drawn on a further
track. Flow arrows connect an input to the stages of the first frame that shows it, up to its presentation, and likewise
the stages of every other frame from its step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ...core.monitor import StageSpan
from .timing import PATH, FrameRecord, LatencyStage, Milestone

_FLOWS = 1 << 20  # flow ids reserved for a session
_SHARED = PATH[: [stage.name for stage in PATH].index("send")]  # stages shared by the viewers of one encode
_LANES = 64  # track ids reserved for a stage
_MIN_US = 1.0  # minimum length of a slice, so that flows can bind to it

Event = dict[str, Any]
_NO_SPANS: Mapping[str, Iterable[StageSpan]] = MappingProxyType({})


def chrome_trace(records: Iterable[FrameRecord], title: str) -> dict[str, Any]:
    """The trace of one session.

    Args:
        records: frames in any order. Stages with an unknown time are left out.
        title: name of the session.

    Returns:
        A JSON object with ``traceEvents``. Times are microseconds of the server's monotonic clock.
    """
    return chrome_traces({title: records})


def chrome_traces(
    sessions: Mapping[str, Iterable[FrameRecord]], spans: Mapping[str, Iterable[StageSpan]] = _NO_SPANS
) -> dict[str, Any]:
    """The trace of several sessions; see :func:`chrome_trace`.

    Args:
        sessions: name of each session -> its frames.
        spans: name of a session -> the work of the model's stages for it, where the engine serves a stage graph.
    """
    names: list[Event] = []
    drawn: list[Event] = []
    process = 1
    for index, (title, records) in enumerate(sessions.items()):
        session = _SessionTrace(title, process)
        for number, record in enumerate(sorted(records, key=_begin_ns), 1 + index * _FLOWS):
            session.draw(record, number)
        session.draw_stages(spans.get(title, ()))
        names += session.names
        drawn += session.events
        process = session.next_process
    return {"displayTimeUnit": "ms", "traceEvents": names + sorted(drawn, key=lambda event: event["ts"])}


def _begin_ns(record: FrameRecord) -> int:
    return record.times[Milestone.STEP_BEGIN] or 0


class _SessionTrace:
    """The events of one session. Its first process holds the stages of the server, the others those of the viewers."""

    def __init__(self, title: str, server: int) -> None:
        self._title = title
        self._server = server
        self._processes: dict[tuple[str, str | None], int] = {}
        self._tracks: dict[tuple[int, int], list[float]] = {}  # process, stage -> end of the last slice of each lane
        self._drawn: dict[tuple[object, ...], Event] = {}
        self._has_stages = False
        self.names: list[Event] = [_name("process_name", server, 0, f"{title}: server")]
        self.events: list[Event] = []

    @property
    def next_process(self) -> int:
        return self._server + 1 + len(self._processes) + self._has_stages

    def draw(self, record: FrameRecord, number: int) -> None:
        slices = [self._slice(record, stage) for stage in PATH if record.span(stage)]
        for index, drawn in enumerate(slices if len(slices) > 1 else ()):
            phase = "s" if index == 0 else "f" if index == len(slices) - 1 else "t"
            flow = {key: drawn[key] for key in ("pid", "tid", "ts")}
            flow |= {"ph": phase, "id": number, "name": "input" if record.is_answer else "frame", "cat": "flow"}
            self.events.append(flow | {"bp": "e"} if phase == "f" else flow)

    def _slice(self, record: FrameRecord, stage: LatencyStage) -> Event:
        """The slice of one stage of a frame. Viewers of one encode share the slices of the server."""
        span = record.span(stage)
        assert span is not None
        identity = record.id
        frame = (identity.epoch, identity.seq, identity.frame_index)
        process = self._server if stage in _SHARED else self._process(record)
        known = (process, stage.name, *frame, *span)
        if known not in self._drawn:
            begin_us, duration_us = span[0] / 1e3, max((span[1] - span[0]) / 1e3, _MIN_US)
            label = f"{stage.name} {identity.seq}" + (f".{identity.frame_index}" if identity.frame_index else "")
            args: dict[str, Any] = {"epoch": identity.epoch, "seq": identity.seq, "index": identity.frame_index}
            args |= {"action": identity.action_id, "uncertainty_ms": record.uncertainty_ns / 1e6}
            track = self._track(process, PATH.index(stage), stage.name, begin_us, duration_us)
            drawn: Event = {"ph": "X", "pid": process, "tid": track, "ts": begin_us}
            drawn |= {"dur": duration_us, "name": label, "cat": stage.name, "args": args}
            self._drawn[known] = drawn
            self.events.append(drawn)
        return self._drawn[known]

    def draw_stages(self, spans: Iterable[StageSpan]) -> None:
        """A process for the stages of the model, each with a track of chunks that wait for it and one of its work."""
        process = self.next_process
        rows: dict[str, int] = {}
        for span in sorted(spans, key=lambda span: span.ready_ns):
            if not self._has_stages:
                self._has_stages = True
                self.names.append(_name("process_name", process, 0, f"{self._title}: stages of the model"))
            begun_ns = span.admitted_ns if span.begun_ns is None else span.begun_ns
            self._draw_phase(process, rows, span, f"{span.stage}: wait", span.ready_ns, begun_ns)
            self._draw_phase(process, rows, span, span.stage, begun_ns, span.completed_ns)

    def _draw_phase(
        self, process: int, rows: dict[str, int], span: StageSpan, name: str, begin_ns: int | None, end_ns: int | None
    ) -> None:
        row = rows.setdefault(name, len(rows))
        if begin_ns is None or end_ns is None:
            return
        begin_us, duration_us = begin_ns / 1e3, max((end_ns - begin_ns) / 1e3, _MIN_US)
        track = self._track(process, row, name, begin_us, duration_us)
        event: Event = {"ph": "X", "pid": process, "tid": track, "ts": begin_us, "dur": duration_us}
        event |= {"name": f"{name} {span.seq}", "cat": "stage", "args": {"epoch": span.epoch, "seq": span.seq}}
        self.events.append(event)

    def _process(self, record: FrameRecord) -> int:
        key = (record.transport, record.viewer)
        if key not in self._processes:
            process = self._processes[key] = self.next_process
            name = f"viewer by {record.transport}" + (f" {record.viewer}" if record.viewer else "")
            self.names.append(_name("process_name", process, 0, name))
        return self._processes[key]

    def _track(self, process: int, row: int, name: str, begin_us: float, duration_us: float) -> int:
        """The first free track of a row; more than 64 concurrent slices share the last one."""
        ends = self._tracks.setdefault((process, row), [])
        free = (lane for lane, end in enumerate(ends) if end <= begin_us or lane == _LANES - 1)
        lane = next(free, len(ends))
        thread = row * _LANES + lane + 1
        if lane == len(ends):
            ends.append(0.0)
            self.names.append(_name("thread_name", process, thread, name))
            order = {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": thread}
            self.names.append(order | {"args": {"sort_index": thread}})
        ends[lane] = max(ends[lane], begin_us + duration_us)
        return thread


def _name(kind: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}
