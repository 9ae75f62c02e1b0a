"""Moving pictures with a number in them that survives lossy coding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT, FPS = 640, 360, 30
_SIDE = 64
_BITS = 8
_SCENES, _PAN = 30, 8


class Barcode:
    """A textured scene that pans, so that an encoder has work, under two rows of black and white squares.

    The upper row is white, black and the number's eight bits, highest first; the lower row is its complement, so that a
    reader notices a misread.
    """

    def __init__(self) -> None:
        dice = np.random.default_rng(0)
        y, x = np.mgrid[:HEIGHT, : WIDTH + _SCENES * _PAN]
        waves = [128 + 90 * np.sin(x / 37 + y / 91), 255 * y / HEIGHT, 128 + 90 * np.cos(x / 53 - y / 29)]
        scene = np.stack(waves, axis=-1) + dice.normal(0, 9, (*x.shape, 1))
        self._scene = scene.clip(0, 255).astype(np.uint8)

    def picture(self, frame: int, number: int) -> NDArray[np.uint8]:
        """(HEIGHT, WIDTH, 3) uint8 RGB: frame ``frame`` of the scene with ``number`` modulo 256."""
        left = frame % _SCENES * _PAN
        pixels = np.ascontiguousarray(self._scene[:, left : left + WIDTH])
        bits = [number >> place & 1 for place in reversed(range(_BITS))]
        row = np.repeat(np.array([1, 0, *bits], np.uint8) * 255, _SIDE)[:, None]
        pixels[:_SIDE] = row
        pixels[_SIDE : 2 * _SIDE] = 255 - row
        return pixels
