"""The frames of sessions as a trace in the JSON format of Chrome (Trace Event Format), which ui.perfetto.dev opens.

Each stage has a track of its own; where two frames are in one stage at once, the later one is drawn on a further track.
Arrows lead from an input through the stages of the first frame that shows it to its presentation, and likewise from the
step of every other frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ...core.monitor import StageSpan
from .timing import PATH, FrameRecord, Milestone, Stage

_FLOWS = 1 << 20  # numbers of arrows that are set aside for a session
_SHARED = PATH[: [stage.name for stage in PATH].index("send")]  # stages that viewers of one encode have in common
_LANES = 64  # numbers of tracks that are set aside for a stage
_MIN_US = 1.0  # what is shorter is drawn so long, or no arrow could begin or end there

Event = dict[str, Any]
_NO_SPANS: Mapping[str, Iterable[StageSpan]] = MappingProxyType({})


def chrome_trace(records: Iterable[FrameRecord], title: str) -> dict[str, Any]:
    """The trace of these frames.

    Args:
        records: in any order; stages of which a moment is missing are left out.
        title: what the session is called.

    Returns:
        An object for ``json.dumps``, with ``traceEvents``. Times are microseconds of the server's monotonic clock.
    """
    return chrome_traces({title: records})


def chrome_traces(
    sessions: Mapping[str, Iterable[FrameRecord]], spans: Mapping[str, Iterable[StageSpan]] = _NO_SPANS
) -> dict[str, Any]:
    """As :func:`chrome_trace`, of several sessions below one another.

    Args:
        sessions: title of each session -> its frames.
        spans: title of a session -> the work of the model's stages for it.
    """
    names: list[Event] = []
    drawn: list[Event] = []
    process = 1
    for index, (title, records) in enumerate(sessions.items()):
        board = _Board(title, process)
        for number, record in enumerate(sorted(records, key=_begin_ns), 1 + index * _FLOWS):
            board.draw(record, number)
        board.draw_stages(spans.get(title, ()))
        names += board.names
        drawn += board.events
        process = board.next_process
    return {"displayTimeUnit": "ms", "traceEvents": names + sorted(drawn, key=lambda event: event["ts"])}


def _begin_ns(record: FrameRecord) -> int:
    return record.times[Milestone.STEP_BEGIN] or 0


class _Board:
    """One session's. Its first process holds the stages of the server; viewers come after it."""

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

    def _slice(self, record: FrameRecord, stage: Stage) -> Event:
        """The slice of a stage of a frame; viewers of one encode share those of the server."""
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
        """The first free track of a row; more than 64 slices at once share the last."""
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
