"""The declaration of the comparison: the controls and fields of the dream, and one further key."""

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
    """Options of the comparison."""

    width: int = Field(960, ge=192, le=3840, multiple_of=8, description="Width of both pictures together, in pixels.")


def build(options: Options) -> RealtimeInterface:
    """Build the engine, which steps all sessions in one batch."""
    from ...core.composed import ComposedEngine

    half = dream.load_model(options.model_copy(update={"width": options.width // 2}))
    from .model import CompareModel

    return ComposedEngine(CompareModel(half), pipeline=False)


def to_conditioning(window: ControlWindow) -> Mapping[str, Any]:
    """The conditioning of the dream, and whether it is to localize itself in the true picture."""
    return {**dream.to_conditioning(window), "meet": window.held(_MEET)}


demo = Demo(
    name="compare",
    title="Maze and Dream",
    description=(
        "Left: the true maze. Right: a neural renderer with learned dynamics, driven by the same keys. R lets the "
        "network localize itself in the true picture and continue from there."
    ),
    build=build,
    controls=CONTROLS,
    to_conditioning=to_conditioning,
    options=Options,
    context=dream.context,
)
