from __future__ import annotations

import dataclasses
import threading

from realtime_engine import Chunk, Outbox, ServeMonitor, ServeSnapshot


def test_a_snapshot_has_every_counter():
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
