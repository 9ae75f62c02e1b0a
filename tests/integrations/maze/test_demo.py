from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from realtime_engine import SessionInit
from realtime_engine.infra.controls import ControlState
from realtime_engine.integrations.maze.demo import CONTROLS, Options, demo
from realtime_engine.integrations.registry import load_demo


def conditioning(**given: Any) -> dict[str, Any]:
    state = ControlState(CONTROLS)
    assert state.receive({"v": 1, "type": "controls", "seq": 0, **given}) == []
    return dict(demo.to_conditioning(state.window()))


def test_it_is_the_built_in_maze() -> None:
    assert load_demo("maze") is demo


def test_nothing_held_is_nothing_wanted() -> None:
    assert conditioning() == {"forward": 0.0, "strafe": 0.0, "turn": 0.0, "run": False, "prompt": ""}


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        (["KeyW"], {"forward": 1.0}),
        (["ArrowDown"], {"forward": -1.0}),
        (["KeyW", "KeyS"], {"forward": -1.0}),
        (["ArrowLeft"], {"strafe": -1.0}),
        (["KeyD"], {"strafe": 1.0}),
        (["KeyQ"], {"turn": -1.0}),
        (["KeyE"], {"turn": 1.0}),
        (["ShiftRight", "KeyW"], {"run": True, "forward": 1.0}),
    ],
)
def test_keys(keys: list[str], wanted: dict[str, Any]) -> None:
    assert conditioning(keys=keys) == {**conditioning(), **wanted}


def test_sticks_and_gamepad() -> None:
    sticks = conditioning(sticks={"move": [0.0, -1.0], "look": [1.0, 0.0]})
    assert (sticks["forward"], sticks["strafe"], sticks["turn"]) == (1.0, 0.0, 1.0)
    pad = conditioning(gamepad={"axes": [-1.0, 0.0, 0.0, 0.0], "buttons": [0.0] * 10 + [1.0]})
    assert (pad["strafe"], pad["run"]) == (-1.0, True)


def test_the_theme_goes_along_and_seed_and_theme_begin_a_session() -> None:
    assert conditioning(fields={"prompt": "ice"})["prompt"] == "ice"
    state = ControlState(CONTROLS)
    assert state.update_fields({"seed": 7}) == []
    assert demo.attach_context(state.window().fields) == {"seed": 7, "prompt": ""}


@pytest.mark.parametrize("fields", [{"seed": -1}, {"seed": 2**31}, {"prompt": "x" * 201}])
def test_fields_are_bounded(fields: dict[str, Any]) -> None:
    assert ControlState(CONTROLS).update_fields(fields)[0]["error"]["code"] == "bad_field"


@pytest.mark.parametrize("options", [{"width": 642}, {"fps": 0}, {"max_sessions": 0}, {"frames_per_chunk": 0}])
def test_options_are_bounded(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Options(**options)


def test_options_make_the_engine() -> None:
    manifest = demo.build_engine(Options(max_sessions=3, width=64, height=32, fps=20, frames_per_chunk=4)).manifest()
    assert manifest.max_sessions == 3 and manifest.chunk_shape == (4, 32, 64, 3)
    assert manifest.rate_hz * manifest.frames_per_chunk == 20
    assert demo.build_engine().manifest().max_sessions == 8


def test_what_the_hands_do_moves_the_picture() -> None:
    def walk(**given: Any) -> np.ndarray:
        engine = demo.build_engine(Options(max_sessions=1, width=64, height=32))
        engine.attach(SessionInit("a", {"seed": 3, "prompt": ""}))
        outputs: list[np.ndarray] = []
        while len(outputs) < 6:  # a new theme costs a step or two
            outputs += [result.output for result in engine.step({"a": conditioning(**given)})]
        return outputs[-1]

    still = walk()
    for given in ({"keys": ["KeyW"]}, {"keys": ["KeyE"]}, {"fields": {"prompt": "ice"}}):
        assert not np.array_equal(walk(**given), still)


def test_everybody_gets_a_world_of_their_own_and_keeps_it() -> None:
    seeds = set()
    for _ in range(8):
        state = ControlState(demo.controls)
        seed = demo.attach_context(state.window().fields)["seed"]
        assert state.update_fields({"prompt": "ice"}) == []
        assert demo.attach_context(state.window().fields) == {"seed": seed, "prompt": "ice"}
        seeds.add(seed)
    assert len(seeds) > 1
