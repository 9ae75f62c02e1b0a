"""The level of the dream: a small map in strong colors, and its reference pictures rendered by the maze."""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from ..maze.grid import HEADINGS, SIZE, Grid
from ..maze.motion import ORB, VISITOR, Records
from ..maze.palette import Theme
from ..maze.renderer import Renderer, View
from ..maze.textures import COFFER, FLAGSTONE, LEVELS, TILE_SIDE, WALL_SIDE, Levels, to_levels
from ..maze.world import Surface, World, build_world

HEIGHT, WIDTH = 64, 96
"""Size of a dream picture in pixels."""
SIDE = 9
"""Cells per side of the level, including its border."""
THEMES = ("day", "ember", "frost")
"""Color themes of the level."""

_OVERSAMPLING = 2  # reference pictures are rendered at this scale and averaged, to avoid aliasing
_MAP = """
rrrrryyyy
r...r...y
r.r.y.y.y
r.r...y.y
b.bb.g..y
b....g.gg
b.b..g..g
b.......g
bbbbbgggg
"""
# Floor material of each cell; a dot is flagstone.
_PAVING = """
.........
.55533333
.5.5.3.3.
.5.555.3.
.0.....3.
.00....5.
.0.00.55.
.0002222.
.........
"""
_KINDS = "rybg"  # of walls, one letter per kind
_LAMPS = ((1, 1), (7, 1), (3, 3), (5, 3), (1, 5), (4, 6), (7, 7))
# Per theme: colors of the materials (walls, floors, ceiling, lamp), shadow, fog, exposure, contrast.
_COLORS = {
    "day": ("d8402f f0b428 3565e0 35b558 9a8f84 c79ae0 6c7890 fff2cc", "241c30", "303848", 1.15, 0.8),
    "ember": ("e05a20 f2d060 8a2f6a c8803a 6a4038 d0603c 4a2c34 ffd080", "3a0c10", "501810", 1.2, 0.8),
    "frost": ("7a8ce8 a8f0f4 2f50a8 58c8d8 a8b8c8 6090e0 8aa0b8 f4ffff", "142448", "90b0d0", 1.1, 0.75),
}

STEP_S = 1 / 30
"""Length of a step of the dynamics, in seconds."""
CONTROLS = 6
"""Controls per step: forward, strafe, both again while running, turn, pointer travel in units of 100 pixels."""


@lru_cache(maxsize=1)
def level() -> World:
    """Return the level as a world of the maze, in the corner of a map that is otherwise solid wall."""
    kinds = np.ones((SIZE, SIZE), np.uint8)
    kinds[:SIDE, :SIDE] = [[_KINDS.find(cell) + 1 for cell in row] for row in _MAP.split()]
    grid = Grid(kinds, np.zeros((SIZE, SIZE), bool), np.array(_LAMPS, np.int64), start=(1, 7), heading=0)
    material = np.full((SIZE, SIZE), FLAGSTONE, np.uint16)
    for y, row in enumerate(_PAVING.split()):
        for x, cell in enumerate(row):
            if cell != ".":
                material[y, x] = int(cell)
    ceiling = np.full_like(material, COFFER)
    return build_world(grid, Surface(_flat(_tiles()), material), Surface(_flat(_plain()), ceiling))


def open_cells() -> NDArray[np.int64]:
    """Return the (n, 2) open cells [x, y]."""
    return np.argwhere(~level().grid.solid)[:, ::-1].astype(np.int64)


class TrueView:
    """Renders reference pictures of the level from a batch of poses.

    Args:
        height, width: size of a picture in pixels.
    """

    def __init__(self, height: int = HEIGHT, width: int = WIDTH) -> None:
        self.height, self.width = height, width
        self._renderer = Renderer(len(THEMES), width * _OVERSAMPLING, height * _OVERSAMPLING, walls=wall_textures())
        for row, name in enumerate(THEMES):
            self._renderer.set_world(row, level())
            self._renderer.set_theme(row, theme_of(name))

    def __call__(self, visitors: Records, themes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Render (n, height, width, 3) RGB for n visitors, with themes given by index in :data:`THEMES`."""
        large = self._renderer.render(themes, View(visitors, np.zeros((len(visitors), 0), ORB)))
        pictures = np.empty((len(visitors), self.height, self.width, 3), np.uint8)
        for picture, source in zip(pictures, large, strict=True):
            cv2.resize(source, (self.width, self.height), dst=picture, interpolation=cv2.INTER_AREA)
        return pictures

    def at(self, places: NDArray[np.float64], themes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Render from (n, 3) places: x, y in cells, yaw in turns."""
        visitors = np.zeros(len(places), VISITOR)
        visitors["x"], visitors["y"], visitors["yaw"] = places.T
        return self(visitors, themes)


def start_pose(seed: int) -> Records:
    """Return the start pose of a seed as a 0-d record: the center of a cell, facing an open corridor."""
    random = np.random.default_rng([seed, 2])
    solid = level().grid.solid
    ways = [
        (x, y, heading)
        for x, y in open_cells().tolist()
        for heading, (dx, dy) in enumerate(HEADINGS)
        if not solid[y + dy, x + dx] and not solid[y + 2 * dy, x + 2 * dx]
    ]
    x, y, heading = ways[int(random.integers(len(ways)))]
    visitor = np.zeros((), VISITOR)
    visitor["x"], visitor["y"], visitor["yaw"] = x + 0.5, y + 0.5, heading / 4
    return visitor


@lru_cache(maxsize=len(THEMES))
def theme_of(name: str) -> Theme:
    """Return the maze theme with the colors of one of :data:`THEMES`."""
    materials, shadow, fog, exposure, contrast = _COLORS[name]
    return Theme(
        materials=tuple(_rgb(color) for color in materials.split()),
        shadow=_rgb(shadow),
        fog=_rgb(fog),
        density=0.05,
        orbs=(_rgb("ffffff"),) * 3,
        exposure=exposure,
        contrast=contrast,
    )


@lru_cache(maxsize=1)
def wall_textures() -> Levels:
    """Return (4, WALL_SIDE, WALL_SIDE) levels, indexed [kind, u, v]: coarse panels, bands, checks and a diamond."""
    u, v = (np.mgrid[:WALL_SIDE, :WALL_SIDE] + 0.5) / WALL_SIDE
    marks = (
        (np.abs(u - 0.5) < 0.25) & (np.abs(v - 0.5) < 0.3),
        np.abs(v - 0.5) < 0.17,
        (u < 0.5) ^ (v < 0.5),
        np.abs(u - 0.5) + np.abs(v - 0.5) < 0.38,
    )
    planes = [np.where(mark, 1.0, 0.45) for mark in marks]
    return np.stack([_levels(plane) for plane in planes])


def _rgb(text: str) -> tuple[float, float, float]:
    red, green, blue = (int(text[i : i + 2], 16) / 255 for i in (0, 2, 4))
    return red, green, blue


def _tiles() -> NDArray[np.float64]:
    v, u = (np.mgrid[:TILE_SIDE, :TILE_SIDE] + 0.5) / TILE_SIDE
    return np.where((u < 0.5) ^ (v < 0.5), 0.75, 0.5)


def _plain() -> NDArray[np.float64]:
    return np.full((TILE_SIDE, TILE_SIDE), 0.5)


def _flat(plane: NDArray[np.float64]) -> Levels:
    return np.tile(_levels(plane), (SIZE, SIZE))


def _levels(brightness: NDArray[np.float64]) -> Levels:
    return np.clip(np.rint(to_levels(brightness)), 0, LEVELS - 1).astype(np.uint8)
