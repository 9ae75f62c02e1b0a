"""When a stage worked, and what it waited for."""

from __future__ import annotations

import pytest

from realtime_engine.core.streaming.timings import Hold, StageRecord, StreamingStageTiming


def note(
    record: StageRecord, seq: int, times: tuple[float, float, float, float], hold: int = 0, missing: int = 0
) -> None:
    ready, admitted, begun, completed = times
    record.ready(seq, ready)
    record.admitted(seq, admitted, hold, missing)
    record.begun(seq, begun)
    record.completed(seq, completed)


def test_what_has_not_happened_is_none() -> None:
    record = StageRecord(4)
    note(record, 0, (1.0, 2.0, 3.0, 4.0))
    record.ready(1, 5.0)
    assert record.timings("a") == (
        StreamingStageTiming("a", 0, 1.0, 2.0, 4.0, 3.0),
        StreamingStageTiming("a", 1, 5.0),
    )
    assert record.idle_intervals("a", ("x",)) == ()


def test_the_newest_are_kept() -> None:
    record = StageRecord(4)
    for seq in range(10):
        note(record, seq, (seq, seq, seq, seq + 0.5))
    assert [timing.sequence_id for timing in record.timings("a")] == [6, 7, 8, 9]
    assert [(i.previous_sequence_id, i.sequence_id) for i in record.idle_intervals("a", ())] == [(6, 7), (7, 8), (8, 9)]


def test_a_row_is_of_one_sequence() -> None:
    """More wait at the stage than the record keeps, and they come out of order."""
    record = StageRecord(2)
    for seq in range(5):
        record.ready(seq, 1.0 + seq)
    record.admitted(0, 10.0, 0, 0)
    record.begun(1, 11.0)
    record.completed(0, 12.0)
    assert record.timings("a") == (StreamingStageTiming("a", 3, 4.0), StreamingStageTiming("a", 4, 5.0))
    record.ready(7, 8.0)  # overtakes 6, in whose row 3 still is
    assert record.timings("a") == (StreamingStageTiming("a", 7, 8.0),)
    record.ready(6, 9.0)
    record.ready(1, 9.5)
    assert [timing.sequence_id for timing in record.timings("a")] == [6, 7]


@pytest.mark.parametrize(
    ("times", "hold", "missing", "reason"),
    [
        ((9.0, 10.0005, 10.1, 11.0), Hold.STAGE_CAPACITY, 0, "continuous"),
        ((9.0, 9.5, 9.5, 11.0), Hold.SCHEDULER_ADMISSION, 0, "continuous"),  # they overlap
        ((13.0, 13.0, 13.0, 14.0), Hold.SCHEDULER_ADMISSION, 0b10, "y"),
        ((13.0, 13.0, 13.0, 14.0), Hold.SCHEDULER_ADMISSION, 0b11, "x+y"),
        ((13.0, 13.0, 13.0, 14.0), Hold.SCHEDULER_ADMISSION, 0, "inputs_not_ready"),
        ((9.0, 12.0, 12.0, 14.0), Hold.EDGE_CAPACITY, 0, "edge_capacity"),
        ((10.1, 12.0, 12.0, 14.0), Hold.RESOURCE_GROUP, 0b01, "resource_group"),
        ((9.0, 12.0, 12.0, 14.0), Hold.STAGE_CAPACITY, 0, "stage_capacity"),
        ((9.0, 12.0, 12.0, 14.0), Hold.SCHEDULER_ADMISSION, 0, "scheduler_admission"),
    ],
)
def test_why_a_stage_was_idle(times: tuple[float, float, float, float], hold: int, missing: int, reason: str) -> None:
    record = StageRecord(4)
    note(record, 0, (0.0, 0.0, 0.0, 10.0))
    note(record, 1, times, hold, missing)
    (interval,) = record.idle_intervals("a", ("x", "y"))
    assert interval.reason == reason
    assert interval.idle_seconds == pytest.approx(max(0.0, times[1] - 10.0))
