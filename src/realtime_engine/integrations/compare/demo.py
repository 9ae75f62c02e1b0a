"""The comparison as a demo: the dream's hands and fields, and one key more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field

from ...core.contract import RealtimeInterface
from ...infra.controls import ControlWindow, KeyBinding
from ...infra.demo import Demo
from ..dream import demo as dream

_MEET = "KeyR"

CONTROLS = replace(dream.CONTROLS, keys=(*dream.CONTROLS.keys, KeyBinding(_MEET, "Meet again", "Dream")))


class Options(dream.Options):
    """What the person who serves the comparison may choose."""

    width: int = Field(960, ge=192, le=3840, multiple_of=8, description="Width of both pictures together, in pixels.")


def build(options: Options) -> RealtimeInterface:
    """The engine: all players in one batch."""
    from ...core.composed import ComposedEngine

    half = dream.dreaming(options.model_copy(update={"width": options.width // 2}))
    from .model import CompareModel

    return ComposedEngine(CompareModel(half), pipeline=False)


def to_conditioning(window: ControlWindow) -> Mapping[str, Any]:
    """What the dream is told, and whether it is to meet the truth again."""
    return {**dream.to_conditioning(window), "meet": window.held(_MEET)}


demo = Demo(
    name="compare",
    title="Maze and Dream",
    description=(
        "Left the true maze, right what a network makes of it: a neural renderer with learned dynamics, led by the "
        "same keys. R lets the dream look at the maze and go on from there."
    ),
    build=build,
    controls=CONTROLS,
    to_conditioning=to_conditioning,
    options=Options,
    context=dream.context,
)
