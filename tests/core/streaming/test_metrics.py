"""Windows, summaries, and what a session's metrics count."""

from __future__ import annotations

import math
import statistics

import pytest

from realtime_engine.core.clock import NS_PER_S
from realtime_engine.core.monitor import IdleTotal
from realtime_engine.core.streaming.metrics import (
    PipelineTotals,
    SessionRecord,
    StageRecord,
    StageStatistics,
    StreamingLatencySummary,
    StreamingStageTiming,
    WaitReason,
)


def ns(seconds: float) -> int:
    return round(seconds * NS_PER_S)


def new_record(window: int) -> SessionRecord:
    return SessionRecord(window, PipelineTotals())


def test_a_summary_is_what_the_definitions_say() -> None:
    seconds = [0.5, 0.1, 0.4, 0.2, 0.9]
    summary = StreamingLatencySummary.of(seconds)
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    assert summary.count == 5 and summary.minimum_seconds == 0.1 and summary.maximum_seconds == 0.9
    assert summary.p50_seconds == statistics.median(seconds)
    assert summary.p95_seconds == pytest.approx(cuts[18])
    assert summary.mean_seconds == pytest.approx(statistics.mean(seconds))
    assert StreamingLatencySummary.of([]) == StreamingLatencySummary(0, None, None, None, None, None)
    assert StreamingLatencySummary.of([2.0]).p95_seconds == 2.0


def test_a_session_without_controls() -> None:
    record = new_record(8)
    for sequence_id, (accepted, emitted) in enumerate([(0.0, 1.0), (0.5, 1.5), (1.0, 3.0)]):
        record.on_accepted(ns(accepted))
        if sequence_id == 0:
            record.on_first_output(ns(emitted))
        record.on_chunk(sequence_id, ns(emitted), None)
    metrics = record.snapshot()
    assert metrics.ingress_accepted_at == ((0, 0.0), (1, 0.5), (2, 1.0))
    assert metrics.output_emitted_at == ((0, 1.0), (1, 1.5), (2, 3.0))
    assert metrics.first_output_latency_seconds == 1.0
    assert metrics.control_to_output_latency.maximum_seconds == 2.0
    assert (metrics.chunk_period.minimum_seconds, metrics.chunk_period.maximum_seconds) == (0.5, 1.5)
    assert metrics.real_time_factor(2.0) == pytest.approx((0.5 + 0.95 * 1.0) / 2.0)
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="chunk_duration_s"):
            metrics.real_time_factor(wrong)


def test_a_control_counts_once_and_only_if_it_was_applied() -> None:
    record = new_record(8)
    applied = [{"steer": (version, ns(set_at))} for version, set_at in ((0, 0.0), (2, 5.0), (2, 5.0), (3, 7.0))]
    for sequence_id, controls in enumerate(applied):
        record.on_chunk(sequence_id, ns(10.0 + sequence_id), controls)
    latency = record.snapshot().control_to_output_latency
    assert (latency.count, latency.maximum_seconds, latency.minimum_seconds) == (2, 6.0, 6.0)


def test_an_empty_session_has_no_numbers() -> None:
    metrics = new_record(4).snapshot()
    assert metrics.first_output_latency_seconds is None and metrics.real_time_factor(1.0) is None
    assert metrics.ingress_accepted_at == () and metrics.chunk_period.count == 0


def test_a_window_that_is_narrower_than_the_pipeline_counts_what_it_knows() -> None:
    record = new_record(2)
    for sequence_id in range(4):
        record.on_accepted(ns(sequence_id))
    for sequence_id in range(4):
        if sequence_id == 0:
            record.on_first_output(ns(10.0))
        record.on_chunk(sequence_id, ns(10.0), None)
    metrics = record.snapshot()
    assert metrics.first_output_latency_seconds == 10.0
    assert (metrics.control_to_output_latency.count, metrics.control_to_output_latency.maximum_seconds) == (2, 8.0)


def note_times(
    record: StageRecord, seq: int, times: tuple[float, float, float, float], hold: int = 0, missing: int = 0
) -> None:
    ready, admitted, begun, completed = map(ns, times)
    record.ready(seq, ready)
    record.admitted(seq, admitted, hold, missing)
    record.begun(seq, begun)
    record.completed(seq, completed)


