"""The declaration of the mirror: an effect applied to the client's video."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field

from ...core.contract import RealtimeInterface
from ...infra.controls import Controls, ControlWindow
from ...infra.demo import Demo
from ...infra.video_input import VideoInput


class Fields(BaseModel):
    """Fields of a session."""

    effect: Literal["sketch", "pixelate", "posterise", "none"] = Field("sketch", title="Effect")
    strength: float = Field(0.5, ge=0, le=1, title="Strength", description="Strength of the filter.")
    mirrored: bool = Field(True, title="Mirror image", description="Left and right as in a mirror.")


class Options(BaseModel):
    """Options of the mirror."""

    max_sessions: int = Field(8, ge=1, le=64, description="Maximum number of sessions.")
    width: int = Field(640, ge=16, le=1920, description="Width of a frame in pixels.")
    height: int = Field(360, ge=16, le=1080, description="Height of a frame in pixels.")
    fps: float = Field(30.0, gt=0, le=120, description="Frames per second.")


def build(options: Options) -> RealtimeInterface:
    """Build the engine, which steps all sessions in one batch without pipelining."""
    from ...core.composed import ComposedEngine
    from .model import MirrorModel

    model = MirrorModel(options.max_sessions, options.width, options.height, options.fps)
    return ComposedEngine(model, pipeline=False)


def to_conditioning(window: ControlWindow) -> Mapping[str, Any]:
    """The fields, and the client's video."""
    return {"video": window.video, **window.field_values}


demo = Demo(
    name="mirror",
    title="The Mirror",
    description="Look into it with your camera, or give it a picture or a video file, and see it redrawn live.",
    build=build,
    controls=Controls(fields=Fields),
    to_conditioning=to_conditioning,
    options=Options,
    video_input=VideoInput(max_side=640),
)
