from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.infra.frame import FrameId
from realtime_engine.infra.telemetry.perfetto import chrome_trace, chrome_traces
from realtime_engine.infra.telemetry.timing import FrameRecord

MS = 1_000_000
REQUIRED = {"M": {"name", "pid", "tid", "args"}, "X": {"name", "cat", "ts", "dur", "pid", "tid", "args"}}
FLOW = {"name", "cat", "ts", "pid", "tid", "id"}


def record(seq: int, *times_ms: float | None, viewer: str = "v", is_answer: bool = False) -> FrameRecord:
    """From STEP_BEGIN on; input 2 ms and press 3 ms before it."""
    begin = times_ms[0]
    assert begin is not None
    times = [None if ms is None else round(ms * MS) for ms in (begin - 3, begin - 2, *times_ms)]
    times += [None] * (11 - len(times))
    return FrameRecord(FrameId("s", 1, seq, 0, seq), "webrtc", viewer, times, is_answer, is_answer, 500_000)


def check(trace: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """What the format and its viewers ask for; returns the events by phase."""
    events = json.loads(json.dumps(trace, allow_nan=False))["traceEvents"]
    phases: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        phases[event["ph"]].append(event)
        assert REQUIRED.get(event["ph"], FLOW) <= set(event)
    stamps = [event["ts"] for event in events if event["ph"] != "M"]
    assert stamps == sorted(stamps)
    tracks = defaultdict(list)
    for drawn in phases["X"]:
        assert drawn["dur"] > 0
        tracks[drawn["pid"], drawn["tid"]].append((drawn["ts"], drawn["ts"] + drawn["dur"]))
    for spans in tracks.values():
        assert all(first[1] <= second[0] for first, second in zip(spans, spans[1:], strict=False)), "no overlap"
    names = {(event["pid"], event["tid"]) for event in phases["M"] if event["name"] == "thread_name"}
    assert names == set(tracks), "each track has a name"
    begun, ended = (Counter(event["id"] for event in phases[phase]) for phase in "sf")
    assert begun == ended and set(begun.values()) <= {1} and {event["id"] for event in phases["t"]} <= set(begun)
    for flow in phases["s"] + phases["t"] + phases["f"]:
        assert any(begin <= flow["ts"] <= end for begin, end in tracks[flow["pid"], flow["tid"]]), "ends at a slice"
    assert all(event["bp"] == "e" for event in phases["f"])
    return phases


def test_an_input_is_followed_to_its_pixel() -> None:
    phases = check(chrome_trace([record(7, *range(9), is_answer=True)], "session s"))
    stages = ["uplink", "input_wait", "step", "emit", "pace", "encode", "send", "network", "decode", "present"]
    assert [drawn["cat"] for drawn in phases["X"]] == stages
    by_place = {(drawn["tid"], drawn["ts"]): drawn["cat"] for drawn in phases["X"]}
    followed = phases["s"] + phases["t"] + phases["f"]
    assert [by_place[flow["tid"], flow["ts"]] for flow in followed] == stages
    assert {flow["name"] for flow in followed} == {"input"} and len({flow["id"] for flow in followed}) == 1
    assert phases["X"][0]["args"] == {"epoch": 1, "seq": 7, "index": 0, "action": 7, "uncertainty_ms": 0.5}
    assert {name["args"]["name"] for name in phases["M"] if name["name"] == "process_name"} == {
        "session s: server",
        "viewer by webrtc v",
    }


def test_frames_that_overlap_are_drawn_apart() -> None:
    drawn = check(chrome_trace([record(n, *(10 * n + 8 * ms for ms in range(9))) for n in range(8)], ""))["X"]
    assert len(drawn) == 8 * 8 and len({event["tid"] for event in drawn}) == 8
    drawn = check(chrome_trace([record(n, *(10 * n + 15 * ms for ms in range(9))) for n in range(8)], ""))["X"]
    assert len(drawn) == 8 * 8 and len({event["tid"] for event in drawn}) == 16


def test_viewers_share_what_was_done_once() -> None:
    records = [record(1, *range(9), viewer=viewer) for viewer in "ab"]
    phases = check(chrome_trace(records, ""))
    counted = Counter(drawn["cat"] for drawn in phases["X"])
    assert counted["step"] == counted["encode"] == 1 and counted["send"] == counted["present"] == 2
    assert len(phases["s"]) == 2 and len({drawn["pid"] for drawn in phases["X"]}) == 3


def test_a_frame_that_nobody_told_of_ends_where_it_was_sent() -> None:
    phases = check(chrome_trace([record(1, *range(6))], ""))
    assert [drawn["cat"] for drawn in phases["X"]][-1] == "send" and len(phases["f"]) == 1


def test_no_frames_make_an_empty_trace() -> None:
    assert check(chrome_trace([], "nobody"))["X"] == []


steps = st.lists(st.sampled_from([0.0, 0.0003, 0.4, 3.0, 50.0]), min_size=9, max_size=9)


@given(st.lists(st.tuples(steps, st.sampled_from("ab"), st.booleans(), st.integers(0, 4)), max_size=6))
def test_whatever_frames_do_the_trace_can_be_read(frames: list[tuple[list[float], str, bool, int]]) -> None:
    records = []
    for seq, (durations, viewer, is_answer, missing) in enumerate(frames):
        moments: list[float | None] = [100 + sum(durations[: place + 1]) for place in range(9)]
        moments[9 - missing :] = [None] * missing
        records.append(record(seq, *moments, viewer=viewer, is_answer=is_answer))
    check(chrome_trace(records, "any"))


def test_sessions_lie_under_each_other_and_share_nothing() -> None:
    one = [record(seq, *range(20 * seq, 20 * seq + 9)) for seq in range(3)]
    other = [record(seq, *range(20 * seq + 5, 20 * seq + 14), viewer="w") for seq in range(3)]
    phases = check(chrome_traces({"a": one, "b": other, "c": []}))
    names = {event["args"]["name"]: event["pid"] for event in phases["M"] if event["name"] == "process_name"}
    assert set(names) == {"a: server", "b: server", "c: server", "viewer by webrtc v", "viewer by webrtc w"}
    assert len(set(names.values())) == len(names)
    alone = [check(chrome_trace(records, "s"))["X"] for records in (one, other)]
    assert len(phases["X"]) == sum(map(len, alone))
