from __future__ import annotations

import dataclasses
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine import Chunk, Outbox, ServeMonitor, ServeSnapshot
from realtime_engine.core.monitor import Histogram


def test_a_snapshot_has_what_was_promised():
    names = {field.name for field in dataclasses.fields(ServeSnapshot)}
    promised = {"ticks", "overruns", "steps", "chunks", "dropped", "rejected", "failed", "step", "input_to_step"}
    assert promised <= names


def test_a_new_monitor_reads_zero():
    snapshot = ServeMonitor().snapshot()
    assert (snapshot.ticks, snapshot.chunks, snapshot.step.count, dict(snapshot.dropped)) == (0, 0, 0, {})


def test_a_snapshot_does_not_change_with_the_monitor():
    monitor = ServeMonitor()
    before = monitor.snapshot()
    monitor.ticks += 1
    monitor.step.record(5)
    assert (before.ticks, before.step.count) == (0, 0)
    assert (monitor.snapshot().ticks, monitor.snapshot().step.count) == (1, 1)


def test_drops_come_from_the_outbox_for_each_session():
    monitor = ServeMonitor(outbox=Outbox(maxsize=1))
    monitor.outbox.put_many([Chunk("slow", n) for n in range(4)] + [Chunk("quick", 0)])
    assert monitor.snapshot().dropped == {"slow": 3}


def test_an_empty_histogram():
    snapshot = Histogram().snapshot()
    assert (snapshot.count, snapshot.mean_ns, snapshot.quantile_ns(0.5), snapshot.max_ns) == (0, 0.0, 0, 0)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_between_nought_and_one(share):
    with pytest.raises(ValueError, match="share"):
        Histogram().snapshot().quantile_ns(share)


def test_negative_durations_count_as_nothing():
    histogram = Histogram()
    histogram.record(-5)
    assert histogram.snapshot().count == 1
    assert histogram.snapshot().sum_ns == 0


def test_a_duration_beyond_all_measure_is_counted():
    histogram = Histogram()
    histogram.record(2**200)
    assert histogram.snapshot().count == 1
    assert histogram.snapshot().quantile_ns(1.0) <= 2**200


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=200), st.sampled_from([0.0, 0.1, 0.5, 0.95, 0.99, 1.0]))
def test_quantiles_are_at_most_a_quarter_above_the_true_ones(durations, share):
    histogram = Histogram()
    for duration in durations:
        histogram.record(duration)
    snapshot = histogram.snapshot()
    rank = max(-(-share * len(durations) // 1), 1)
    true = sorted(durations)[int(rank) - 1]
    assert true <= snapshot.quantile_ns(share) <= true * 1.25 + 1
    assert snapshot.mean_ns == pytest.approx(sum(durations) / len(durations))
    assert snapshot.max_ns == max(durations)


def test_snapshots_may_be_taken_while_another_thread_records():
    monitor, stop = ServeMonitor(), threading.Event()

    def record() -> None:
        while not stop.is_set():
            monitor.step.record(7)
            monitor.steps += 1

    recorder = threading.Thread(target=record)
    recorder.start()
    try:
        counts = [monitor.snapshot().step.count for _ in range(300)]
    finally:
        stop.set()
        recorder.join()
    assert counts == sorted(counts)
    assert monitor.snapshot().step.count == monitor.steps
