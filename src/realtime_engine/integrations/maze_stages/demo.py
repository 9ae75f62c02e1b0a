"""The stages demo: the maze as a graph of stages."""

from __future__ import annotations

from pydantic import Field

from ...core.contract import RealtimeInterface
from ...infra.demo import Demo
from ..maze import demo as maze


class Options(maze.Options):
    """Options of the server operator."""

    max_sessions: int = Field(4, ge=1, le=64, description="Maximum number of simultaneous players.")
    frames_per_chunk: int = Field(2, ge=1, le=64, description="Frames per chunk.")
    encode_ms: float = Field(10.0, ge=0, le=10_000, description="Duration of encode in milliseconds.")
    denoise_ms: float = Field(50.0, ge=0, le=10_000, description="Duration of denoise in milliseconds.")
    decode_ms: float = Field(25.0, ge=0, le=10_000, description="Duration of decode in milliseconds.")


def build(options: Options) -> RealtimeInterface:
    """Build the engine."""
    from .pipeline import build_engine

    return build_engine(**options.model_dump())


demo = Demo(
    name="stages",
    title="The Maze, in Stages",
    description=(
        "The maze as three stages with the stage times of a video model: encode, denoise, decode. A chunk takes longer "
        "to generate than to play, but playback is continuous because the stages process three chunks concurrently. "
        "Keys are sampled when denoise starts."
    ),
    build=build,
    controls=maze.CONTROLS,
    to_conditioning=maze.to_conditioning,
    options=Options,
    context=maze.context,
)
