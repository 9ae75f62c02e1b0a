"""The input pictures of the mirror: a client's frame cropped to size, or a moving landscape."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

_LOOP_S = 12.0  # period of the landscape
_SKY, _HORIZON = (64, 124, 214), (255, 214, 170)
_SUN = (255, 236, 150)
_HILLS = (((96, 160, 110), 0.60, 0.07, 2), ((58, 122, 92), 0.72, 0.06, 3), ((34, 82, 74), 0.84, 0.05, 5))
_BALLOON, _STRIPE, _BASKET = (226, 74, 62), (250, 240, 224), (92, 58, 40)


def cover(frame: NDArray[np.uint8], target: NDArray[np.uint8]) -> None:
    """Scale ``frame`` to cover ``target`` (height, width, 3) and crop it around its center."""
    height, width = target.shape[:2]
    rows, columns = frame.shape[:2]
    scale = max(height / rows, width / columns)
    kept_rows = min(max(round(height / scale), 1), rows)
    kept_columns = min(max(round(width / scale), 1), columns)
    top, left = (rows - kept_rows) // 2, (columns - kept_columns) // 2
    part = frame[top : top + kept_rows, left : left + kept_columns]
    if part.shape == target.shape:
        np.copyto(target, part)
        return
    interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    cv2.resize(part, (width, height), dst=target, interpolation=interpolation)


class Landscape:
    """A moving test picture: a scrolling landscape with a balloon.

    Args:
        width: width of a picture in pixels.
        height: height of a picture in pixels.
    """

    def __init__(self, width: int, height: int) -> None:
        self._width, self._height = width, height
        self._panorama = _panorama(2 * width, height)

    def draw(self, seconds: float, target: NDArray[np.uint8]) -> None:
        """Draw the picture at a time in seconds into ``target`` (height, width, 3)."""
        width, height = self._width, self._height
        length = 2 * width
        left = int(seconds / _LOOP_S * length) % length
        first = min(length - left, width)
        target[:, :first] = self._panorama[:, left : left + first]
        target[:, first:] = self._panorama[:, : width - first]
        x = round(width * (0.5 + 0.28 * math.sin(0.7 * seconds)))
        y = round(height * (0.36 + 0.08 * math.sin(1.3 * seconds)))
        _balloon(target, x, y, max(height // 7, 2))


def _panorama(length: int, height: int) -> NDArray[np.uint8]:
    down = np.linspace(0, 1, height)[:, np.newaxis, np.newaxis]
    sky = np.array(_SKY) * (1 - down) + np.array(_HORIZON) * down
    picture = np.repeat(sky, length, axis=1).astype(np.uint8)
    cv2.circle(picture, (length // 3, height // 4), height // 10, _SUN, -1, cv2.LINE_AA)
    turn = 2 * np.pi * np.arange(length) / length
    row = np.arange(height)[:, np.newaxis]
    for color, level, swell, waves in _HILLS:
        crest = height * (level + swell * np.sin(waves * turn + waves) + swell / 2 * np.sin((2 * waves + 1) * turn))
        picture[row >= crest] = color
    return picture


def _balloon(target: NDArray[np.uint8], x: int, y: int, radius: int) -> None:
    basket = y + 2 * radius
    for side in (-1, 1):
        cv2.line(
            target, (x + side * radius // 2, y + radius // 2), (x + side * radius // 5, basket), _BASKET, 1, cv2.LINE_AA
        )
    cv2.circle(target, (x, y), radius, _BALLOON, -1, cv2.LINE_AA)
    cv2.ellipse(target, (x, y), (radius // 3, radius), 0, 0, 360, _STRIPE, -1, cv2.LINE_AA)
    cv2.rectangle(target, (x - radius // 4, basket), (x + radius // 4, basket + radius // 3), _BASKET, -1)
