"""The same picture the plain way: one world, one column after the other, grid cells visited one by one.

What :mod:`.renderer` is checked against and measured against. It draws no orbs and resamples nothing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from realtime_engine.integrations.maze.grid import SIZE
from realtime_engine.integrations.maze.motion import Records
from realtime_engine.integrations.maze.palette import Theme
from realtime_engine.integrations.maze.renderer import (
    BRIGHTEST,
    DARKEST,
    FIELD,
    LIGHT_OFFSET,
    SHARP_FLAT,
    SHARP_WALL,
    SIDE_SHADE,
)
from realtime_engine.integrations.maze.shading import fog_steps, torch_levels
from realtime_engine.integrations.maze.textures import (
    LEVELS,
    MATERIALS,
    TILE_SIDE,
    WALL_SIDE,
    Levels,
    halve,
    wall_textures,
)
from realtime_engine.integrations.maze.world import LIGHT_SIDE, MIPS, STRIDE, World, mip_origin


def march(solid: NDArray[np.bool_], x: float, y: float, ray_x: float, ray_y: float) -> tuple[float, int, int, bool]:
    """Walk along a ray from cell to cell to the first wall (Amanatides and Woo, "A Fast Voxel Traversal", 1987).

    Returns:
        The distance in lengths of the ray, the wall's cell (x, y), and whether its face has constant x.
    """
    cell_x, cell_y = math.floor(x), math.floor(y)
    step_x, step_y = (1 if ray_x > 0 else -1), (1 if ray_y > 0 else -1)
    each_x, each_y = abs(1 / ray_x) if ray_x else math.inf, abs(1 / ray_y) if ray_y else math.inf
    next_x = (cell_x + (step_x > 0) - x) / ray_x if ray_x else math.inf
    next_y = (cell_y + (step_y > 0) - y) / ray_y if ray_y else math.inf
    while True:
        upright = next_x <= next_y
        distance = next_x if upright else next_y
        if upright:
            cell_x, next_x = cell_x + step_x, next_x + each_x
        else:
            cell_y, next_y = cell_y + step_y, next_y + each_y
        if solid[cell_y, cell_x]:
            return distance, cell_x, cell_y, upright


class ReferenceRenderer:
    """Renders one world in one theme, ``width`` by ``height`` pixels; ``walls`` as :class:`.renderer.Renderer`."""

    def __init__(self, world: World, theme: Theme, width: int, height: int, walls: Levels | None = None) -> None:
        self._world, self._theme, self._width, self._height = world, theme, width, height
        self._focal = FIELD * width
        self._walls = [_mips(kind) for kind in (wall_textures() if walls is None else walls)]

    def render(self, visitor: Records) -> NDArray[np.uint8]:
        """(height, width, 3) RGB of what the visitor sees."""
        colours = self._theme.lookup.view(np.uint8).reshape(-1, 4)
        picture = np.empty((self._height, self._width, 3), np.uint8)
        for column in range(self._width):
            tangent = (column + 0.5 - self._width / 2) / self._focal
            picture[:, column] = colours[self._column(visitor, tangent), :3]
        return picture

    def _column(self, visitor: Records, tangent: float) -> NDArray[np.int64]:
        """(height,) indices of colours."""
        x, y, yaw = float(visitor["x"]), float(visitor["y"]), float(visitor["yaw"]) * 2 * math.pi
        ray_x, ray_y = (
            math.cos(yaw) - math.sin(yaw) * tangent,
            math.sin(yaw) + math.cos(yaw) * tangent,
        )
        distance, cell_x, cell_y, upright = march(self._world.grid.solid, x, y, ray_x, ray_y)
        below = np.arange(self._height) + 0.5 - self._height * (0.5 + float(visitor["pitch"]))
        wall = np.abs(below) < self._focal / distance / 2
        entries = np.empty(self._height, np.int64)
        entries[~wall] = self._flat(below[~wall], x, y, ray_x, ray_y)
        hit_x, hit_y = x + distance * ray_x, y + distance * ray_y
        kind = int(self._world.grid.kinds[cell_y, cell_x]) - 1
        place = hit_y % 1 if upright else hit_x % 1
        along = place if (ray_x > 0 if upright else ray_y < 0) else 1 - place
        facing = abs(ray_x if upright else ray_y)
        texture = self._walls[kind][
            _mip(WALL_SIDE * distance / self._focal / math.sqrt(facing) * SHARP_WALL, len(self._walls[kind]))
        ]
        side = len(texture)
        v = ((0.5 + below[wall] * distance / self._focal) * side).astype(int)
        light_x = hit_x - (math.copysign(LIGHT_OFFSET, ray_x) if upright else 0)
        light_y = hit_y - (0 if upright else math.copysign(LIGHT_OFFSET, ray_y))
        scale = LIGHT_SIDE / SIZE
        lift = int(self._world.light[int(light_y * scale), int(light_x * scale)]) + (0 if upright else SIDE_SHADE)
        texels = kind * LEVELS + texture[min(int(along * side), side - 1), np.clip(v, 0, side - 1)].astype(int)
        lift = min(max(lift + int(torch_levels(np.array(distance))), DARKEST), BRIGHTEST)
        entries[wall] = texels + lift + self._fog(np.array([distance])) * MATERIALS * LEVELS
        return entries

    def _flat(self, below: NDArray[np.float64], x: float, y: float, ray_x: float, ray_y: float) -> NDArray[np.int64]:
        rows = np.abs(below)
        distance = self._focal * 0.5 / rows
        entries = np.empty(len(rows), np.int64)
        for i, (row, away) in enumerate(zip(rows.tolist(), distance.tolist(), strict=True)):
            mip = _mip(TILE_SIDE * math.sqrt(away / self._focal * away / row) * SHARP_FLAT, MIPS)
            side = TILE_SIDE >> mip
            texel_x, texel_y = math.floor((x + away * ray_x) * side), math.floor((y + away * ray_y) * side)
            atlas = self._world.floor if below[i] > 0 else self._world.ceiling
            entries[i] = atlas.ravel()[mip_origin(mip) + texel_y * STRIDE + texel_x]
        entries += torch_levels(distance).astype(np.int64) + self._fog(distance) * MATERIALS * LEVELS
        return entries

    def _fog(self, distance: NDArray[np.float64]) -> NDArray[np.int64]:
        return fog_steps(self._theme.density, distance).astype(np.int64)


def _mip(texels_a_pixel: float, mips: int) -> int:
    return min(max(math.floor(math.log2(texels_a_pixel)), 0), mips - 1)


def _mips(texture: NDArray[np.uint8]) -> list[NDArray[np.uint16]]:
    mips = [texture.astype(np.uint16)]
    while len(mips[-1]) > 2:
        mips.append(halve(mips[-1]))
    return mips
