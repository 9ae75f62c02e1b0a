"""What each column of the picture sees: the nearest wall, found by meeting all grid lines at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .grid import SIZE

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

NEAREST = 0.02
_FAR = np.float32(1e6)
_LINES = np.arange(1, SIZE, dtype=np.float32)[:, None]  # the border cells are wall, so lines 0 and SIZE are never met


@dataclass(frozen=True)
class PictureEncoder:
    """Where the visitors of a batch of n look from; every array is (n, 1).

    ``x`` and ``y`` in cells, ``cos`` and ``sin`` of the yaw, all float32.
    """

    x: Floats
    y: Floats
    cos: Floats
    sin: Floats


@dataclass(frozen=True)
class Hits:
    """The wall that each column meets; every array is (n, columns).

    Attributes:
        distance: along the view axis, in cells.
        x, y: the point, in cells.
        ray_x, ray_y: the ray, scaled so that its part along the view axis is 1.
        upright: the wall lies on a line of constant x, else of constant y.
        cell: index of the wall cell, ``y * SIZE + x``.
        along: 0 to 1 over the face, from left to right as it is seen.
    """

    distance: Floats
    x: Floats
    y: Floats
    ray_x: Floats
    ray_y: Floats
    upright: Bools
    cell: NDArray[np.int32]
    along: Floats


def cast_rays(eyes: PictureEncoder, tangents: Floats, solid: Bools) -> Hits:
    """Meet the walls.

    Args:
        tangents: (columns,) tangent of the angle between each column and the view axis; right is positive.
        solid: (n, SIZE * SIZE).
    """
    ray_x = _never_zero(eyes.cos - eyes.sin * tangents)
    ray_y = _never_zero(eyes.sin + eyes.cos * tangents)
    to_x = _nearest(eyes.x, eyes.y, ray_x, ray_y, solid, 1, SIZE)
    to_y = _nearest(eyes.y, eyes.x, ray_y, ray_x, solid, SIZE, 1)
    upright = to_x <= to_y
    distance = np.minimum(np.minimum(to_x, to_y), _FAR)
    x, y = eyes.x + distance * ray_x, eyes.y + distance * ray_y
    right, down = ray_x > 0, ray_y > 0
    cell_x = np.where(upright, np.rint(x) - ~right, np.floor(x)).astype(np.int32)
    cell_y = np.where(upright, np.floor(y), np.rint(y) - ~down).astype(np.int32)
    place = np.where(upright, y, x)
    place = place - np.floor(place)
    along = np.where(np.where(upright, right, ~down), place, 1 - place)
    return Hits(distance, x, y, ray_x, ray_y, upright, (cell_y * SIZE + cell_x) & (SIZE * SIZE - 1), along)


def _never_zero(ray: Floats) -> Floats:
    return np.where(np.abs(ray) < 1e-6, np.float32(1e-6), ray)


def _nearest(
    start: Floats, across: Floats, ray: Floats, ray_across: Floats, solid: Bools, stride: int, stride_across: int
) -> Floats:
    """(n, columns) distance to the first wall that lies on a grid line of one axis."""
    distance = (_LINES - start[:, None]) * (1 / ray)[:, None]  # (n, lines, columns)
    place = across[:, None] + distance * ray_across[:, None]
    cell_across = np.clip(place, 0, SIZE - 1).astype(np.int32)
    behind = (_LINES.astype(np.int32) - (ray <= 0)[:, None]) * stride
    cell = cell_across * stride_across + behind + (np.arange(len(solid), dtype=np.int32) * SIZE * SIZE)[:, None, None]
    wall = solid.ravel().take(cell, mode="clip") & (distance > NEAREST)
    nearest: Floats = np.where(wall, distance, _FAR).min(axis=1)
    return nearest
