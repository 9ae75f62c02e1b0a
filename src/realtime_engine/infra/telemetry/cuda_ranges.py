"""What a model does with its time: named ranges on the host and on CUDA streams, and what each of them waited for.

Opt-in, for a model's own code::

    ranges = RangeRecorder()
    with ranges.host("tokenize") as tokens:
        ...
    with ranges.cuda("encode", torch, after=[tokens]):
        ...
    trace = {"traceEvents": range_events(ranges.collect(), "my model")}

On a CUDA stream a range is two events, which the device stamps when it gets there. They are read when they are done
and never waited for, so that nothing on the way of a chunk is synchronised; the one exception is
:meth:`RangeRecorder.calibrate`.
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
    """One range.

    Attributes:
        id: unique in its recorder.
        track: where it ran: the thread's name, or the CUDA stream.
        begin_ns, end_ns: in nanoseconds of the recorder's clock.
        after: ids of ranges that it depended on.
        metadata: what else was said of it.
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
    """Keeps the newest ranges, in bounded memory. All methods from any thread.

    Args:
        capacity: how many finished ranges are kept, and how many on the device may be unfinished; older ones are
            forgotten.
        clock: what host ranges are stamped by.

    Attributes:
        forgotten: ranges that nobody collected in time.
    """

    def __init__(self, capacity: int = 2048, clock: Clock = MONOTONIC) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be 1 or more, got {capacity!r}")
        self.forgotten = 0
        self._capacity = capacity
        self._clock = clock
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._finished: deque[TimedRange] = deque()
        self._pending: deque[_Pending] = deque()
        self._anchors: dict[Any, _Anchor] = {}

    @contextmanager
    def host(self, name: str, *, after: Iterable[int] = (), **metadata: Any) -> Iterator[int]:
        """A range on the calling thread; gives its id."""
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
        """A range on the current CUDA stream: from where the device gets to what is enqueued inside, to its end.

        Without a CUDA device it is a range of the host.
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
                    self.forgotten += 1

    def calibrate(self, torch: Any) -> None:
        """Find out when the current device's clock is what on the host's. Waits for the current stream: call it at the
        start, before what is timed; the first range of a device does so by itself.
        """
        stream = torch.cuda.current_stream()
        event = torch.cuda.Event(enable_timing=True)
        stream.synchronize()
        event.record(stream)
        event.synchronize()
        self._anchors[stream.device] = _Anchor(event, self._clock.now_ns())

    def collect(self) -> list[TimedRange]:
        """The finished ranges since the last call, oldest first. Those that the device has not finished come later."""
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
            self.forgotten += 1


def range_events(ranges: Iterable[TimedRange], process: str, pid: int = 1) -> list[dict[str, Any]]:
    """The ranges in the Trace Event Format, for ``traceEvents``: a track for each thread and stream, an arrow from each
    range to those that depended on it.

    Args:
        process: what its group of tracks is called.
        pid: number of that group, which other events of the same trace must not have.
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
