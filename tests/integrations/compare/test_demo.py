from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from realtime_engine import SessionInit
from realtime_engine.infra.controls import ControlState
from realtime_engine.integrations.compare.demo import CONTROLS, Options, demo
from realtime_engine.integrations.dream.demo import demo as dream
from realtime_engine.integrations.dream.weights import WeightsError
from realtime_engine.integrations.registry import load_demo


def conditioning(**given: Any) -> dict[str, Any]:
    state = ControlState(CONTROLS)
    assert state.receive({"v": 1, "type": "controls", "seq": 0, **given}) == []
    return dict(demo.to_conditioning(state.window()))


def test_it_is_built_in_and_says_what_it_shows() -> None:
    assert load_demo("compare") is demo
    assert "neural renderer with learned dynamics" in demo.description


def test_it_is_told_what_the_dream_is_told() -> None:
    state = ControlState(dream.controls)
    assert conditioning() == {**dream.to_conditioning(state.window()), "meet": False}
    assert conditioning(keys=["KeyW", "KeyR"]) == {**conditioning(), "forward": 1.0, "meet": True}
    assert state.update_fields({"seed": 7, "theme": "frost"}) == []
    assert demo.attach_context(state.window().fields) == {"seed": 7, "theme": "frost"}


@pytest.mark.parametrize("options", [{"width": 964}, {"fps": 24}, {"max_sessions": 0}, {"height": 66}])
def test_options_are_bounded(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Options(**options)


def test_options_make_the_engine(weight_file: Path) -> None:
    options = Options(max_sessions=2, width=192, height=64, fps=10, frames_per_chunk=2, weights=weight_file)
    manifest = demo.build_engine(options).manifest()
    assert manifest.max_sessions == 2 and manifest.chunk_shape == (2, 64, 192, 3)
    assert manifest.rate_hz * manifest.frames_per_chunk == 10
    usual = Options()
    assert (usual.height, usual.width) == (320, 960)


def test_missing_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="does not exist"):
        demo.build_engine(Options(weights=tmp_path / "none.safetensors"))


def test_what_the_hands_do_moves_both_pictures(weight_file: Path) -> None:
    def walk(**given: Any) -> np.ndarray:
        engine = demo.build_engine(Options(max_sessions=1, width=192, height=64, weights=weight_file))
        engine.attach(SessionInit("a", {"seed": 3, "theme": "day"}))
        outputs: list[np.ndarray] = []
        while len(outputs) < 4:  # a new theme costs a step or two
            outputs += [result.output for result in engine.step({"a": conditioning(**given)})]
        return outputs[-1][0, 34:]

    still = walk()
    for given in ({"keys": ["KeyW"]}, {"keys": ["KeyE"]}, {"fields": {"theme": "ember"}}):
        moved = walk(**given)
        assert not np.array_equal(moved[:, :90], still[:, :90])
        assert not np.array_equal(moved[:, 102:], still[:, 102:])
