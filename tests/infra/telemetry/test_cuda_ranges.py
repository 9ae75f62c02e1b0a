from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from realtime_engine.infra.telemetry.cuda_ranges import RangeRecorder, range_events
from realtime_engine.testing import ManualClock

MS = 1_000_000


class Device:
    """A GPU that gets to its events when it is told to; waiting for it in the hot path is an error."""

    def __init__(self) -> None:
        self.now_ms = 100.0  # its own clock
        self.waits = 0
        self.behind = False
        device = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing
                self.at_ms: float | None = None

            def record(self, stream: Any) -> None:
                if device.behind:
                    device.unreached.append(self)
                else:
                    self.at_ms = device.now_ms

            def query(self) -> bool:
                return self.at_ms is not None

            def synchronize(self) -> None:
                device.waits += 1

            def elapsed_time(self, other: Event) -> float:
                assert self.at_ms is not None and other.at_ms is not None
                return other.at_ms - self.at_ms

        self.unreached: list[Event] = []
        stream = SimpleNamespace(device="cuda:0", cuda_stream=0x10, synchronize=lambda: None)
        self.torch = SimpleNamespace(
            cuda=SimpleNamespace(is_available=lambda: True, current_stream=lambda: stream, Event=Event)
        )

    def reach(self, *times_ms: float) -> None:
        for event, at_ms in zip(self.unreached, times_ms, strict=True):
            event.at_ms = at_ms
        self.unreached.clear()


def test_a_range_of_the_host_is_on_its_thread() -> None:
    clock = ManualClock(start_ns=5)
    ranges = RangeRecorder(clock=clock)
    with ranges.host("tokenize", words=7) as first:
        clock.advance(0.003)
    with pytest.raises(ValueError), ranges.host("fails", after=[first]):
        clock.advance(0.001)
        raise ValueError
    done, failed = ranges.collect()
    assert (done.name, done.begin_ns, done.end_ns, done.metadata) == ("tokenize", 5, 5 + 3 * MS, {"words": 7})
    assert done.track == threading.current_thread().name
    assert failed.after == (done.id,) and failed.end_ns - failed.begin_ns == MS
    assert ranges.collect() == []


def test_a_range_of_the_device_has_the_times_of_the_device_and_is_never_waited_for() -> None:
    clock, device = ManualClock(start_ns=50 * MS), Device()
    ranges = RangeRecorder(clock=clock)
    ranges.calibrate(device.torch)
    waited = device.waits
    device.behind = True
    with ranges.cuda("denoise", device.torch):
        clock.advance(1e-9)
    assert ranges.collect() == [], "the device is not there yet"
    device.reach(104.0, 109.5)
    (done,) = ranges.collect()
    assert (done.begin_ns, done.end_ns) == (54 * MS, round(59.5 * MS))
    assert done.track == "cuda:0 stream 0x10"
    assert device.waits == waited


def test_the_first_range_of_a_device_calibrates() -> None:
    device = Device()
    ranges = RangeRecorder()
    for _ in range(2):
        with ranges.cuda("denoise", device.torch):
            device.now_ms += 2
    assert device.waits == 1
    assert [done.end_ns - done.begin_ns for done in ranges.collect()] == [2 * MS, 2 * MS]


def test_without_a_device_it_is_a_range_of_the_host() -> None:
    clock = ManualClock()
    ranges = RangeRecorder(clock=clock)
    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    with ranges.cuda("denoise", torch, after=[9]):
        clock.advance(0.001)
    (done,) = ranges.collect()
    assert done.end_ns - done.begin_ns == MS and done.after == (9,)


def test_memory_is_bounded() -> None:
    device = Device()
    ranges = RangeRecorder(capacity=3)
    for _ in range(5):
        with ranges.host("a"):
            pass
    device.behind = False
    ranges.calibrate(device.torch)
    device.behind = True
    for _ in range(4):
        with ranges.cuda("b", device.torch):
            pass
    assert len(ranges._pending) == 3 and ranges.dropped == 3
    with pytest.raises(ValueError, match="capacity"):
        RangeRecorder(capacity=0)


def test_the_trace_has_a_track_for_each_place_and_an_arrow_for_each_dependency() -> None:
    clock, device = ManualClock(), Device()
    ranges = RangeRecorder(clock=clock)
    ranges.calibrate(device.torch)
    with ranges.host("tokenize", shape=(1, 2)) as tokens:
        clock.advance(0.002)
    device.now_ms += 5
    with ranges.cuda("encode", device.torch, after=[tokens, 999]):
        device.now_ms += 3
    events = json.loads(json.dumps(range_events(ranges.collect(), "my model", pid=4)))
    assert {event["pid"] for event in events} == {4}
    slices = {event["name"]: event for event in events if event["ph"] == "X"}
    assert slices["encode"]["ts"] == 5000 and slices["encode"]["dur"] == 3000
    assert slices["tokenize"]["args"] == {"shape": "(1, 2)"}
    (begin,), (end,) = ([event for event in events if event["ph"] == phase] for phase in "sf")
    assert begin["id"] == end["id"] and begin["ts"] == 2000 and end["ts"] == 5000
    assert (begin["tid"], end["tid"]) == (slices["tokenize"]["tid"], slices["encode"]["tid"])
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert {"my model", "cuda:0 stream 0x10"} <= names
