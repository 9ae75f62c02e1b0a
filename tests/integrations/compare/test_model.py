from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from realtime_engine.core.composed import ComposedEngine
from realtime_engine.core.contract import SessionInit
from realtime_engine.core.errors import StepFailure
from realtime_engine.core.stages import StageBatch
from realtime_engine.integrations.compare.model import CompareModel
from realtime_engine.integrations.dream.inputs import seed_picture
from realtime_engine.integrations.dream.level import STEP_S, THEMES, TrueView, level, start_pose
from realtime_engine.integrations.dream.model import DreamModel
from realtime_engine.integrations.dream.weights import Weights
from realtime_engine.integrations.maze.grid import SIZE
from realtime_engine.integrations.maze.motion import Motion, MotionControls
from realtime_engine.testing import EngineCase, FaultyModel, check_engine
from realtime_engine.testing.conformance import CHECKS

HEIGHT, HALF = 160, 240
BARE = slice(80, None)  # rows that nothing but the divider lies over
LEFT, RIGHT = slice(0, HALF - 4), slice(HALF + 4, None)
Chunk = np.ndarray[Any, np.dtype[np.uint8]]


def conditioning(index: int, step: int) -> dict[str, Any]:
    events = [{"kind": "pointer_move", "dx": 90 * index - 40, "dy": 50 * step}, {"kind": "key_down", "code": "KeyW"}]
    return {"forward": 1.0, "strafe": 0.5 * (index - 1), "turn": (step % 5 - 2) / 2, "run": step > 2, "events": events}


def dream_of(weights: Weights, sessions: int, **options: Any) -> DreamModel:
    return DreamModel(weights, sessions, **{"height": HEIGHT, "width": HALF, **options})


def engine_of(weights: Weights, sessions: int = 2, **options: Any) -> ComposedEngine:
    return ComposedEngine(CompareModel(dream_of(weights, sessions, **options)))


def attach(engine: ComposedEngine, **contexts: Mapping[str, Any]) -> None:
    for session_id, context in contexts.items():
        engine.attach(SessionInit(session_id, context))


def step(engine: ComposedEngine, **due: Mapping[str, Any]) -> dict[str, Chunk]:
    return {result.session_id: result.output for result in engine.step(due)}


def true_frames(seed: int, theme: str, fps: int) -> Iterator[Chunk]:
    """One picture a frame from one visitor, moved step by step; takes what it is told by ``send``."""
    motion, visitor = Motion(STEP_S), start_pose(seed)[None].copy()
    view = TrueView(HEIGHT, HALF)
    solid = level().grid.solid.reshape(1, SIZE * SIZE)
    told = yield np.zeros(0, np.uint8)
    while True:
        for number in range(round(1 / STEP_S / fps)):
            controls = MotionControls([told if number == 0 else {**told, "events": ()}])
            controls.pointer[:, 1] = 0
            motion.look(visitor, controls)
            motion.walk(visitor, controls, solid)
        told = yield view(visitor, np.array([THEMES.index(theme)]))[0]


def case_of(weights: Weights, same: Callable[[Any, Any], bool], skip: frozenset[str], **options: Any) -> EngineCase:
    def model(sessions: int) -> CompareModel:
        return CompareModel(dream_of(weights, sessions, height=32, width=48))

    return EngineCase(
        make_engine=lambda sessions: ComposedEngine(model(sessions), **options),
        conditioning=conditioning,
        heavy=("theme", "ember", "frost"),
        make_faulty=lambda sessions, plan: ComposedEngine(FaultyModel(model(sessions), plan), **options),
        same=same,
        skip=skip,
    )


@pytest.mark.parametrize("options", [{}, {"pipeline": True, "lanes": "thread"}])
def test_the_engine_keeps_its_contract_to_the_bit(weights: Weights, options: dict[str, Any]) -> None:
    check_engine(case_of(weights, np.array_equal, frozenset({"replica_parity"}), **options))


def test_models_of_different_sizes_agree_but_for_rounding(weights: Weights) -> None:
    def near(left: Chunk, right: Chunk) -> bool:
        return int(np.abs(left.astype(int) - right).max()) <= 2

    check_engine(case_of(weights, near, frozenset(CHECKS) - {"replica_parity"}))


