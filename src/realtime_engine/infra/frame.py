"""One picture and where it comes from."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.messages import NO_STAMPS, Stamps
from .picture import Picture


class FrameId(NamedTuple):
    """A frame's identity from the engine to the viewer.

    Attributes:
        session_id, epoch, seq: those of its :class:`~realtime_engine.core.messages.Chunk`.
        frame_index: position in the chunk, from 0.
        action_id: newest action that shaped it.
        stamps: the chunk's, in monotonic nanoseconds.
    """

    session_id: str
    epoch: int
    seq: int
    frame_index: int
    action_id: Any = None
    stamps: Stamps = NO_STAMPS


class Frame:
    """A picture and its identity. Neither changes.

    Args:
        picture: the picture, or its pixels: (height, width, 3), uint8, RGB, not written to any more.
    """

    __slots__ = ("_id", "_picture")

    def __init__(self, picture: Picture | NDArray[np.uint8], id: FrameId) -> None:
        self._picture = picture if isinstance(picture, Picture) else Picture(picture)
        self._id = id

    def __repr__(self) -> str:
        return f"Frame({self.width}x{self.height}, {self.id})"

    @property
    def id(self) -> FrameId:
        return self._id

    @property
    def height(self) -> int:
        return self._picture.height

    @property
    def width(self) -> int:
        return self._picture.width

    @property
    def pixels(self) -> NDArray[np.uint8]:
        """(height, width, 3), uint8, RGB; made of the planes, once, for a picture that came as such."""
        return self._picture.pixels

    def planes(self, factor: float = 1.0) -> NDArray[np.uint8]:
        """I420 as of :func:`~.colour.to_i420`, at ``factor`` times its size as of :func:`~.colour.scale_i420`.

        Made once however many threads ask: encoders share it.
        """
        return self._picture.planes(factor)
