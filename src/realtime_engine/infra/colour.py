"""Colour conversions: RGB as people and models see it, planar 4:2:0 as video encoders want it."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray


def to_i420(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(height, width, 3) RGB to planar 4:2:0, (height * 3 / 2, width), BT.601 limited range.

    An odd side grows by one row or column that repeats the last.
    """
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
        raise ValueError(f"expected (height, width, 3) uint8 RGB, got {pixels.shape} {pixels.dtype}")
    height, width = pixels.shape[:2]
    if height % 2 or width % 2:
        pixels = cv2.copyMakeBorder(pixels, 0, height % 2, 0, width % 2, cv2.BORDER_REPLICATE)  # type: ignore[assignment]
    return cv2.cvtColor(pixels, cv2.COLOR_RGB2YUV_I420)  # type: ignore[return-value]


def scale_i420(planes: NDArray[np.uint8], factor: float) -> NDArray[np.uint8]:
    """I420 at ``factor`` times its size, the sides rounded to even numbers of at least 2; itself if factor is 1."""
    if factor == 1:
        return planes
    rows, columns = planes.shape[0] * 2 // 3, planes.shape[1]
    height, width = (max(2 * round(side * factor / 2), 2) for side in (rows, columns))
    scaled = np.empty((height * 3 // 2, width), np.uint8)
    chroma, to_chroma = planes[rows:].reshape(2, rows // 2, -1), scaled[height:].reshape(2, height // 2, -1)
    for plane, target in ((planes[:rows], scaled[:height]), *zip(chroma, to_chroma, strict=True)):
        cv2.resize(plane, target.shape[::-1], dst=target, interpolation=cv2.INTER_AREA)
    return scaled
