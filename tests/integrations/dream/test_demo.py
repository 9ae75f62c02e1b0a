from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from realtime_engine import SessionInit
from realtime_engine.core.contract import RealtimeInterface
from realtime_engine.infra.controls import ControlState
from realtime_engine.integrations.dream.demo import CONTROLS, Fields, Options, demo
from realtime_engine.integrations.dream.level import THEMES
from realtime_engine.integrations.registry import load_demo

from .tiny import tiny_weights


def conditioning(**given: Any) -> dict[str, Any]:
    state = ControlState(CONTROLS)
    assert state.receive({"v": 1, "type": "controls", "seq": 0, **given}) == []
    return dict(demo.to_conditioning(state.window()))


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    weights = tiny_weights(tmp_path_factory.mktemp("dream")).path
    return {"weights": weights, "width": 96, "height": 64, "threads": torch.get_num_threads()}


def test_it_is_the_built_in_dream() -> None:
    assert load_demo("dream") is demo


def test_nothing_held_is_nothing_wanted() -> None:
    still = {"forward": 0.0, "strafe": 0.0, "turn": 0.0, "run": False, "theme": "day", "astray": 0.0}
    assert conditioning() == still
    assert conditioning(keys=["KeyW", "ShiftLeft"]) == {**still, "forward": 1.0, "run": True}
    assert conditioning(fields={"theme": "frost", "astray": 0.5}) == {**still, "theme": "frost", "astray": 0.5}


def test_seed_and_theme_begin_a_session() -> None:
    state = ControlState(CONTROLS)
    assert state.update_fields({"seed": 7, "theme": "ember"}) == []
    assert demo.attach_context(state.window().fields) == {"seed": 7, "theme": "ember"}
    seeds = {demo.attach_context(ControlState(CONTROLS).window().fields)["seed"] for _ in range(8)}
    assert len(seeds) > 1


def test_the_themes_are_those_that_were_learned() -> None:
    assert Fields.model_json_schema()["properties"]["theme"]["enum"] == list(THEMES)


@pytest.mark.parametrize("fields", [{"seed": -1}, {"seed": 2**31}, {"theme": "lava"}, {"astray": 1.1}, {"astray": -1}])
def test_fields_are_bounded(fields: dict[str, Any]) -> None:
    assert ControlState(CONTROLS).update_fields(fields)[0]["error"]["code"] == "bad_field"


@pytest.mark.parametrize(
    "options",
    [
        {"fps": 20},
        {"fps": 0},
        {"frames_per_chunk": 0},
        {"frames_per_chunk": 5},
        {"width": 98},
        {"height": 32},
        {"max_sessions": 0},
        {"rows": "some"},
        {"threads": 0},
    ],
)
def test_options_are_bounded(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Options(**options)


def test_options_make_the_engine(options: dict[str, Any]) -> None:
    manifest = demo.build_engine(Options(**options, max_sessions=3, fps=10, frames_per_chunk=4)).manifest()
    assert manifest.max_sessions == 3 and manifest.chunk_shape == (4, 64, 96, 3)
    assert (manifest.rate_hz, manifest.pipeline_depth_chunks) == (2.5, 1)


def walk(engine: RealtimeInterface, steps: int, **given: dict[str, Any]) -> dict[str, list[np.ndarray]]:
    """Chunks of players by name, each with what their hands and fields say."""
    made: dict[str, list[np.ndarray]] = {name: [] for name in given}
    for _ in range(steps):
        for result in engine.step({name: conditioning(**said) for name, said in given.items()}):
            made[result.session_id].append(result.output)
    return made


def test_what_a_player_says_changes_the_picture_of_that_player_only(options: dict[str, Any]) -> None:
    def play(**said: Any) -> dict[str, list[np.ndarray]]:
        engine = demo.build_engine(Options(**options, max_sessions=2))
        for number, name in enumerate(("one", "other")):
            engine.attach(SessionInit(name, {"seed": number, "theme": "day"}))
        walk(engine, 1, one={}, other={})
        return walk(engine, 4, one=said, other={})

    still = play()
    for said in ({"keys": ["KeyW"]}, {"keys": ["KeyE"]}, {"fields": {"theme": "frost"}}, {"fields": {"astray": 1}}):
        moved = play(**said)
        assert not np.array_equal(moved["one"][-1], still["one"][-1]), said
        assert np.array_equal(moved["other"], still["other"]), said


def test_declaring_it_imports_nothing_heavy() -> None:
    code = (
        "import sys, realtime_engine.integrations.dream.demo\n"
        "sys.exit(', '.join(sorted({'torch', 'cv2', 'av', 'aiortc', 'fastapi'} & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
