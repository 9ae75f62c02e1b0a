"""The mirror as a model for :class:`~realtime_engine.core.composed.ComposedEngine`."""

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


class _Wish(NamedTuple):
    """What one session is to see in this step."""

    effect: str
    strength: float
    mirrored: bool
    frame: NDArray[np.uint8] | None


class MirrorModel:
    """A client's video with an effect, all sessions drawn in one step.

    Chunks are (1, height, width, 3) uint8 RGB. Conditioning: ``video`` (a :class:`VideoWindow`), ``effect`` (one of
    ``EFFECTS``), ``strength`` in [0, 1], ``mirrored`` (bool). While nobody sends, a landscape passes by. It keeps no
    state: the same conditioning at the same age gives the same bytes.

    Args:
        width, height: of a frame, in pixels.
        fps: frames per second.

    Raises:
        ValueError: naming the argument; later, from the stage, the conditioning field.
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
        return self._manifest

    def stages(self) -> list[Stage]:
        return [self]

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        """Nothing: a mirror remembers nobody."""

    def detach(self, row: int, session_id: str) -> None:
        """Nothing, for the same reason."""

    def __call__(self, batch: StageBatch) -> None:
        """Draw all rows; everything is checked before anything is drawn."""
        wishes = {row: _wish(batch.conditioning[session_in(batch, row)]) for row in batch.rows_in_order()}
        for row, wish in wishes.items():
            self._look(wish, batch.ages[row])
            batch.outputs[session_in(batch, row)] = EFFECTS[wish.effect](self._picture, wish.strength)[np.newaxis]

    def _look(self, wish: _Wish, age: int) -> None:
        target = self._picture
        if wish.frame is None:
            self._landscape.draw(age / self._manifest.rate_hz, target)
        else:
            cover(wish.frame, target)
        if wish.mirrored:
            cv2.flip(target, 1, dst=target)


def _wish(given: Mapping[str, Any]) -> _Wish:
    effect, strength, video = given.get("effect", "sketch"), given.get("strength", 0.5), given.get("video")
    if effect not in EFFECTS:
        raise ValueError(f"effect must be one of {', '.join(EFFECTS)}, got {brief(effect)}")
    if isinstance(strength, bool) or not isinstance(strength, (int, float)) or not 0 <= strength <= 1:
        raise ValueError(f"strength must be a number from 0 to 1, got {brief(strength)}")
    if video is not None and not isinstance(video, VideoWindow):
        raise ValueError(f"video must be a VideoWindow, got {type(video).__name__}")
    frame = video.newest if video is not None and video.live else None
    return _Wish(effect, float(strength), bool(given.get("mirrored", True)), None if frame is None else frame.pixels)