def test_the_manifest_says_what_comes_out(weights: Weights) -> None:
    engine = engine_of(weights, 3, fps=10, frames_per_chunk=2)
    manifest = engine.manifest()
    assert (manifest.max_sessions, manifest.chunk_shape, manifest.rate_hz) == (3, (2, HEIGHT, 2 * HALF, 3), 5.0)
    attach(engine, a={})
    chunk = step(engine, a={})["a"]
    assert chunk.shape == manifest.chunk_shape and chunk.dtype == np.uint8
    assert chunk.base is None and chunk.flags.c_contiguous


@pytest.mark.parametrize(("fps", "frames"), [(15, 1), (30, 2)])
def test_the_left_is_what_is_truly_seen(weights: Weights, fps: int, frames: int) -> None:
    engine = engine_of(weights, fps=fps, frames_per_chunk=frames)
    truths = {"a": true_frames(3, "day", fps), "b": true_frames(5, "frost", fps)}
    attach(engine, a={"seed": 3, "theme": "day"}, b={"seed": 5, "theme": "frost"})
    for truth in truths.values():
        next(truth)
    for number in range(4):
        told = {"a": conditioning(0, number), "b": {**conditioning(1, number), "theme": "frost"}}
        told["a"]["theme"] = "day"
        for session_id, chunk in step(engine, **told).items():
            for frame, picture in enumerate(chunk):
                given = told[session_id] if frame == 0 else {**told[session_id], "events": ()}
                wanted = truths[session_id].send(given)
                assert np.array_equal(picture[BARE, LEFT], wanted[BARE, LEFT]), f"{session_id}, chunk {number}"


def test_the_right_is_what_the_dream_shows_by_itself(weights: Weights) -> None:
    engine = engine_of(weights, frames_per_chunk=2)
    dream = ComposedEngine(dream_of(weights, 2, frames_per_chunk=2))
    for each in (engine, dream):
        attach(each, a={"seed": 3}, b={"seed": 5, "theme": "ember"})
    for number in range(4):
        told = {"a": {**conditioning(0, number), "astray": 1.0}, "b": conditioning(1, number)}
        both, alone = step(engine, **told), step(dream, **told)
        for session_id in told:
            assert np.array_equal(both[session_id][:, BARE, RIGHT], alone[session_id][:, BARE, 4:])


def test_other_shapes_stretch_both_alike(weights: Weights) -> None:
    engine = engine_of(weights, 1, height=240)
    attach(engine, a={"seed": 3})
    wanted = cv2.resize(TrueView(HEIGHT, HALF)(start_pose(3)[None], np.zeros(1, np.int64))[0], (HALF, 240))
    picture = step(engine, a={})["a"][0]
    difference = np.abs(picture[120:, LEFT].astype(int) - wanted[120:, LEFT])
    assert difference.mean() < 2


def test_a_theme_changes_both_sides_of_its_own_session_only(weights: Weights) -> None:
    engine, steady = engine_of(weights), engine_of(weights)
    for each in (engine, steady):
        attach(each, a={"seed": 1, "theme": "day"}, b={"seed": 2, "theme": "day"})
    day = {"theme": "day"}
    assert np.array_equal(step(engine, a=day, b=day)["a"], step(steady, a=day, b=day)["a"])
    assert list(step(engine, a={"theme": "frost"}, b=day)) == ["b"]
    step(steady, a={}, b=day)
    changed, same = step(engine, a={"theme": "frost"}, b=day), step(steady, a=day, b=day)
    assert np.array_equal(changed["b"], same["b"])
    for side in (LEFT, RIGHT):
        assert not np.array_equal(changed["a"][:, BARE, side], same["a"][:, BARE, side])


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"seed": "7"}, "seed must be an integer"),
        ({"seed": -1}, "seed must be an integer"),
        ({"theme": "plaid"}, "theme must be one of day, ember, frost, got 'plaid'"),
        ({"picture": seed_picture(1, "day")}, "picture is not supported here"),
    ],
)
def test_a_bad_context_is_named_and_touches_no_other_row(
    weights: Weights, context: dict[str, Any], message: str
) -> None:
    engine = engine_of(weights)
    attach(engine, good={"seed": 1}, bad=context)
    with pytest.raises(StepFailure) as failure:
        step(engine, good={}, bad={})
    assert list(failure.value.failures) == ["bad"]
    assert message in str(failure.value.failures["bad"])
    assert [result.session_id for result in failure.value.results] == ["good"]


