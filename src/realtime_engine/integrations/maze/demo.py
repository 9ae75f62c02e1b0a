"""The maze demo: fields, options, controls and engine."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from ...core.contract import RealtimeInterface
from ...infra.controls import ARROWS_AS_WASD, Axis, Controls, ControlWindow, KeyBinding
from ...infra.demo import Demo

_RUN_BUTTON = 10  # left stick button in the W3C standard mapping
_MAX_SEED = 2**31 - 1
_DEFAULT_SEEDS = 10_000  # default seeds are short enough to share


class Fields(BaseModel):
    """Fields that a player can set."""

    prompt: str = Field(
        "",
        max_length=200,
        title="Theme",
        description="Look of the world: ice, lava, forest, night, desert, candy, or any other words.",
    )
    seed: int = Field(
        default_factory=lambda: random.randrange(_DEFAULT_SEEDS),
        ge=0,
        le=_MAX_SEED,
        title="Seed",
        description="Selects the maze; takes effect at the next reset.",
    )


class Options(BaseModel):
    """Options of the server operator."""

    max_sessions: int = Field(8, ge=1, le=256, description="Maximum number of simultaneous players.")
    width: int = Field(640, ge=16, le=3840, multiple_of=4, description="Width of a frame in pixels.")
    height: int = Field(360, ge=16, le=2160, multiple_of=4, description="Height of a frame in pixels.")
    fps: float = Field(30.0, gt=0, le=240, description="Frames per second.")
    frames_per_chunk: int = Field(
        1, ge=1, le=64, description="Frames per engine step; larger chunks increase the latency."
    )


CONTROLS = Controls(
    keys=(
        KeyBinding("KeyW", "Forward", "Move"),
        KeyBinding("KeyA", "Left", "Move"),
        KeyBinding("KeyS", "Back", "Move"),
        KeyBinding("KeyD", "Right", "Move"),
        KeyBinding("ShiftLeft", "Run", "Move"),
        KeyBinding("KeyQ", "Turn left", "Look"),
        KeyBinding("KeyE", "Turn right", "Look"),
    ),
    aliases={**ARROWS_AS_WASD, "ShiftRight": "ShiftLeft"},
    axes=(
        Axis("forward", negative="KeyS", positive="KeyW", stick=("move", "y"), gamepad=1, invert=True),
        Axis("strafe", negative="KeyA", positive="KeyD", stick=("move", "x"), gamepad=0),
        Axis("turn", negative="KeyQ", positive="KeyE", stick=("look", "x"), gamepad=2),
    ),
    pointer="lock",
    gamepad=True,
    sticks=("move", "look"),
    fields=Fields,
)


def build(options: Options) -> RealtimeInterface:
    """Build the engine; all players share one batch. Steps are not pipelined, for the lowest latency."""
    from ...core.composed import ComposedEngine
    from .model import MazeModel

    model = MazeModel(
        max_sessions=options.max_sessions,
        width=options.width,
        height=options.height,
        fps=options.fps,
        frames_per_chunk=options.frames_per_chunk,
    )
    return ComposedEngine(model, pipeline=False)


def to_conditioning(window: ControlWindow) -> Mapping[str, Any]:
    """Return the speeds and the prompt."""
    return {**moves(window), "prompt": window.field_values["prompt"]}


def moves(window: ControlWindow) -> dict[str, Any]:
    """Return held keys, sticks and gamepad as speeds. Mouse look reaches the model as events."""
    return {
        "forward": window.axis("forward"),
        "strafe": window.axis("strafe"),
        "turn": window.axis("turn"),
        "run": window.held("ShiftLeft") or _runs_by_gamepad(window),
    }


def context(fields: Fields) -> Mapping[str, Any]:
    """Return seed and prompt, including defaults, so that the initial theme is not encoded a second time."""
    return {"seed": fields.seed, "prompt": fields.prompt}


def _runs_by_gamepad(window: ControlWindow) -> bool:
    return window.gamepad is not None and window.gamepad.pressed(_RUN_BUTTON)


demo = Demo(
    name="maze",
    title="The Maze",
    description="A first-person world rendered live by the engine. Each player walks through their own world.",
    build=build,
    controls=CONTROLS,
    to_conditioning=to_conditioning,
    options=Options,
    context=context,
)
