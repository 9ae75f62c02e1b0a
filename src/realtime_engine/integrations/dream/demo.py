"""The dream demo: fields, options, controls and engine."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field

from ...core.contract import RealtimeInterface
from ...infra.controls import Controls, ControlWindow
from ...infra.demo import Demo
from ...infra.extras import require
from ..maze import demo as maze

if TYPE_CHECKING:
    from .model import DreamModel

_DEFAULT_SEEDS = 10_000  # default seeds are short enough to share


class Fields(BaseModel):
    """Fields that a player can set."""

    theme: Literal["day", "ember", "frost"] = Field("day", title="Theme", description="Colors of the level.")
    astray: float = Field(
        0.0,
        ge=0,
        le=1,
        title="Astray",
        description="Strength of the noise added to the latents; at 1 the picture becomes unrecognizable.",
    )
    seed: int = Field(
        default_factory=lambda: random.randrange(_DEFAULT_SEEDS),
        ge=0,
        le=2**31 - 1,
        title="Seed",
        description="Start pose of the walk; takes effect at the next reset.",
    )


class Options(BaseModel):
    """Options of the server operator."""

    max_sessions: int = Field(4, ge=1, le=64, description="Maximum number of simultaneous players.")
    width: int = Field(480, ge=96, le=1920, multiple_of=4, description="Width of a frame in pixels.")
    height: int = Field(320, ge=64, le=1280, multiple_of=4, description="Height of a frame in pixels.")
    fps: Literal[10, 15, 30] = Field(15, description="Frames per second.")
    frames_per_chunk: int = Field(1, ge=1, le=4, description="Frames per engine step.")
    device: str = Field("cpu", description="Device: cpu, cuda, cuda:1.")
    threads: int = Field(
        1,
        ge=1,
        le=256,
        description="CPU threads of the network. Threads synchronize in every layer: use more than one only if video "
        "encoding leaves cores idle.",
    )
    rows: Literal["all", "occupied"] = Field(
        "all", description="Compute all rows (frames do not depend on other players), or only occupied rows (faster)."
    )
    compile: bool = Field(False, description="Compile the network at startup; on the CPU this needs a C++ compiler.")
    weights: Path | None = Field(None, description="Path of a weight file; default: the weights in the package.")


CONTROLS = Controls(
    keys=maze.CONTROLS.keys,
    aliases=maze.CONTROLS.aliases,
    axes=maze.CONTROLS.axes,
    pointer=maze.CONTROLS.pointer,
    gamepad=True,
    sticks=maze.CONTROLS.sticks,
    fields=Fields,
)


def build(options: Options) -> RealtimeInterface:
    """Build the engine; all players share one batch."""
    from ...core.composed import ComposedEngine

    return ComposedEngine(load_model(options), pipeline=False)


def load_model(options: Options) -> DreamModel:
    """Build and warm up the model; shared by all demos that use it.

    Raises:
        MissingDependencyError: torch is not installed; the message names the extra.
        WeightsError: the weights are unusable or do not run on the device.
        ValueError: an option is invalid.
    """
    require("torch", "torch", "serve this demo")
    from .building import build_model

    return build_model(options)


def to_conditioning(window: ControlWindow) -> Mapping[str, Any]:
    """Return speeds as in the maze, theme and ``astray``."""
    values = window.field_values
    return {**maze.moves(window), "theme": values["theme"], "astray": values["astray"]}


def context(fields: Fields) -> Mapping[str, Any]:
    """Return seed and theme, including defaults, so that the initial theme is not encoded a second time."""
    return {"seed": fields.seed, "theme": fields.theme}


demo = Demo(
    name="dream",
    title="The Dream",
    description=(
        "A neural renderer with learned dynamics of one small level: every picture is predicted from your controls and "
        "the previous state. All players share one batch."
    ),
    build=build,
    controls=CONTROLS,
    to_conditioning=to_conditioning,
    options=Options,
    context=context,
)
