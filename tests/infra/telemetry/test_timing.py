from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.infra.frame import FrameId
from realtime_engine.infra.telemetry.timing import PATH, STAGES, FrameRecord, Milestone, RollingWindow, StageTimes


def nearest_rank(values: list[int], share: int) -> int:
    return sorted(values)[math.ceil(share * len(values) / 100) - 1]


@given(st.lists(st.integers(-5, 10**12), max_size=40), st.integers(1, 16))
def test_a_window_is_what_the_newest_values_are(values: list[int], size: int) -> None:
    window = RollingWindow(size)
    for value in values:
        window.record(value)
    read, all_of_them = window.snapshot(), [max(value, 0) for value in values]
    assert (read.count, read.sum_ns) == (len(values), sum(all_of_them))
    if values:
        kept = all_of_them[-size:]
        assert (read.min_ns, read.max_ns, read.mean_ns) == (min(kept), max(kept), sum(kept) / len(kept))
        quantiles = (read.p50_ns, read.p90_ns, read.p95_ns, read.p99_ns)
        assert quantiles == tuple(nearest_rank(kept, share) for share in (50, 90, 95, 99))


def test_an_empty_window_reads_as_zeros() -> None:
    assert set(vars(RollingWindow().snapshot()).values()) == {0}


def test_a_window_has_a_size() -> None:
    with pytest.raises(ValueError, match="size must be 1 or more, got 0"):
        RollingWindow(0)


def test_the_path_has_neither_gap_nor_overlap() -> None:
    assert [stage.begin for stage in PATH] == list(Milestone)[:-1]
    assert [stage.end for stage in PATH] == list(Milestone)[1:]


def record_at(*times: int | None, is_answer: bool = True, knows_uplink: bool = True) -> FrameRecord:
    return FrameRecord(FrameId("s", 1, 0, 0), "webrtc", "v", [*times], is_answer, knows_uplink)


def test_stages_sum_up_to_the_whole() -> None:
    durations = dict(record_at(*(n * n for n in range(11))).durations())
    assert list(durations) == [stage.name for stage in STAGES]
    assert sum(durations[stage.name] for stage in PATH) == durations["key_to_pixel"] == 100
    assert durations["input_to_pixel"] == 99 and durations["step_to_pixel"] == 96 and durations["delivery"] == 64


def test_what_is_not_known_is_not_counted() -> None:
    times = [None, 1, 2, 3, 4, 5, 6, None, None, None, 10]
    assert dict(record_at(*times).durations()) == {
        "input_wait": 1,
        "step": 1,
        "emit": 1,
        "pace": 1,
        "encode": 1,
        "delivery": 4,
        "step_to_pixel": 8,
        "input_to_pixel": 9,
    }


def test_only_the_first_frame_of_an_input_counts_for_it() -> None:
    times = range(11)
    assert {"input_wait", "uplink", "input_to_pixel", "key_to_pixel"}.isdisjoint(
        dict(record_at(*times, is_answer=False).durations())
    )
    assert "uplink" not in dict(record_at(*times, knows_uplink=False).durations())


def test_transports_are_told_apart() -> None:
    times = StageTimes(4)
    times.record("webrtc", record_at(*range(11)).durations())
    times.record("mjpeg", record_at(*range(0, 22, 2)).durations())
    assert times.transports() == ["mjpeg", "webrtc"]
    assert times.snapshot("webrtc")["step"].p50_ns == 1 and times.snapshot("mjpeg")["step"].p50_ns == 2
    assert list(times.snapshot("mjpeg")) == [stage.name for stage in STAGES] and times.snapshot("carrier pigeon") == {}
