from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from realtime_engine.core.composed import ComposedEngine
from realtime_engine.core.contract import SessionInit
from realtime_engine.core.errors import StepFailure
from realtime_engine.integrations.maze.model import MazeModel
from realtime_engine.testing import EngineCase, FaultPlan, FaultyModel, check_engine

SIZE = {"width": 96, "height": 64}


def conditioning(index: int, step: int) -> dict[str, Any]:
    events = [{"kind": "pointer_move", "dx": 9 * index - 4, "dy": step}, {"kind": "key", "code": "KeyW"}]
    return {"forward": 1.0, "strafe": 0.5 * (index - 1), "turn": (step % 5 - 2) / 2, "run": step > 2, "events": events}


def engine_of(sessions: int = 2, **options: Any) -> ComposedEngine:
    return ComposedEngine(MazeModel(sessions, **SIZE, **options))


def attach(engine: ComposedEngine, **contexts: dict[str, Any]) -> None:
    for session_id, context in contexts.items():
        engine.attach(SessionInit(session_id, context))


def step(engine: ComposedEngine, **due: dict[str, Any]) -> dict[str, np.ndarray]:
    return {result.session_id: result.output for result in engine.step(due)}


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize(
    "options", [{}, {"pipeline": True}, {"lanes": "thread"}, {"pipeline": True, "lanes": "thread"}]
)
def test_the_engine_keeps_its_contract(options: dict[str, Any], frames: int) -> None:
    def make_engine(sessions: int) -> ComposedEngine:
        return ComposedEngine(MazeModel(sessions, **SIZE, frames_per_chunk=frames), **options)

    check_engine(EngineCase(make_engine, conditioning=conditioning, heavy=("prompt", "ice", "lava")))


def test_the_manifest_says_what_comes_out() -> None:
    model = MazeModel(3, width=64, height=32, fps=24.0, frames_per_chunk=4)
    manifest = model.manifest()
    assert (manifest.max_sessions, manifest.chunk_shape, manifest.frames_per_chunk) == (3, (4, 32, 64, 3), 4)
    assert manifest.rate_hz == 6.0
    engine = ComposedEngine(model)
    attach(engine, a={})
    chunk = step(engine, a={})["a"]
    assert chunk.shape == manifest.chunk_shape and chunk.dtype == np.uint8
    assert chunk.base is None and chunk.flags.c_contiguous


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"width": 641}, "width"),
        ({"height": 8}, "height"),
        ({"width": 64.0}, "width"),
        ({"fps": 0}, "fps"),
        ({"fps": float("nan")}, "fps"),
        ({"frames_per_chunk": 0}, "frames_per_chunk"),
        ({"max_sessions": 0}, "max_sessions"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        MazeModel(**arguments)


@pytest.mark.parametrize("seed", ["7", 1.5, -1, True, 2**64, [1]])
def test_a_bad_seed_is_named_and_touches_no_other_row(seed: Any) -> None:
    model = MazeModel(2, **SIZE)
    with pytest.raises(ValueError, match="seed must be an integer"):
        model.seed({0: {"seed": 1}, 1: {"seed": seed}})
    engine = engine_of()
    attach(engine, good={"seed": 1}, bad={"seed": seed})
    with pytest.raises(StepFailure) as failure:
        step(engine, good={}, bad={})
    assert list(failure.value.failures) == ["bad"]
    assert [result.session_id for result in failure.value.results] == ["good"]


def test_a_bad_prompt_is_named() -> None:
    with pytest.raises(ValueError, match="prompt must be a string, got 5"):
        MazeModel(1, **SIZE).seed({0: {"prompt": 5}})


def test_no_seed_is_seed_0() -> None:
    engine = engine_of(3)
    attach(engine, a={}, b={"seed": 0}, c={"seed": None, "prompt": None})
    chunks = step(engine, a={}, b={}, c={})
    assert np.array_equal(chunks["a"], chunks["b"]) and np.array_equal(chunks["a"], chunks["c"])


def test_seeds_give_different_worlds() -> None:
    engine = engine_of(6)
    due = {f"s{seed}": {} for seed in range(6)}
    attach(engine, **{f"s{seed}": {"seed": seed} for seed in range(6)})
    assert len({chunk.tobytes() for chunk in step(engine, **due).values()}) == 6


def test_a_theme_recolours_its_own_session_only() -> None:
    engine, steady = engine_of(), engine_of()
    for each in (engine, steady):
        attach(each, a={"seed": 1}, b={"seed": 2})
    for prompt in ("lava", "lava", "candy"):
        changed: dict[str, np.ndarray] = {}
        for _ in range(2):
            changed = step(engine, a={"prompt": prompt}, b={})
            same = step(steady, a={}, b={})
            assert np.array_equal(changed["b"], same["b"])
        assert np.abs(changed["a"].astype(int) - same["a"]).mean() > 10


def test_a_theme_given_at_the_attach_is_that_of_a_later_prompt() -> None:
    early, late = engine_of(1), engine_of(1)
    attach(early, a={"seed": 1, "prompt": "forest"})
    attach(late, a={"seed": 1})
    for _ in range(2):
        first = step(early, a={"prompt": "forest"})
    for _ in range(3):
        second = step(late, a={"prompt": "forest"})
    assert np.array_equal(first["a"], second["a"])  # the late one sat out the step of its encode


def test_a_chunk_of_frames_is_that_many_chunks_of_one() -> None:
    single, triple = engine_of(1), engine_of(1, frames_per_chunk=3)
    events = [{"kind": "pointer_move", "dx": 30, "dy": 5}]
    for engine in (single, triple):
        attach(engine, a={"seed": 3})
    given = {"forward": 1.0, "turn": 0.4}
    frames = [step(single, a={**given, "events": events if index == 0 else ()})["a"][0] for index in range(3)]
    assert np.array_equal(step(triple, a={**given, "events": events})["a"], np.stack(frames))


@pytest.mark.parametrize("hook", ["hot", "deferred"])
@pytest.mark.parametrize("pipeline", [False, True])
def test_a_failed_step_leaves_the_walk_as_it_was(hook: str, pipeline: bool) -> None:
    def walk(plan: FaultPlan) -> list[np.ndarray]:
        engine = ComposedEngine(FaultyModel(MazeModel(1, **SIZE), plan), pipeline=pipeline)
        attach(engine, a={"seed": 1})
        chunks: list[np.ndarray] = []
        failed = 0
        while len(chunks) + failed < 6:
            try:
                chunks.extend(step(engine, a={"forward": 1.0}).values())
            except RuntimeError:
                if hook == "deferred":
                    chunks.append(np.zeros(0))  # HOT is done: only this chunk is lost
                else:
                    failed += 1
        return chunks

    plan = FaultPlan(lambda called, _: RuntimeError("once") if called == hook and plan_calls(called) == 3 else None)
    calls: list[str] = []

    def plan_calls(called: str) -> int:
        calls.append(called)
        return len(calls)

    for index, (chunk, wanted) in enumerate(zip(walk(plan), walk(FaultPlan()), strict=False)):
        assert chunk.size == 0 or np.array_equal(chunk, wanted), f"chunk {index} differs"
    assert plan.raised == 1


def test_a_detached_session_leaves_the_batch_in_flight() -> None:
    engine = ComposedEngine(MazeModel(2, **SIZE), pipeline=True)
    attach(engine, a={"seed": 1}, b={"seed": 2})
    assert step(engine, a={}, b={}) == {}
    engine.detach("a")
    assert list(step(engine, b={})) == ["b"]
    engine.detach("b")
    assert step(engine) == {}
