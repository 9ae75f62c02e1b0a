from __future__ import annotations

from realtime_engine import Lane, Stage, StageBatch, StageModel
from realtime_engine.examples import CpuStageModel

from .stage_models import RecordingModel


def batch() -> StageBatch:
    return StageBatch({2: "c", 0: "a", 1: None, 3: None}, {"a": {"n": 1}, "c": {}}, {"a", "c"}, {0: 4, 2: 0})


def test_rows_in_order_are_those_that_take_part_ascending():
    assert batch().rows_in_order() == [0, 2]


def test_session_at():
    assert batch().session_at(2) == "c"
    assert batch().session_at(1) is None
    assert batch().session_at(99) is None


def test_workspace_and_outputs_start_empty_and_are_not_shared():
    first, second = batch(), batch()
    first.data["latents"] = 1
    first.outputs["a"] = 1
    assert second.data == {} and second.outputs == {}


def test_drop_takes_out_one_session_and_nothing_else():
    full = batch()
    full.outputs.update(a=1, c=2)
    full.data["latents"] = {0: "a", 2: "c"}
    full.drop(0, "a")
    assert full.rows_in_order() == [2]
    assert (full.conditioning, full.due, full.ages, full.outputs) == ({"c": {}}, {"c"}, {2: 0}, {"c": 2})
    assert full.data == {"latents": {0: "a", 2: "c"}}


def test_drop_of_a_session_that_is_not_there_is_harmless():
    full = batch()
    full.drop(1, "nobody")
    assert full.rows_in_order() == [0, 2]


def test_models_and_stages_are_recognised_by_shape():
    for model in (CpuStageModel(), RecordingModel()):
        assert isinstance(model, StageModel)
        assert all(isinstance(stage, Stage) for stage in model.stages())
    assert not isinstance(object(), StageModel)


def test_the_lanes_are_three():
    assert [lane.name for lane in Lane] == ["HOT", "DEFERRED", "ENCODE"]
