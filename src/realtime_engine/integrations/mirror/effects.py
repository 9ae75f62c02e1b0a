"""The effects of the mirror.

Each effect maps (height, width, 3) uint8 RGB and a strength from 0 to 1 to a new picture. Effects process one picture
at a time, because the intermediate results of a batch do not fit into the CPU cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

Pixels: TypeAlias = NDArray[np.uint8]

PAPER, INK = (250, 246, 236), (38, 36, 52)
_COARSEST = 16  # blocks along the shorter side with full strength


def sketch(picture: Pixels, strength: float) -> Pixels:
    """Draw edges: the sum of both Sobel gradients of the smoothed luma, times a gain."""
    luma = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    smooth = cv2.GaussianBlur(luma, (3, 3), 0)
    across, down = cv2.Sobel(smooth, cv2.CV_16S, 1, 0), cv2.Sobel(smooth, cv2.CV_16S, 0, 1)
    slope = np.abs(across) + np.abs(down)
    ink = cv2.convertScaleAbs(slope, alpha=sketch_gain(strength))
    return cv2.applyColorMap(ink, _INK_TABLE)  # type: ignore[return-value]


def pixelate(picture: Pixels, strength: float) -> Pixels:
    """Blocks in their mean color; incomplete blocks are padded by replicating the edge."""
    height, width = picture.shape[:2]
    side = block_side(strength, min(height, width))
    down, right = -height % side, -width % side
    whole = cv2.copyMakeBorder(picture, 0, down, 0, right, cv2.BORDER_REPLICATE)
    blocks = cv2.resize(whole, ((width + right) // side, (height + down) // side), interpolation=cv2.INTER_AREA)
    coarse = cv2.resize(blocks, (width + right, height + down), interpolation=cv2.INTER_NEAREST)
    return np.ascontiguousarray(coarse[:height, :width])


def posterise(picture: Pixels, strength: float) -> Pixels:
    """Quantize each channel to equally spaced levels from 0 to 255."""
    return cv2.LUT(picture, steps(level_count(strength)))  # type: ignore[return-value]


def none(picture: Pixels, strength: float) -> Pixels:
    """Leave the picture unchanged."""
    return picture.copy()  # type: ignore[no-any-return]


EFFECTS: Mapping[str, Callable[[Pixels, float], Pixels]] = MappingProxyType(
    {"sketch": sketch, "pixelate": pixelate, "posterise": posterise, "none": none}
)


def sketch_gain(strength: float) -> float:
    """Gain of the gradients: 0.25 at strength 0, 2 at strength 1."""
    return 0.25 + 1.75 * strength


def block_side(strength: float, shorter_side: int) -> int:
    """Side of a block: 2 pixels at strength 0, a sixteenth of the shorter side at strength 1."""
    return max(round(2 + strength * (shorter_side / _COARSEST - 2)), 1)


def level_count(strength: float) -> int:
    """Levels per channel: 16 at strength 0, 2 at strength 1."""
    return round(16 - 14 * strength)


def steps(levels: int) -> NDArray[np.uint8]:
    """The quantized value of each of the 256 values."""
    step = np.arange(256) * levels // 256
    return np.rint(step * 255 / (levels - 1)).astype(np.uint8)


def _ink_table() -> NDArray[np.uint8]:
    share = np.arange(256)[:, np.newaxis, np.newaxis] / 255
    return np.rint(np.array(PAPER) * (1 - share) + np.array(INK) * share).astype(np.uint8)


_INK_TABLE = _ink_table()
