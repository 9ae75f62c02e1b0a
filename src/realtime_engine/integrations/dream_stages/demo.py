"""The dream-stages demo: the dream as a graph of stages."""

from __future__ import annotations

from ...core.contract import RealtimeInterface
from ...infra.demo import Demo
from ..dream import demo as dream


def build(options: dream.Options) -> RealtimeInterface:
    """Build the engine; each stage processes all ready sessions in one batch."""
    model = dream.load_model(options)
    from .pipeline import build_engine

    return build_engine(model)


demo = Demo(
    name="dream-stages",
    title="The Dream, in Stages",
    description=(
        "The dream as three concurrent stages: encode localizes the first picture, denoise advances the dynamics, "
        "decode renders. A joining player is encoded while the others continue."
    ),
    build=build,
    controls=dream.CONTROLS,
    to_conditioning=dream.to_conditioning,
    options=dream.Options,
    context=dream.context,
)
