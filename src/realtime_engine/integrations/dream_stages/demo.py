"""The dream on a graph of stages, as a demo."""

from __future__ import annotations

from ...core.contract import RealtimeInterface
from ...infra.demo import Demo
from ..dream import demo as dream


def build(options: dream.Options) -> RealtimeInterface:
    """The engine: each stage takes the players that are ready in one batch."""
    model = dream.dreaming(options)
    from .pipeline import build_engine

    return build_engine(model)


demo = Demo(
    name="dream-stages",
    title="The Dream, in Stages",
    description=(
        "The dream of a neural network behind three stages that work at the same time: encode looks, denoise walks, "
        "decode draws. Whoever joins is looked at while the others walk on."
    ),
    build=build,
    controls=dream.CONTROLS,
    to_conditioning=dream.to_conditioning,
    options=dream.Options,
    context=dream.context,
)
