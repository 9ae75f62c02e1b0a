"""The maze on a graph of stages, as a demo."""

from __future__ import annotations

from pydantic import Field

from ...core.contract import RealtimeInterface
from ...infra.demo import Demo
from ..maze import demo as maze


class Options(maze.Options):
    """What the person who serves it may choose."""

    max_sessions: int = Field(4, ge=1, le=64, description="People who walk at the same time.")
    frames_per_chunk: int = Field(2, ge=1, le=64, description="Frames that go through the stages together.")
    encode_ms: float = Field(10.0, ge=0, le=10_000, description="Milliseconds that encoding a chunk takes.")
    denoise_ms: float = Field(50.0, ge=0, le=10_000, description="Milliseconds that denoising a chunk takes.")
    decode_ms: float = Field(25.0, ge=0, le=10_000, description="Milliseconds that decoding a chunk takes.")


def build(options: Options) -> RealtimeInterface:
    """The engine."""
    from .pipeline import build_engine

    return build_engine(**options.model_dump())


demo = Demo(
    name="stages",
    title="The Maze, in Stages",
    description=(
        "The maze behind three stages with the times of a video model: encode, denoise, decode. A chunk takes longer "
        "than it plays, and yet it plays, because the stages work on three chunks at once. Keys are read when "
        "denoising begins."
    ),
    build=build,
    controls=maze.CONTROLS,
    to_conditioning=maze.to_conditioning,
    options=Options,
    context=maze.context,
)
