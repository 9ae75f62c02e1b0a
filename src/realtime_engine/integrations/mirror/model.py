"""The stage model of the mirror, for :class:`~realtime_engine.core.composed.ComposedEngine`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ...core.contract import EngineManifest
from ...core.errors import brief
from ...core.lanes import Lane
from ...core.stages import Stage, StageBatch, session_in
from ...infra.video_input import VideoWindow
from .effects import EFFECTS
from .picture import Landscape, cover

__all__ = ["MirrorModel"]

_MIN_SIDE = 16


class _Request(NamedTuple):
    """The parsed conditioning of one session."""

    effect: str
    strength: float
    mirrored: bool
    frame: NDArray[np.uint8] | None


class MirrorModel:
    """Applies an effect to the video of each client.

    Chunks are (1, height, width, 3) uint8 RGB. Conditioning: ``video`` (a :class:`VideoWindow`), ``effect`` (one of
    ``EFFECTS``), ``strength`` in [0, 1], ``mirrored`` (bool). Without video, a moving landscape is shown. The model is
    stateless: equal conditioning at equal age gives equal bytes.

    Args:
        max_sessions: number of rows.
        width: width of a frame in pixels.
        height: height of a frame in pixels.
        fps: frames per second.

    Raises:
        ValueError: an argument is invalid; from the stage, a conditioning field. The message names it.
    """

    lane = Lane.HOT

    def __init__(self, max_sessions: int = 8, width: int = 640, height: int = 360, fps: float = 30.0) -> None:
        for name, side in (("width", width), ("height", height)):
            if isinstance(side, bool) or not isinstance(side, int) or side < _MIN_SIDE:
                raise ValueError(f"{name} must be a number of pixels, {_MIN_SIDE} or more, got {side!r}")
        self._manifest = EngineManifest(max_sessions, chunk_shape=(1, height, width, 3), rate_hz=fps)
        self._landscape = Landscape(width, height)
        self._picture = np.empty((height, width, 3), np.uint8)

    def manifest(self) -> EngineManifest:
        """Return the engine manifest."""
        return self._manifest

    def stages(self) -> list[Stage]:
        """Return the model itself, which is its only stage."""
        return [self]

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        """Do nothing: the model is stateless."""

    def detach(self, row: int, session_id: str) -> None:
        """Do nothing: the model is stateless."""

    def __call__(self, batch: StageBatch) -> None:
        """Draw all rows, after the conditioning of every row is validated."""
        requests = {row: _parse(batch.conditioning[session_in(batch, row)]) for row in batch.rows_in_order()}
        for row, request in requests.items():
            self._draw_input(request, batch.ages[row])
            batch.outputs[session_in(batch, row)] = EFFECTS[request.effect](self._picture, request.strength)[np.newaxis]

    def _draw_input(self, request: _Request, age: int) -> None:
        target = self._picture
        if request.frame is None:
            self._landscape.draw(age / self._manifest.rate_hz, target)
        else:
            cover(request.frame, target)
        if request.mirrored:
            cv2.flip(target, 1, dst=target)


def _parse(given: Mapping[str, Any]) -> _Request:
    effect, strength, video = given.get("effect", "sketch"), given.get("strength", 0.5), given.get("video")
    if effect not in EFFECTS:
        raise ValueError(f"effect must be one of {', '.join(EFFECTS)}, got {brief(effect)}")
    if isinstance(strength, bool) or not isinstance(strength, (int, float)) or not 0 <= strength <= 1:
        raise ValueError(f"strength must be a number from 0 to 1, got {brief(strength)}")
    if video is not None and not isinstance(video, VideoWindow):
        raise ValueError(f"video must be a VideoWindow, got {type(video).__name__}")
    frame = video.newest if video is not None and video.live else None
    return _Request(effect, float(strength), bool(given.get("mirrored", True)), None if frame is None else frame.pixels)
