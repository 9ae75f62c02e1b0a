"""The pictures of the scene: a bar that moves over noise, so that a stale or corrupt picture is detected."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 640, 360
FPS = 30
_BLOCK = 20
_BAR = 60
_STEP = 8
_TEXTURES = 8
_NOISE = 25.0


class ScenePictures:
    """The pictures by number, the same in each run."""

    def __init__(self) -> None:
        noise = np.random.default_rng(7).normal(0, _NOISE, (_TEXTURES, HEIGHT, WIDTH, 1))
        self._textures = np.clip(110 + noise, 0, 255).astype(np.uint8).repeat(3, axis=3)

    def __getitem__(self, number: int) -> NDArray[np.uint8]:
        picture = self._textures[number % _TEXTURES].copy()
        left = number * _STEP % (WIDTH - _BAR)
        picture[:, left : left + _BAR] = 235
        return picture


def thumbnail(luma: NDArray[np.uint8]) -> list[int]:
    """Mean of each column of blocks, which noise hardly affects. ``luma`` is (height, width), of any size."""
    columns = np.array_split(luma.mean(axis=0, dtype=np.float64), WIDTH // _BLOCK)
    return [round(column.mean()) for column in columns]


def expected_thumbnail(number: int) -> list[int]:
    """The thumbnail of picture ``number``, BT.601 limited range."""
    left = number * _STEP % (WIDTH - _BAR)
    columns = np.full(WIDTH, 110.0)
    columns[left : left + _BAR] = 235.0
    return [round(mean) for mean in 16 + 219 / 255 * columns.reshape(-1, _BLOCK).mean(axis=1)]
