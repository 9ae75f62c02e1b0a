from __future__ import annotations

import numpy as np
import pytest

from realtime_engine import ComposedEngine, EngineManifest, SessionInit
from realtime_engine.examples import CpuStageModel


def chunks(*conditionings: dict, seed: int | None = 1, prompt: str = "a castle", name: str = "a") -> list[bytes]:
    """What one session makes, alone, by the plain schedule."""
    engine = ComposedEngine(CpuStageModel(), pipeline=False)
    context = {"prompt": prompt} if seed is None else {"prompt": prompt, "seed": seed}
    engine.attach(SessionInit(name, context))
    return [result.output.tobytes() for given in conditionings for result in engine.step({name: given})]


def test_defaults_are_those_that_were_promised():
    assert CpuStageModel().manifest() == EngineManifest(4, (2, 4, 4, 3), 60.0, frames_per_chunk=2)
    assert list(CpuStageModel().heavy_keys()) == ["prompt"]
    assert CpuStageModel(7, (1, 2, 2, 3), ("image",), 24.0).manifest() == EngineManifest(7, (1, 2, 2, 3), 24.0)


def test_it_is_deterministic():
    assert chunks({"move": 1}, {"move": 2}) == chunks({"move": 1}, {"move": 2})


def test_it_depends_on_seed_age_cheap_and_heavy_conditioning():
    first, second = chunks({}, {})
    variants = [chunks({}, seed=2)[0], chunks({"move": 1})[0], chunks({}, prompt="a desert")[0]]
    assert len({first, second, *variants}) == 5


def test_a_prompt_that_arrives_is_the_same_as_one_that_it_began_with():
    engine = ComposedEngine(CpuStageModel(), pipeline=False)
    engine.attach(SessionInit("a", {"seed": 1, "prompt": "a castle"}))
    assert engine.step({"a": {"prompt": "a desert"}}) == []
    (result,) = engine.step({"a": {"prompt": "a desert"}})
    assert [result.output.tobytes()] == chunks({}, prompt="a desert")


def test_without_a_seed_it_depends_on_the_sessions_name():
    assert chunks({}, seed=None, name="a") == chunks({}, seed=None, name="a")
    assert chunks({}, seed=None, name="a") != chunks({}, seed=None, name="b")


def test_it_does_not_depend_on_the_row():
    engine = ComposedEngine(CpuStageModel(), pipeline=False)
    for name in ("x", "y", "a"):
        engine.attach(SessionInit(name, {"seed": 1, "prompt": "a castle"}))
    (result,) = engine.step({"a": {}})
    assert [result.output.tobytes()] == chunks({})


def test_a_row_keeps_nothing_of_its_last_session():
    engine = ComposedEngine(CpuStageModel(1), pipeline=False)
    engine.attach(SessionInit("z", {"seed": 9, "prompt": "gone"}))
    engine.step({"z": {}})
    engine.detach("z")
    engine.attach(SessionInit("a", {}))
    engine.step({"a": {}})
    engine.detach("a")
    engine.attach(SessionInit("b", {"seed": 1, "prompt": "a castle"}))
    (result,) = engine.step({"b": {}})
    assert [result.output.tobytes()] == chunks({})


def test_a_seed_that_fails_leaves_no_row_behind():
    model = CpuStageModel()
    with pytest.raises(ValueError):
        model.seed({0: {"seed": 1}, 1: {"seed": "no number"}})
    model.detach(0, "a")
    model.detach(0, "a")


def test_without_heavy_keys_a_prompt_is_cheap():
    engine = ComposedEngine(CpuStageModel(heavy_keys=()), pipeline=False)
    engine.attach(SessionInit("a", {"seed": 1}))
    first = engine.step({"a": {"prompt": "x"}})
    second = engine.step({"a": {"prompt": "y"}})
    assert first and second and not np.array_equal(first[0].output, second[0].output)


def test_arrays_as_heavy_values():
    engine = ComposedEngine(CpuStageModel(heavy_keys=("image",)), pipeline=False)
    engine.attach(SessionInit("a", {"seed": 1, "image": np.zeros((4, 4))}))
    assert len(engine.step({"a": {"image": np.zeros((4, 4))}})) == 1
    assert len(engine.step({"a": {"image": np.ones((4, 4))}})) == 0