@pytest.mark.parametrize("told", [{"forward": "fast"}, {"astray": 2}])
def test_bad_conditioning_moves_nobody(weights: Weights, told: dict[str, Any]) -> None:
    engine, steady = engine_of(weights), engine_of(weights)
    for each in (engine, steady):
        attach(each, a={"seed": 1}, b={"seed": 2})
        step(each, a={"forward": 1.0}, b={})
    with pytest.raises(ValueError, match=next(iter(told))):
        step(engine, a=told, b={"forward": 1.0})
    for _ in range(2):
        again, same = (step(each, a={"forward": 1.0}, b={"forward": 1.0}) for each in (engine, steady))
        assert all(np.array_equal(again[session_id], same[session_id]) for session_id in "ab")


@pytest.mark.parametrize("steps", [2, 3])
def test_who_meets_the_truth_goes_where_the_true_picture_was_taken(
    weights: Weights, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    met: list[dict[int, Chunk]] = []
    meet = DreamModel.align

    def noted(dream: DreamModel, batch: StageBatch, pictures: Mapping[int, Chunk]) -> None:
        met.append(dict(pictures))
        meet(dream, batch, pictures)

    monkeypatch.setattr(DreamModel, "align", noted)
    engine = engine_of(weights)
    attach(engine, a={"seed": 1}, b={"seed": 3})
    walk, motion = {"forward": 1.0, "turn": 0.5}, Motion(STEP_S)
    visitor = start_pose(3)[None].copy()
    for _ in range(steps):
        step(engine, a={"meet": False}, b={**walk, "meet": False})
        for _ in range(2):
            motion.walk(visitor, MotionControls([walk]), level().grid.solid.reshape(1, SIZE * SIZE))
    assert list(step(engine, a={"meet": False}, b={**walk, "meet": True})) == ["a"]
    assert len(met) == 1 and list(met[0]) == [1]
    assert np.array_equal(met[0][1], TrueView()(visitor, np.zeros(1, np.int64))[0])
    for held in (True, True, False, False):
        assert set(step(engine, a={"meet": False}, b={**walk, "meet": held})) == {"a", "b"}
    assert len(met) == 1
    step(engine, a={"meet": False}, b={**walk, "meet": True})
    assert len(met) == 2


def test_meeting_again_in_a_new_theme_looks_at_that_theme(weights: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[Mapping[int, Chunk]] = []
    monkeypatch.setattr(DreamModel, "align", lambda dream, batch, pictures: met.append(pictures))
    engine = engine_of(weights, 1)
    attach(engine, a={"seed": 3, "theme": "day"})
    step(engine, a={"theme": "day"})
    step(engine, a={"theme": "frost", "meet": True})
    assert np.array_equal(met[0][0], seed_picture(3, "frost"))


@pytest.mark.parametrize("age", [0, 1])
def test_the_dream_goes_on_from_the_picture_that_it_has_met(weights: Weights, age: int) -> None:
    def batch_at(age: int) -> StageBatch:
        return StageBatch({0: None, 1: "a"}, {"a": {}}, {"a"}, {1: age})

    met, begun = dream_of(weights, 2), dream_of(weights, 2)
    met.seed({1: {"seed": 3}})
    begun.seed({1: {"seed": 7}})
    there, here = batch_at(age), batch_at(0)
    if age:
        met.stages()[1](batch_at(0))
    met.align(there, {1: seed_picture(7, "day")})
    met.stages()[1](there)
    begun.stages()[1](here)
    assert torch.equal(met.places([1], [age + 1]), begun.places([1], [1]))


def test_memory_does_not_grow(weights: Weights) -> None:
    engine = engine_of(weights)
    attach(engine, a={"seed": 1}, b={"seed": 2})
    held: list[int] = []
    tracemalloc.start()
    try:
        for number in range(60):
            step(engine, a=conditioning(0, number), b=conditioning(1, number))
            if number >= 20:
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert max(held[-10:]) - max(held[:10]) < 20_000  # a picture has 230 kB
