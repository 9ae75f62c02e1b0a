"""The dream as a demo."""

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

_SEEDS_TO_READ_ALOUD = 10_000


class Fields(BaseModel):
    """What a player may choose."""

    theme: Literal["day", "ember", "frost"] = Field("day", title="Theme", description="The colours of the level.")
    astray: float = Field(
        0.0,
        ge=0,
        le=1,
        title="Astray",
        description="How far the dream strays from what it learned: at 1 it falls apart.",
    )
    seed: int = Field(
        default_factory=lambda: random.randrange(_SEEDS_TO_READ_ALOUD),
        ge=0,
        le=2**31 - 1,
        title="Seed",
        description="Where the walk begins, after a reset.",
    )


class Options(BaseModel):
    """What the person who serves the dream may choose."""

    max_sessions: int = Field(4, ge=1, le=64, description="People who walk at the same time.")
    width: int = Field(480, ge=96, le=1920, multiple_of=4, description="Width of a frame in pixels.")
    height: int = Field(320, ge=64, le=1280, multiple_of=4, description="Height of a frame in pixels.")
    fps: Literal[10, 15, 30] = Field(15, description="Frames per second.")
    frames_per_chunk: int = Field(1, ge=1, le=4, description="Frames that one step makes.")
    device: str = Field("cpu", description="Where to compute: cpu, cuda, cuda:1.")
    threads: int = Field(
        1,
        ge=1,
        le=256,
        description="CPU threads of the network. Two wait for each other in every layer: take more only where there "
        "are cores that video encoding leaves idle.",
    )
    rows: Literal["all", "occupied"] = Field(
        "all", description="Compute all rows always (the same bits in any company), or only those with a player."
    )
    compile: bool = Field(False, description="Compile the network at the start; on the CPU this needs a C++ compiler.")
    weights: Path | None = Field(None, description="A weight file of your own; without, the one that is shipped.")


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
    """The engine: all players in one batch."""
    from ...core.composed import ComposedEngine

    return ComposedEngine(dreaming(options), pipeline=False)


def dreaming(options: Options) -> DreamModel:
    """The model, for every demo that shows it. Errors: those of ``build_model``, and one that names the extra."""
    require("torch", "torch", "dream")
    from .building import build_model

    return build_model(options)


def to_conditioning(window: ControlWindow) -> Mapping[str, Any]:
    """Speeds as in the maze, and the fields that may change on the way."""
    values = window.field_values
    return {**maze.moves(window), "theme": values["theme"], "astray": values["astray"]}


def context(fields: Fields) -> Mapping[str, Any]:
    """Seed and theme, set or not, so that the theme that a session begins with is not encoded a second time."""
    return {"seed": fields.seed, "theme": fields.theme}


demo = Demo(
    name="dream",
    title="The Dream",
    description=(
        "A small level as a neural network has learned it: a neural renderer with learned dynamics draws every picture "
        "out of your keys and what it dreamt before. All players in one batch."
    ),
    build=build,
    controls=CONTROLS,
    to_conditioning=to_conditioning,
    options=Options,
    context=context,
)
