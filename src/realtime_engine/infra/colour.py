"""Colour conversions: RGB as people and models see it, planar 4:2:0 as video encoders want it.

I420 is the luma plane, then those of U and V at half the size, in one array of (rows * 3 / 2, columns); BT.601, limited
range. Its sides are even: an odd side of a picture grows by one row or column that repeats the last.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

Planes = NDArray[np.uint8]


def i420_shape(height: int, width: int) -> tuple[int, int]:
    """The shape of the I420 array of a picture."""
    return (height + height % 2) * 3 // 2, width + width % 2


def to_i420(pixels: NDArray[np.uint8]) -> Planes:
    """(height, width, 3) RGB to I420."""
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
        raise ValueError(f"expected (height, width, 3) uint8 RGB, got {pixels.shape} {pixels.dtype}")
    height, width = pixels.shape[:2]
    if height % 2 or width % 2:
        pixels = cv2.copyMakeBorder(pixels, 0, height % 2, 0, width % 2, cv2.BORDER_REPLICATE)  # type: ignore[assignment]
    return cv2.cvtColor(pixels, cv2.COLOR_RGB2YUV_I420)  # type: ignore[return-value]


def from_i420(planes: Planes) -> NDArray[np.uint8]:
    """I420 to (rows, columns, 3) RGB."""
    return cv2.cvtColor(planes, cv2.COLOR_YUV2RGB_I420)  # type: ignore[return-value]


def split_i420(planes: Planes) -> tuple[Planes, Planes, Planes]:
    """Views of Y, U and V."""
    check_i420(planes)
    rows, columns = planes.shape[0] * 2 // 3, planes.shape[1]
    chroma = planes[rows:].reshape(2, rows // 2, columns // 2)
    return planes[:rows], chroma[0], chroma[1]


def scale_i420(planes: Planes, factor: float) -> Planes:
    """I420 at ``factor`` times its size, the sides rounded to even numbers of at least 2; itself if that is its size.

    Raises:
        ValueError: a factor that is not above 0, or an array that is not I420.
    """
    if not factor > 0:
        raise ValueError(f"a factor of scale is above 0, got {factor!r}")
    split = split_i420(planes)
    rows, columns = (max(2 * round(side * factor / 2), 2) for side in split[0].shape)
    if (rows, columns) == split[0].shape:
        return planes
    scaled = np.empty((rows * 3 // 2, columns), np.uint8)
    method = cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR
    for plane, target in zip(split, split_i420(scaled), strict=True):
        cv2.resize(plane, target.shape[::-1], dst=target, interpolation=method)
    return scaled


def check_i420(planes: Planes) -> None:
    """Raise ValueError unless it is an I420 array."""
    if planes.ndim != 2 or planes.shape[0] % 3 or planes.shape[1] % 2 or planes.dtype != np.uint8 or not planes.size:
        raise ValueError(f"expected I420 planes (height * 3 / 2, width) uint8, got {planes.shape} {planes.dtype}")
