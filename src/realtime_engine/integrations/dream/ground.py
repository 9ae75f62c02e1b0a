"""Where a visitor of the level can stand, and the way back there from anywhere else."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..maze.motion import RADIUS
from .level import SIDE, level

_BLOCKS = ((0, 0), (1, 0), (0, 1), (1, 1))  # how far blocks of cells reach that are open together


def nearest_ground(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest place to each of (n, 2) points at which a visitor touches no wall; the point itself if it is one."""
    inside = np.clip(points[:, None], _rooms()[:, :2], _rooms()[:, 2:])  # (n, rooms, 2)
    nearest = np.square(inside - points[:, None]).sum(-1).argmin(1)
    found: NDArray[np.float64] = inside[np.arange(len(points)), nearest]
    return found


@lru_cache(maxsize=1)
def _rooms() -> NDArray[np.float64]:
    """(n, 4) boxes x0, y0, x1, y1 which together are all places where a visitor can stand."""
    solid = level().grid.solid
    boxes = [
        (x + RADIUS, y + RADIUS, x + dx + 1 - RADIUS, y + dy + 1 - RADIUS)
        for y in range(SIDE - 1)
        for x in range(SIDE - 1)
        for dx, dy in _BLOCKS
        if not solid[y : y + dy + 1, x : x + dx + 1].any()
    ]
    return np.array(boxes)
