"""Where a visitor of the level can stand, and the way back there from anywhere else."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..maze.motion import RADIUS
from .level import SIDE, level

_LENGTHS = (0.01, 0.17)  # cells a step, from a creeping to a running visitor
_AT_THE_WALL = 0.6  # share of the moves that end near a wall
_FARTHEST = 1.4  # lengths of a move that a wall gives way at most; a visitor far inside a wall takes some steps
_BLOCKS = ((0, 0), (1, 0), (0, 1), (1, 1))  # how far blocks of cells reach that are open together


def nearest_ground(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest place to each of (n, 2) points at which a visitor touches no wall; the point itself if it is one."""
    inside = np.clip(points[:, None], _rooms()[:, :2], _rooms()[:, 2:])  # (n, rooms, 2)
    nearest = np.square(inside - points[:, None]).sum(-1).argmin(1)
    found: NDArray[np.float64] = inside[np.arange(len(points)), nearest]
    return found


class Pushes(NamedTuple):
    """Moves and what walls do to them, (n, 2) each in cells: where they would end, the way, the correction."""

    ends: NDArray[np.float32]
    ways: NDArray[np.float32]
    corrections: NDArray[np.float32]


def pushes(count: int, random: np.random.Generator) -> Pushes:
    """Moves to learn walls from: all over the level, most of them ending near a wall, on either side of it."""
    angle = random.uniform(0, 2 * np.pi, count)
    shortest, longest = np.log(_LENGTHS).tolist()
    length = np.exp(random.uniform(shortest, longest, count))[:, None]
    anywhere = random.uniform(0.3, SIDE - 0.3, (count, 2))
    near = nearest_ground(anywhere) + random.normal(0, 0.7, (count, 2)) * length
    ends = np.where(random.random((count, 1)) < _AT_THE_WALL, near, anywhere)
    back = nearest_ground(ends) - ends
    far = np.hypot(*back.T)[:, None]
    back *= np.minimum(1, _FARTHEST * length / np.maximum(far, 1e-9))
    ways = np.stack([np.cos(angle), np.sin(angle)], 1) * length
    return Pushes(ends.astype(np.float32), ways.astype(np.float32), back.astype(np.float32))


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
