from __future__ import annotations

import pytest

from realtime_engine import (
    ComposedEngine,
    EngineContractError,
    Lane,
    SessionInit,
    Stage,
    StageBatch,
    StageModel,
    StepFailure,
)
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


def test_data_and_outputs_start_empty_and_are_not_shared():
    first, second = batch(), batch()
    first.data["latents"] = 1
    first.outputs["a"] = 1
    assert second.data == {} and second.outputs == {}


def test_drop_removes_one_session_and_nothing_else():
    full = batch()
    full.outputs.update(a=1, c=2)
    full.data["latents"] = {0: "a", 2: "c"}
    full.drop(0, "a")
    assert full.rows_in_order() == [2]
    assert (full.conditioning, full.due, full.ages, full.outputs) == ({"c": {}}, {"c"}, {2: 0}, {"c": 2})
    assert full.data == {"latents": {0: "a", 2: "c"}}


def test_drop_of_an_absent_session_changes_nothing():
    full = batch()
    full.drop(1, "unknown")
    assert full.rows_in_order() == [0, 2]


def test_models_and_stages_are_recognised_by_shape():
    for model in (CpuStageModel(), RecordingModel()):
        assert isinstance(model, StageModel)
        assert all(isinstance(stage, Stage) for stage in model.stages())
    assert not isinstance(object(), StageModel)


def test_the_lanes_are_three():
    assert [lane.name for lane in Lane] == ["HOT", "DEFERRED", "ENCODE"]


class NoManifest(CpuStageModel):
    def manifest(self):
        return {"max_sessions": 2}


class NoStages(CpuStageModel):
    def stages(self):
        return None


class BareFunction(CpuStageModel):
    def stages(self):
        return [lambda batch: None]


class OneKey(CpuStageModel):
    def heavy_keys(self):
        return "prompt"


class NoSeed:
    manifest = stages = detach = CpuStageModel.manifest


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (NoManifest(), "NoManifest.manifest.* must return an EngineManifest"),
        (NoStages(), "NoStages.stages.* must return a list"),
        (BareFunction(), "has a lane"),
        (OneKey(), "several keys, such as"),
        (CpuStageModel, "got the class CpuStageModel"),
        (NoSeed(), "no seed"),
    ],
    ids=["manifest", "stages", "lane", "heavy-keys", "class", "seed"],
)
def test_an_object_that_is_no_model_is_refused_with_the_missing_hook(model, said):
    with pytest.raises(EngineContractError, match=said):
        ComposedEngine(model)


def test_attach_takes_a_session_init():
    with pytest.raises(EngineContractError, match="takes a SessionInit, got 'bob'"):
        ComposedEngine(CpuStageModel()).attach("bob")


class Last:
    lane = Lane.DEFERRED

    def __init__(self, fill) -> None:
        self._fill = fill

    def __call__(self, batch) -> None:
        self._fill(batch)


class Odd(CpuStageModel):
    def __init__(self, fill) -> None:
        super().__init__(2)
        self._fill = fill

    def stages(self):
        return [*super().stages()[:2], Last(self._fill)]


def _array(batch) -> None:
    batch.outputs = [1, 2]


@pytest.mark.parametrize("fill", [lambda batch: batch.outputs.update({0: "x"}), _array], ids=["by-row", "a-list"])
def test_outputs_that_are_not_keyed_by_session_are_a_failure(fill):
    engine = ComposedEngine(Odd(fill), pipeline=False)
    engine.attach(SessionInit("a", {}))
    with pytest.raises(StepFailure, match=r"must fill batch.outputs\[session_id\]"):
        engine.step({"a": {}})


@pytest.mark.parametrize("pipeline", [False, True])
def test_a_model_without_outputs_fails_each_session_at_once(pipeline):
    engine = ComposedEngine(Odd(lambda batch: None), pipeline=pipeline)
    engine.attach(SessionInit("a", {}))
    engine.attach(SessionInit("b", {}))
    if pipeline:
        assert engine.step({"a": {}, "b": {}}) == []
    for _ in range(2):
        with pytest.raises(StepFailure) as failure:
            engine.step({"a": {}, "b": {}})
        assert failure.value.failures.keys() == {"a", "b"}
        expected = (
            "the stages of Odd filled no batch.outputs['b'] (row 1): the last stage sets a chunk for every session"
        )
        assert expected in str(failure.value.failures["b"])
