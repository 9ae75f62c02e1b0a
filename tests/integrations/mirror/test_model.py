from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from realtime_engine.core.composed import ComposedEngine
from realtime_engine.core.contract import SessionInit
from realtime_engine.core.errors import StepFailure
from realtime_engine.infra.video_input import InputFrame, VideoWindow
from realtime_engine.integrations.mirror.effects import EFFECTS
from realtime_engine.integrations.mirror.model import MirrorModel
from realtime_engine.testing import EngineCase, FaultyModel, check_engine

HEIGHT, WIDTH = 32, 48


def frame(seed: int, size: tuple[int, int] = (HEIGHT, WIDTH)) -> InputFrame:
    return InputFrame(np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8), seed, 1, 0, 0)


def video(seed: int, *, live: bool = True) -> VideoWindow:
    return VideoWindow((frame(seed),), live)


def conditioning(index: int, step: int) -> dict[str, Any]:
    effect = tuple(EFFECTS)[(index + step) % len(EFFECTS)]
    return {"video": video(10 * index + step, live=step % 3 > 0), "effect": effect, "strength": index % 3 / 2}


def engine_of(sessions: int = 2) -> ComposedEngine:
    engine = ComposedEngine(MirrorModel(sessions, WIDTH, HEIGHT), pipeline=False)
    for session in "abcd"[:sessions]:
        engine.attach(SessionInit(session))
    return engine


def step(engine: ComposedEngine, **due: dict[str, Any]) -> dict[str, np.ndarray]:
    return {result.session_id: result.output for result in engine.step(due)}


def test_the_engine_keeps_its_contract() -> None:
    def make_engine(sessions: int) -> ComposedEngine:
        return ComposedEngine(MirrorModel(sessions, WIDTH, HEIGHT), pipeline=False)

    def make_faulty(sessions: int, plan: Any) -> ComposedEngine:
        return ComposedEngine(FaultyModel(MirrorModel(sessions, WIDTH, HEIGHT), plan), pipeline=False)

    check_engine(EngineCase(make_engine, make_faulty=make_faulty, conditioning=conditioning))


@pytest.mark.parametrize("effect", EFFECTS)
def test_each_session_sees_its_own_video_with_its_own_effect(effect: str) -> None:
    given = {"effect": effect, "strength": 0.7}
    made = step(
        engine_of(3),
        a={**given, "video": video(1)},
        b={**given, "video": video(2), "mirrored": False},
        c={**given, "effect": "none", "video": video(3)},
    )
    assert np.array_equal(made["a"][0], EFFECTS[effect](np.ascontiguousarray(frame(1).pixels[:, ::-1]), 0.7))
    assert np.array_equal(made["b"][0], EFFECTS[effect](frame(2).pixels, 0.7))
    assert np.array_equal(made["c"][0], frame(3).pixels[:, ::-1])
    assert made["a"].shape == (1, HEIGHT, WIDTH, 3) and made["a"].flags.writeable


def test_without_anybody_who_sends_there_is_a_moving_picture() -> None:
    engine = engine_of()
    gone = {"effect": "none", "video": video(1, live=False)}
    first = step(engine, a={"effect": "none"}, b=gone)
    assert np.array_equal(first["a"], first["b"]), "who has left is not shown any more"
    for _ in range(10):
        later = step(engine, a={"effect": "none", "video": VideoWindow(live=True)}, b=gone)
    assert (later["a"] != first["a"]).any() and first["a"].std() > 20
    assert np.array_equal(
        step(engine, a={"effect": "none", "video": video(1)}, b=gone)["a"][0], frame(1).pixels[:, ::-1]
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"effect": "blur"}, "effect must be one of sketch, pixelate, posterise, none, got 'blur'"),
        ({"strength": 1.5}, "strength must be a number from 0 to 1, got 1.5"),
        ({"strength": "much"}, "strength must be a number"),
        ({"strength": True}, "strength must be a number"),
        ({"video": np.zeros((2, 2, 3))}, "video must be a VideoWindow, got ndarray"),
    ],
)
def test_bad_conditioning_is_named_and_disturbs_nobody(given: dict[str, Any], text: str) -> None:
    engine = engine_of()
    with pytest.raises((StepFailure, ValueError), match=text):
        engine.step({"a": given})
    assert np.array_equal(step(engine, b={"effect": "none", "video": video(1)})["b"][0], frame(1).pixels[:, ::-1])


@pytest.mark.parametrize(
    ("arguments", "name"),
    [({"width": 8}, "width"), ({"height": 64.0}, "height"), ({"max_sessions": 0}, "max_sessions")],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        MirrorModel(**arguments)
