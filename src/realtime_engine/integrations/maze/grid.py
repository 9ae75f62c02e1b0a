"""Generates the map of a world: wall cells and their kinds, lamps, start cell and heading."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .textures import WALL_KINDS

SIZE = 16
"""Cells per side of the map; a power of two, so that coordinates can be masked."""

_LAST = SIZE - 3  # corridors have odd coordinates from 1 to 13
_ROOMS = 3
_LAMPS = 11
_LAMP_SPACING = 2.5
HEADINGS = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""Unit steps (dx, dy) of the four headings; heading ``h`` is ``h`` quarter turns to the right of +x."""

Random = np.random.Generator
Kinds = NDArray[np.uint8]


@dataclass(frozen=True)
class Grid:
    """A connected maze with loops and a few rooms, closed by its border.

    Attributes:
        kinds: (SIZE, SIZE) uint8, indexed [y, x]; 0 is open, ``k`` is a wall with texture ``k - 1``.
        rooms: (SIZE, SIZE) bool, open cells of rooms.
        lamps: (n, 2) integers, cells [x, y] with a ceiling lamp.
        start: cell (x, y) at one end of the longest straight corridor.
        heading: index into :data:`HEADINGS`, along that corridor.
    """

    kinds: Kinds
    rooms: NDArray[np.bool_]
    lamps: NDArray[np.int64]
    start: tuple[int, int]
    heading: int

    @property
    def solid(self) -> NDArray[np.bool_]:
        """Wall cells, (SIZE, SIZE) bool, indexed [y, x]."""
        return self.kinds > 0


def make_grid(random: Random) -> Grid:
    """Generate a map; the state of the random generator determines it."""
    open_cells = np.zeros((SIZE, SIZE), bool)
    _carve(open_cells, random)
    _braid(open_cells, random)
    rooms = _add_rooms(open_cells, random)
    kinds = np.where(open_cells, 0, _districts(random)).astype(np.uint8)
    start, heading = _longest_view(open_cells)
    first_lamp = np.add(start, np.multiply(HEADINGS[heading], 2))
    return Grid(kinds, rooms, _hang_lamps(open_cells, rooms, first_lamp, random), start, heading)


def _carve(open_cells: NDArray[np.bool_], random: Random) -> None:
    """Carve a perfect maze by depth-first search (recursive backtracker)."""
    path = [(1, 1)]
    open_cells[1, 1] = True
    while path:
        x, y = path[-1]
        unvisited = [
            (dx, dy)
            for dx, dy in HEADINGS
            if 1 <= x + 2 * dx <= _LAST and 1 <= y + 2 * dy <= _LAST and not open_cells[y + 2 * dy, x + 2 * dx]
        ]
        if not unvisited:
            path.pop()
            continue
        dx, dy = unvisited[int(random.integers(len(unvisited)))]
        open_cells[y + dy, x + dx] = open_cells[y + 2 * dy, x + 2 * dx] = True
        path.append((x + 2 * dx, y + 2 * dy))


def _braid(open_cells: NDArray[np.bool_], random: Random) -> None:
    """Connect each dead end to a neighboring corridor."""
    for y in range(1, _LAST + 1, 2):
        for x in range(1, _LAST + 1, 2):
            closed = [(dx, dy) for dx, dy in HEADINGS if not open_cells[y + dy, x + dx]]
            inner = [(dx, dy) for dx, dy in closed if 1 <= x + 2 * dx <= _LAST and 1 <= y + 2 * dy <= _LAST]
            if len(closed) == 3 and inner:
                dx, dy = inner[int(random.integers(len(inner)))]
                open_cells[y + dy, x + dx] = True


def _add_rooms(open_cells: NDArray[np.bool_], random: Random) -> NDArray[np.bool_]:
    rooms = np.zeros_like(open_cells)
    for _ in range(_ROOMS):
        x, y = (int(value) * 2 + 1 for value in random.integers(0, _LAST // 2 - 1, 2))
        width, height = ((3, 5) if random.random() < 0.5 else (5, 3)) if random.random() < 0.6 else (3, 3)
        rooms[y : min(y + height, _LAST + 1), x : min(x + width, _LAST + 1)] = True
    open_cells |= rooms
    return rooms


def _districts(random: Random) -> Kinds:
    """Return a wall kind per cell, that of the nearest of several random points, so kinds form districts."""
    count = WALL_KINDS + 3
    points = random.uniform(0, SIZE, (count, 2))
    kinds = np.concatenate([random.permutation(WALL_KINDS), random.integers(0, WALL_KINDS, count - WALL_KINDS)]) + 1
    y, x = np.mgrid[:SIZE, :SIZE]
    distance = (x[..., None] - points[:, 0]) ** 2 + (y[..., None] - points[:, 1]) ** 2
    nearest: Kinds = kinds[np.argmin(distance, axis=-1)].astype(np.uint8)
    return nearest


def _longest_view(open_cells: NDArray[np.bool_]) -> tuple[tuple[int, int], int]:
    best: tuple[int, tuple[int, int], int] = (0, (1, 1), 0)
    for y, x in np.argwhere(open_cells).tolist():
        for heading, (dx, dy) in enumerate(HEADINGS):
            if open_cells[y - dy, x - dx]:
                continue
            length = 1
            while open_cells[y + dy * length, x + dx * length]:
                length += 1
            if length > best[0]:
                best = (length, (x, y), heading)
    return best[1], best[2]


def _hang_lamps(
    open_cells: NDArray[np.bool_], rooms: NDArray[np.bool_], first: NDArray[np.int64], random: Random
) -> NDArray[np.int64]:
    """Place lamps in open cells with a minimum spacing: ``first``, then rooms, then corridors."""
    cells = np.argwhere(open_cells)[:, ::-1]
    order = np.argsort(random.random(len(cells)) - rooms[cells[:, 1], cells[:, 0]])
    lamps = [first]
    for cell in cells[order]:
        if len(lamps) < _LAMPS and all(np.hypot(*(cell - other)) >= _LAMP_SPACING for other in lamps):
            lamps.append(cell)
    return np.array(lamps, np.int64)
