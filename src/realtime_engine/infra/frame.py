"""One picture and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.messages import NO_STAMPS, Stamps


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


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A picture: ``pixels`` is (height, width, 3), uint8, RGB, and is not written to once the frame exists."""

    pixels: NDArray[np.uint8]
    id: FrameId

    @property
    def height(self) -> int:
        return int(self.pixels.shape[0])

    @property
    def width(self) -> int:
        return int(self.pixels.shape[1])
