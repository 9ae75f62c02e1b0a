from __future__ import annotations

from realtime_engine.infra.frame import FrameId
from realtime_engine.infra.telemetry.timing import PATH, STAGES, FrameRecord, Milestone, StageTimes


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