def test_what_has_not_happened_is_none() -> None:
    record = StageRecord(4)
    note_times(record, 0, (1.0, 2.0, 3.0, 4.0))
    record.ready(1, ns(5.0))
    assert record.timings("a") == (
        StreamingStageTiming("a", 0, 1.0, 2.0, 4.0, 3.0),
        StreamingStageTiming("a", 1, 5.0),
    )
    assert record.idle_intervals("a", ("x",)) == ()


def test_the_newest_are_kept() -> None:
    record = StageRecord(4)
    for seq in range(10):
        note_times(record, seq, (seq, seq, seq, seq + 0.5))
    assert [timing.sequence_id for timing in record.timings("a")] == [6, 7, 8, 9]
    assert [(i.previous_sequence_id, i.sequence_id) for i in record.idle_intervals("a", ())] == [(6, 7), (7, 8), (8, 9)]


def test_a_row_is_of_one_sequence() -> None:
    """More wait at the stage than the record keeps, and they come out of order."""
    record = StageRecord(2)
    for seq in range(5):
        record.ready(seq, ns(1.0 + seq))
    record.admitted(0, ns(10.0), 0, 0)
    record.begun(1, ns(11.0))
    record.completed(0, ns(12.0))
    assert record.timings("a") == (StreamingStageTiming("a", 3, 4.0), StreamingStageTiming("a", 4, 5.0))
    record.ready(7, ns(8.0))  # overtakes 6, in whose row 3 still is
    assert record.timings("a") == (StreamingStageTiming("a", 7, 8.0),)
    record.ready(6, ns(9.0))
    record.ready(1, ns(9.5))
    assert [timing.sequence_id for timing in record.timings("a")] == [6, 7]


@pytest.mark.parametrize(
    ("times", "hold", "missing", "reason"),
    [
        ((9.0, 10.0005, 10.1, 11.0), WaitReason.STAGE_CAPACITY, 0, "continuous"),
        ((9.0, 9.5, 9.5, 11.0), WaitReason.SCHEDULER_ADMISSION, 0, "continuous"),  # they overlap
        ((13.0, 13.0, 13.0, 14.0), WaitReason.SCHEDULER_ADMISSION, 0b10, "y"),
        ((13.0, 13.0, 13.0, 14.0), WaitReason.SCHEDULER_ADMISSION, 0b11, "x+y"),
        ((13.0, 13.0, 13.0, 14.0), WaitReason.SCHEDULER_ADMISSION, 0, "inputs_not_ready"),
        ((9.0, 12.0, 12.0, 14.0), WaitReason.EDGE_CAPACITY, 0, "edge_capacity"),
        ((10.1, 12.0, 12.0, 14.0), WaitReason.RESOURCE_GROUP, 0b01, "resource_group"),
        ((9.0, 12.0, 12.0, 14.0), WaitReason.STAGE_CAPACITY, 0, "stage_capacity"),
        ((9.0, 12.0, 12.0, 14.0), WaitReason.SCHEDULER_ADMISSION, 0, "scheduler_admission"),
    ],
)
def test_why_a_stage_was_idle(times: tuple[float, float, float, float], hold: int, missing: int, reason: str) -> None:
    record = StageRecord(4)
    note_times(record, 0, (0.0, 0.0, 0.0, 10.0))
    note_times(record, 1, times, hold, missing)
    (interval,) = record.idle_intervals("a", ("x", "y"))
    assert interval.reason == reason
    assert interval.idle_seconds == pytest.approx(max(0.0, times[1] - 10.0))


def completed(
    record: StageRecord,
    statistics: StageStatistics,
    seq: int,
    times: tuple[float, float, float, float],
    reason: int = 0,
) -> None:
    ready, admitted, begun, end = map(ns, times)
    record.ready(seq, ready)
    record.admitted(seq, admitted, reason, 0b01)
    record.begun(seq, begun)
    statistics.admitted += 1
    if statistics.add(record.completed(seq, end)):
        statistics.commit(statistics.evaluate())


