"""Named time ranges on the host and on CUDA streams, with their dependencies.

Optional, for the code of a model::

    ranges = RangeRecorder()
    with ranges.host("tokenize") as tokens:
        ...
    with ranges.cuda("encode", torch, after=[tokens]):
        ...
    trace = {"traceEvents": range_events(ranges.collect(), "my model")}

On a CUDA stream, a range is a pair of events with device timestamps. They are read once they are complete, without
synchronization; the only exception is :meth:`RangeRecorder.calibrate`.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...core.clock import MONOTONIC, Clock

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class TimedRange:
    """A finished range.

    Attributes:
        id: unique in its recorder.
        name: name of the range.
        track: name of the thread, or the CUDA stream.
        begin_ns, end_ns: nanoseconds of the recorder's clock.
        after: ids of the ranges that it depends on.
        metadata: further values given by the caller.
    """

    id: int
    name: str
    track: str
    begin_ns: int
    end_ns: int
    after: tuple[int, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Pending:
    id: int
    name: str
    track: str
    device: Any
    begin: Any
    end: Any
    after: tuple[int, ...]
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Anchor:
    event: Any
    at_ns: int


class RangeRecorder:
    """Records ranges in bounded memory. Thread-safe.

    Args:
        capacity: maximum number of finished ranges, and of unfinished ranges on the device. The oldest are dropped.
        clock: clock of host ranges.

    Attributes:
        dropped: ranges dropped before they were collected.

    Raises:
        ValueError: ``capacity`` is below 1.
    """

    def __init__(self, capacity: int = 2048, clock: Clock = MONOTONIC) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be 1 or more, got {capacity!r}")
        self.dropped = 0
        self._capacity = capacity
        self._clock = clock
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._finished: deque[TimedRange] = deque()
        self._pending: deque[_Pending] = deque()
        self._anchors: dict[Any, _Anchor] = {}

    @contextmanager
    def host(self, name: str, *, after: Iterable[int] = (), **metadata: Any) -> Iterator[int]:
        """Record a range on the calling thread; yields its id."""
        number, begin_ns = next(self._ids), self._clock.now_ns()
        try:
            yield number
        finally:
            track = threading.current_thread().name
            timed = TimedRange(number, name, track, begin_ns, self._clock.now_ns(), tuple(after), metadata)
            with self._lock:
                self._keep(timed)

    @contextmanager
    def cuda(self, name: str, torch: Any, *, after: Iterable[int] = (), **metadata: Any) -> Iterator[int]:
        """Record a range on the current CUDA stream: the execution of the work enqueued inside; yields its id.

        Without a CUDA device, this records a host range.
        """
        if not torch.cuda.is_available():
            with self.host(name, after=after, **metadata) as number:
                yield number
            return
        stream = torch.cuda.current_stream()
        if stream.device not in self._anchors:
            self.calibrate(torch)
        number, begin = next(self._ids), torch.cuda.Event(enable_timing=True)
        begin.record(stream)
        try:
            yield number
        finally:
            end = torch.cuda.Event(enable_timing=True)
            end.record(stream)
            track = f"{stream.device} stream {stream.cuda_stream:#x}"
            pending = _Pending(number, name, track, stream.device, begin, end, tuple(after), metadata)
            with self._lock:
                self._pending.append(pending)
                if len(self._pending) > self._capacity:
                    self._pending.popleft()
                    self.dropped += 1

    def calibrate(self, torch: Any) -> None:
        """Measure the offset between the clocks of host and current device.

        This synchronizes the current stream, so call it before the work to be timed. The first range on a device calls
        it implicitly.
        """
        stream = torch.cuda.current_stream()
        event = torch.cuda.Event(enable_timing=True)
        stream.synchronize()
        event.record(stream)
        event.synchronize()
        self._anchors[stream.device] = _Anchor(event, self._clock.now_ns())

    def collect(self) -> list[TimedRange]:
        """Return the ranges finished since the last call, oldest first. Unfinished ranges are kept for a later call."""
        with self._lock:
            unfinished: deque[_Pending] = deque()
            for pending in self._pending:
                if pending.end.query():
                    self._keep(self._timed(pending))
                else:
                    unfinished.append(pending)
            self._pending = unfinished
            collected, self._finished = self._finished, deque()
        return sorted(collected, key=lambda timed: (timed.begin_ns, timed.id))

    def _timed(self, pending: _Pending) -> TimedRange:
        anchor = self._anchors[pending.device]
        begin_ns = anchor.at_ns + round(anchor.event.elapsed_time(pending.begin) * _NS_PER_MS)
        end_ns = anchor.at_ns + round(anchor.event.elapsed_time(pending.end) * _NS_PER_MS)
        return TimedRange(pending.id, pending.name, pending.track, begin_ns, end_ns, pending.after, pending.metadata)

    def _keep(self, timed: TimedRange) -> None:
        self._finished.append(timed)
        if len(self._finished) > self._capacity:
            self._finished.popleft()
            self.dropped += 1


def range_events(ranges: Iterable[TimedRange], process: str, pid: int = 1) -> list[dict[str, Any]]:
    """The ranges as events of the Trace Event Format, with a track for each thread and stream.

    Flow arrows connect each range to those that depend on it.

    Args:
        ranges: the ranges.
        process: name of the group of tracks.
        pid: number of the group, unique in the trace.
    """
    known = {timed.id: timed for timed in ranges}
    tracks = {track: number for number, track in enumerate(dict.fromkeys(t.track for t in known.values()), 1)}
    events: list[dict[str, Any]] = [_name("process_name", pid, 0, process)]
    events += [_name("thread_name", pid, number, track) for track, number in tracks.items()]
    arrows = itertools.count(1)
    for timed in known.values():
        at = {"pid": pid, "tid": tracks[timed.track]}
        begin_us, duration_us = timed.begin_ns / 1e3, (timed.end_ns - timed.begin_ns) / 1e3
        args = {
            key: value if isinstance(value, (int, float, str, bool)) else str(value)
            for key, value in timed.metadata.items()
        }
        events.append({"ph": "X", "name": timed.name, "ts": begin_us, "dur": duration_us, "args": args} | at)
        for cause in (known[number] for number in timed.after if number in known):
            flow = {"name": "after", "cat": "flow", "id": f"{process}-{next(arrows)}"}
            events.append({"ph": "s", "ts": cause.end_ns / 1e3, "pid": pid, "tid": tracks[cause.track]} | flow)
            events.append({"ph": "f", "bp": "e", "ts": max(begin_us, cause.end_ns / 1e3)} | at | flow)
    return events


def _name(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}
