"""Frames for the tests of this folder."""

from __future__ import annotations

import numpy as np

from realtime_engine.infra.frame import Frame, FrameId


def make_frame(seq: int = 0, epoch: int = 1, index: int = 0, height: int = 16, width: int = 24) -> Frame:
    """A flat picture whose brightness is ``seq``."""
    pixels = np.full((height, width, 3), seq % 256, dtype=np.uint8)
    return Frame(pixels, FrameId("s", epoch, seq, index))


def make_chunk(seq: int, frames: int, epoch: int = 1) -> list[Frame]:
    return [make_frame(seq, epoch, index) for index in range(frames)]
