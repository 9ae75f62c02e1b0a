"""Moving pictures with their number in them, the same in every process."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

COUNT = 60
_BITS = 6
_SIDE = 16


def pictures(width: int, height: int) -> list[NDArray[np.uint8]]:
    """``COUNT`` pictures of (height, width, 3) uint8 RGB: a textured scene that sways, and a disc that goes across."""
    dice = np.random.default_rng(0)
    reach = 60
    texture = cv2.GaussianBlur(dice.normal(0, 60, (height + reach, width + reach, 3)).astype(np.float32), (0, 0), 3)
    y, x = np.mgrid[: height + reach, : width + reach].astype(np.float32)
    waves = np.stack(
        [128 + 80 * np.sin(x / 47 + y / 91), 255 * y / height, 128 + 80 * np.cos(x / 53 - y / 29)], axis=-1
    )
    scene = (waves + 2 * texture).clip(0, 255).astype(np.uint8)
    return [_picture(scene, number, width, height) for number in range(COUNT)]


def _picture(scene: NDArray[np.uint8], number: int, width: int, height: int) -> NDArray[np.uint8]:
    turn = 2 * np.pi * number / COUNT
    left, top = round(30 + 29 * np.cos(turn)), round(30 + 29 * np.sin(turn))
    picture = np.ascontiguousarray(scene[top : top + height, left : left + width])
    cv2.circle(picture, (number * width // COUNT, height // 2), height // 8, (255, 200, 0), -1)
    for place in range(_BITS):
        picture[:_SIDE, place * _SIDE : (place + 1) * _SIDE] = 255 * (number >> place & 1)
    return picture


def number_of(luma: NDArray[np.uint8]) -> int:
    """Which picture it is."""
    middle = luma[_SIDE // 2, _SIDE // 2 : _BITS * _SIDE : _SIDE]
    return sum(1 << place for place, level in enumerate(middle) if level > 128)