def test_a_stage_sums_up_the_phases_and_idle_intervals_of_all_sessions() -> None:
    statistics, sessions = StageStatistics(), [StageRecord(4), StageRecord(4)]
    for record in sessions:
        completed(record, statistics, 0, (0.0, 1.0, 3.0, 6.0))
        completed(record, statistics, 1, (8.0, 8.0, 8.0, 9.0))  # waited for its input
        completed(record, statistics, 2, (8.5, 9.0, 9.0, 10.0))  # at once
        completed(record, statistics, 3, (9.0, 12.0, 12.0, 13.0), WaitReason.STAGE_CAPACITY)
    snapshot = statistics.snapshot(("x", "y"), waiting=2, in_flight=1)
    assert (snapshot.admitted, snapshot.completed, snapshot.failed) == (8, 8, 0)
    assert (snapshot.waiting, snapshot.in_flight) == (2, 1)
    assert [(w.count, w.sum_ns, w.peak_ns) for w in (snapshot.queue, snapshot.mailbox, snapshot.run)] == [
        (8, ns(9.0), ns(3.0)),
        (8, ns(4.0), ns(2.0)),
        (8, ns(12.0), ns(3.0)),
    ]
    assert snapshot.run.newest == tuple(ns(s) for s in (1, 1, 1, 1, 1, 1, 3, 3))
    assert snapshot.idle == {
        "continuous": IdleTotal(2, 0),
        "stage_capacity": IdleTotal(2, ns(4.0)),
        "x": IdleTotal(2, ns(4.0)),
    }


def test_a_stage_counts_everything_and_keeps_the_newest_512() -> None:
    statistics, record = StageStatistics(), StageRecord(4)
    for seq in range(2000):
        completed(record, statistics, seq, (2 * seq, 2 * seq, 2 * seq, 2 * seq + (seq >= 1500)))
        if seq in (100, 600, 1100):
            assert statistics.snapshot(("x",)).run.count == seq + 1
    run, idle = statistics.snapshot(("x",)).run, statistics.snapshot(("x",)).idle
    assert (run.count, run.sum_ns, run.peak_ns) == (2000, ns(500), ns(1.0))
    assert run.newest == (0,) * 12 + (ns(1.0),) * 500
    assert sum(total.intervals for total in idle.values()) == 1999


def test_rows_in_evaluation_are_counted_once_at_every_moment() -> None:
    statistics, record = StageStatistics(), StageRecord(4)
    full = 0
    for seq in range(1500):
        for note in (record.ready, record.begun):
            note(seq, ns(seq))
        full += statistics.add(record.completed(seq, ns(seq + 1)))
        assert statistics.snapshot(()).run.count == seq + 1
    assert full == 1, "the next batch is complete only after the first one is committed"
    statistics.commit(statistics.evaluate())
    assert statistics.snapshot(()).run.count == 1500


def test_an_artifact_with_the_name_of_a_wait_reason_shares_its_total() -> None:
    statistics, record = StageStatistics(), StageRecord(4)
    completed(record, statistics, 0, (0.0, 0.0, 0.0, 1.0))
    completed(record, statistics, 1, (5.0, 5.0, 5.0, 6.0))  # waited for its input
    completed(record, statistics, 2, (6.0, 9.0, 9.0, 10.0), WaitReason.STAGE_CAPACITY)
    assert statistics.snapshot(("stage_capacity",)).idle == {"stage_capacity": IdleTotal(2, ns(7.0))}


def test_a_sequence_whose_row_is_gone_is_only_counted() -> None:
    statistics, record = StageStatistics(), StageRecord(2)
    for seq in range(5):
        record.ready(seq, ns(seq))
    statistics.add(record.completed(0, ns(9.0)))
    snapshot = statistics.snapshot(())
    assert (snapshot.completed, snapshot.run.count, snapshot.idle) == (1, 0, {})


def test_an_actor_that_does_not_begin_has_no_mailbox_time() -> None:
    statistics, record = StageStatistics(), StageRecord(2)
    record.ready(0, ns(1.0))
    record.admitted(0, ns(2.0), 0, 0)
    statistics.add(record.completed(0, ns(5.0)))
    snapshot = statistics.snapshot(())
    assert (snapshot.mailbox.sum_ns, snapshot.run.sum_ns) == (0, ns(3.0))
