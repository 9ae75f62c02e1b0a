"""Ray casting: finds the nearest wall of each picture column by intersecting all grid lines at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .grid import SIZE

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

NEAREST = 0.02
_FAR = np.float32(1e6)
_LINES = np.arange(1, SIZE, dtype=np.float32)[
    :, None
]  # the border cells are wall, so lines 0 and SIZE are never reached


@dataclass(frozen=True)
class Viewpoints:
    """Camera poses of n visitors; every array is (n, 1) float32.

    Attributes:
        x, y: position in cells.
        cos, sin: cosine and sine of the yaw.
    """

    x: Floats
    y: Floats
    cos: Floats
    sin: Floats


@dataclass(frozen=True)
class Hits:
    """The nearest wall of each column; every array is (n, columns).

    Attributes:
        distance: along the view axis, in cells.
        x, y: hit point in cells.
        ray_x, ray_y: ray direction, scaled to a component of 1 along the view axis.
        upright: whether the wall face has constant x, else constant y.
        cell: index of the wall cell, ``y * SIZE + x``.
        along: position on the face, 0 to 1 from left to right as seen.
    """

    distance: Floats
    x: Floats
    y: Floats
    ray_x: Floats
    ray_y: Floats
    upright: Bools
    cell: NDArray[np.int32]
    along: Floats


def cast_rays(viewpoints: Viewpoints, tangents: Floats, solid: Bools) -> Hits:
    """Return the nearest wall of each column.

    Args:
        viewpoints: camera poses of n visitors.
        tangents: (columns,) tangent of the angle between each column and the view axis; right is positive.
        solid: (n, SIZE * SIZE) wall cells.
    """
    ray_x = _never_zero(viewpoints.cos - viewpoints.sin * tangents)
    ray_y = _never_zero(viewpoints.sin + viewpoints.cos * tangents)
    to_x = _nearest(viewpoints.x, viewpoints.y, ray_x, ray_y, solid, 1, SIZE)
    to_y = _nearest(viewpoints.y, viewpoints.x, ray_y, ray_x, solid, SIZE, 1)
    upright = to_x <= to_y
    distance = np.minimum(np.minimum(to_x, to_y), _FAR)
    x, y = viewpoints.x + distance * ray_x, viewpoints.y + distance * ray_y
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
    """Return the (n, columns) distance to the nearest wall face on the grid lines of one axis."""
    distance = (_LINES - start[:, None]) * (1 / ray)[:, None]  # (n, lines, columns)
    place = across[:, None] + distance * ray_across[:, None]
    cell_across = np.clip(place, 0, SIZE - 1).astype(np.int32)
    behind = (_LINES.astype(np.int32) - (ray <= 0)[:, None]) * stride
    cell = cell_across * stride_across + behind + (np.arange(len(solid), dtype=np.int32) * SIZE * SIZE)[:, None, None]
    wall = solid.ravel().take(cell, mode="clip") & (distance > NEAREST)
    nearest: Floats = np.where(wall, distance, _FAR).min(axis=1)
    return nearest
