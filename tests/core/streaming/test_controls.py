from __future__ import annotations

import pytest

from realtime_engine.core.streaming.controls import StreamingControls


@pytest.fixture
def controls() -> StreamingControls:
    return StreamingControls(["prompt", "motion"])


def sampled(controls: StreamingControls, sequence_id: int, name: str) -> object:
    return controls.sample(sequence_id, [name]).values[name].value


def test_a_control_is_sampled_as_late_as_possible(controls: StreamingControls) -> None:
    controls.update({"prompt": "ice", "motion": 1}, 10, 1, ["prompt", "motion"])
    assert sampled(controls, 0, "prompt") == "ice"
    controls.update({"motion": 2}, 20, 2, ["motion"])
    assert sampled(controls, 0, "motion") == 2
    assert controls.finish(0)[0] == 2


def test_a_sequence_sees_no_part_of_an_update_that_replaces_what_it_sampled(controls: StreamingControls) -> None:
    controls.update({"prompt": "ice", "motion": 1}, 10, 1, ["prompt", "motion"])
    sampled(controls, 0, "prompt")
    controls.update({"prompt": "lava", "motion": 2}, 20, 2, ["prompt", "motion"])
    controls.update({"motion": 3}, 30, 3, ["motion"])
    assert controls.peek(0).values["motion"] == (1, 1, 10)
    assert sampled(controls, 0, "motion") == 1
    assert (sampled(controls, 1, "prompt"), sampled(controls, 1, "motion")) == ("lava", 3)
    assert [controls.finish(number)[0] for number in (0, 1)] == [1, 3]


def test_an_update_that_replaces_nothing_is_seen_by_the_next_sample(controls: StreamingControls) -> None:
    controls.update({"prompt": "ice", "motion": 1}, 10, 1, ["prompt", "motion"])
    sampled(controls, 0, "prompt")
    controls.update({"prompt": "ice"}, 20, 2, [])
    assert controls.sample(0, ["motion"]).values["prompt"] == ("ice", 2, 20)
    controls.update({}, 30, 3, [])
    assert controls.finish(0)[0] == 2, "not sampled since"


def test_a_control_that_is_set_alone_is_seen_by_all(controls: StreamingControls) -> None:
    sampled(controls, 0, "prompt")
    before = controls.set({"prompt": "ice"}, 10)
    assert before.values["prompt"] == (None, 0, 0)
    assert sampled(controls, 0, "prompt") == "ice"


def test_finished_sequences_are_forgotten(controls: StreamingControls) -> None:
    for number in range(3):
        sampled(controls, number, "prompt")
    controls.update({"prompt": "ice"}, 10, 1, ["prompt"])
    update, unused = controls.finish(1)
    assert update is None and len(unused) == 4, "the last and the kept state of two sequences"
    assert controls.finish(1) == (None, [])
    assert controls.peek(1).values["prompt"].value == "ice"
    assert sampled(controls, 2, "prompt") is None
    assert controls.finish(7)[0] is None
