from __future__ import annotations

import sys
import time

import pytest

from realtime_engine.core.messages import Stamps
from realtime_engine.infra.frame import FrameId
from realtime_engine.infra.telemetry.frame_latency import FrameLatencyTracker, FrameTotals, PageClock, PresentedFrame
from realtime_engine.infra.telemetry.otel import SpanSender
from realtime_engine.infra.telemetry.timing import FrameRecord, Milestone
from realtime_engine.testing import ManualClock

MS = 1_000_000
FRAME = FrameId(
    "alice", 2, 7, 0, 12, Stamps(action_received=1 * MS, step_begin=2 * MS, step_end=5 * MS, emitted=6 * MS)
)


@pytest.fixture
def exported():
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    yield provider, memory
    provider.shutdown()


def record() -> FrameRecord:
    made = FrameRecord(FRAME, "webrtc", "desk", is_answer=True)
    for milestone, ms in zip(Milestone, (None, 1, 2, 5, 6, 8, 9, 10, 12, 13, 15), strict=True):
        made.times[milestone] = None if ms is None else ms * MS
    return made


def test_a_frame_is_a_span_with_one_for_each_stage(exported) -> None:
    provider, memory = exported
    before_ns = time.time_ns() - time.monotonic_ns()
    SpanSender(provider).send(record())
    *stages, frame = memory.get_finished_spans()
    assert [span.name for span in stages] == [
        *("input_wait", "step", "emit", "pace", "encode", "send", "network", "decode", "present")
    ]
    assert {span.parent.span_id for span in stages} == {frame.context.span_id}
    assert (frame.end_time - frame.start_time, stages[1].end_time - stages[1].start_time) == (14 * MS, 3 * MS)
    assert [later.start_time for later in stages[1:]] == [sooner.end_time for sooner in stages[:-1]]
    assert abs(frame.start_time - before_ns - 1 * MS) < 1_000 * MS, "the wall clock's time"
    assert frame.attributes["realtime_engine.seq"] == 7
    assert frame.attributes["realtime_engine.transport"] == "webrtc"


def test_a_frame_of_one_moment_is_no_span(exported) -> None:
    provider, memory = exported
    SpanSender(provider).send(FrameRecord(FRAME, "mjpeg", None))
    assert memory.get_finished_spans() == ()


def test_each_joined_frame_is_sent(exported) -> None:
    provider, memory = exported
    clock = ManualClock(start_ns=20 * MS)
    joiner = FrameLatencyTracker(FrameTotals(on_joined=SpanSender(provider).send), clock)
    joiner.sent("desk", "webrtc", FRAME, paced_ns=8 * MS, encoded_ns=9 * MS, sent_ns=10 * MS)
    told = [PresentedFrame((2, 7, 0), None, None, 15.0), PresentedFrame((2, 99, 0), None, None, 15.0)]
    joiner.presented("desk", told, PageClock(0.0, 0.5))
    assert [span.name for span in memory.get_finished_spans()].count("frame") == 1


def test_the_provider_of_the_process_is_used(exported, monkeypatch) -> None:
    from opentelemetry import trace

    provider, memory = exported
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    SpanSender.exporting().send(record())
    assert memory.get_finished_spans()


def test_without_opentelemetry_it_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    for make in (SpanSender, SpanSender.exporting):
        with pytest.raises(ImportError, match=r"realtime-engine\[otel\]"):
            make()
