"""Pictures of another size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extras import require

Pixels = NDArray[np.uint8]

INTERPOLATIONS = ("nearest", "box", "bilinear", "bicubic", "lanczos")


def resize(pixels: Pixels, height: int, width: int, interpolation: str = "lanczos") -> Pixels:
    """Pictures of ``height`` x ``width``, whatever that does to their shape.

    All but ``nearest`` are separable filters of Pillow, which widen as the picture shrinks: ``box`` the mean of an
    area, ``bilinear`` a triangle, ``bicubic`` a cubic with a = -0.5, ``lanczos`` a windowed sinc with three lobes.

    Args:
        pixels: (height, width, 3) or (frames, height, width, 3), uint8.
        height, width: of the result, at least 1.
        interpolation: one of ``nearest box bilinear bicubic lanczos``.

    Returns:
        As many pictures; ``pixels`` itself if they have that size already.

    Raises:
        ValueError: another shape, dtype, size or name.
        MissingDependencyError: no Pillow.
    """
    _check(pixels, height, width)
    if interpolation not in INTERPOLATIONS:
        raise ValueError(f"unknown interpolation {interpolation!r}, expected one of {', '.join(INTERPOLATIONS)}")
    if pixels.shape[-3:-1] == (height, width):
        return pixels
    if interpolation == "nearest":
        rows, columns = _nearest(pixels.shape[-3], height), _nearest(pixels.shape[-2], width)
        return pixels[..., rows[:, np.newaxis], columns, :]
    image = require("PIL.Image", "serve", "resize pictures")
    method = image.Resampling[interpolation.upper()]
    if pixels.ndim == 3:
        return _resized(image, pixels, height, width, method)
    result = np.empty((len(pixels), height, width, 3), np.uint8)
    for at, picture in enumerate(pixels):
        result[at] = _resized(image, picture, height, width, method)
    return result


def centre_crop(pixels: Pixels, height: int, width: int) -> Pixels:
    """The middle ``height`` x ``width`` of pictures, as a view; if need be half a pixel above and left of it.

    Args:
        pixels: (height, width, 3) or (frames, height, width, 3), uint8.
        height, width: at least 1, and no larger than the pictures.

    Raises:
        ValueError: another shape or dtype, or pictures that are smaller.
    """
    _check(pixels, height, width)
    top, left = (pixels.shape[-3] - height) // 2, (pixels.shape[-2] - width) // 2
    if top < 0 or left < 0:
        given = f"{pixels.shape[-3]} x {pixels.shape[-2]}"
        raise ValueError(
            f"cannot crop {height} x {width} out of {given} (height x width): resize it first, or use cover()"
        )
    return pixels[..., top : top + height, left : left + width, :]


def cover(pixels: Pixels, height: int, width: int, interpolation: str = "lanczos") -> Pixels:
    """Pictures of ``height`` x ``width`` of the same shape as before: resized until they cover it, then cropped.

    Arguments, result and errors: those of :func:`resize`; contiguous.
    """
    _check(pixels, height, width)
    rows, columns = pixels.shape[-3:-1]
    if rows * width < columns * height:  # wider than wanted
        size = height, max(round(columns * height / rows), width)
    else:
        size = max(round(rows * width / columns), height), width
    return np.ascontiguousarray(centre_crop(resize(pixels, *size, interpolation), height, width))


def _nearest(old: int, new: int) -> NDArray[np.int64]:
    """For each new row the old one in which its middle lies; in whole numbers, so that ties have one answer."""
    return (2 * np.arange(new, dtype=np.int64) + 1) * old // (2 * new)


def _resized(image: Any, picture: Pixels, height: int, width: int, method: Any) -> Pixels:
    return np.asarray(image.fromarray(np.ascontiguousarray(picture)).resize((width, height), method))


def _check(pixels: Pixels, height: int, width: int) -> None:
    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4) or pixels.shape[-1] != 3 or 0 in pixels.shape[-3:]:
        raise ValueError(
            f"expected (height, width, 3) or (frames, height, width, 3) uint8, got {pixels.shape} {pixels.dtype}"
        )
    if height < 1 or width < 1:
        raise ValueError(f"a picture has at least one row and one column, got {height} x {width} (height x width)")
