"""The mirror's effects the plain way: pixel by pixel, from the definitions."""

from __future__ import annotations

import math

import numpy as np

from realtime_engine.integrations.mirror.effects import INK, PAPER, block_side, level_count, sketch_gain

_GAUSS = ((1, 2, 1), (2, 4, 2), (1, 2, 1))
_ACROSS = ((-1, 0, 1), (-2, 0, 2), (-1, 0, 1))
_DOWN = ((-1, -2, -1), (0, 0, 0), (1, 2, 1))


def sketch(picture: np.ndarray, strength: float) -> np.ndarray:
    luma = np.array([[round(0.299 * r + 0.587 * g + 0.114 * b) for r, g, b in row] for row in picture.tolist()])
    smooth = np.array([[math.floor(each / 16 + 0.5) for each in row] for row in weigh(luma, _GAUSS)])
    across, down = weigh(smooth, _ACROSS), weigh(smooth, _DOWN)
    drawn = np.empty(picture.shape)
    for (y, x), slope in np.ndenumerate(np.abs(across) + np.abs(down)):
        share = min(round(slope * sketch_gain(strength)), 255) / 255
        drawn[y, x] = [paper * (1 - share) + ink * share for paper, ink in zip(PAPER, INK, strict=True)]
    return drawn


def weigh(values: np.ndarray, weights: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """3x3 correlation; beyond the edge, the picture is reflected about its outermost row or column."""
    height, width = values.shape
    out = np.zeros((height, width), int)
    for y in range(height):
        for x in range(width):
            for dy in (-1, 0, 1):
                for dx in (-1, 0, 1):
                    out[y, x] += weights[dy + 1][dx + 1] * int(values[reflect(y + dy, height), reflect(x + dx, width)])
    return out


def reflect(index: int, length: int) -> int:
    return -index if index < 0 else 2 * (length - 1) - index if index >= length else index


def pixelate(picture: np.ndarray, strength: float) -> np.ndarray:
    height, width = picture.shape[:2]
    side = block_side(strength, min(height, width))
    drawn = np.empty(picture.shape)
    for top in range(0, height, side):
        for left in range(0, width, side):
            rows = [min(y, height - 1) for y in range(top, top + side)]
            columns = [min(x, width - 1) for x in range(left, left + side)]
            colours = [picture[y, x].astype(float) for y in rows for x in columns]
            drawn[top : top + side, left : left + side] = sum(colours) / len(colours)
    return drawn


def posterise(picture: np.ndarray, strength: float) -> np.ndarray:
    levels = level_count(strength)
    drawn = np.empty(picture.shape)
    for place, value in np.ndenumerate(picture):
        drawn[place] = math.floor(int(value) * levels / 256) * 255 / (levels - 1)
    return drawn


def none(picture: np.ndarray, strength: float) -> np.ndarray:
    return picture.astype(float)
