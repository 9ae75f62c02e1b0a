"""Builds the world of a seed: map, light map, and pre-rendered textures of floor and ceiling."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .grid import HEADINGS, SIZE, Grid, make_grid
from .textures import (
    COFFER,
    FLAGSTONE,
    LAMP,
    LEVELS,
    MOSAIC,
    ONE,
    TILE_SIDE,
    Levels,
    flat_textures,
    halve,
    lamp_mask,
    to_levels,
)

STRIDE = SIZE * TILE_SIDE
"""Texels per row of an atlas."""
MIPS = 6
"""Number of mip levels of floor and ceiling."""
ATLAS_ROWS = STRIDE + STRIDE // 2
LIGHT_SIDE = SIZE * 16
"""Samples per side of the light map."""

_COARSE = 4  # computed light samples per side of a cell
TORCH = 10
"""Levels that the torch of the visitor adds at most to a texel."""
_BRIGHTEST = LEVELS - 1 - TORCH
_AMBIENT = 0.18
_CEILING_SHADE = np.int16(-5)
_LIGHT_RANGE = (-44, 20)  # in levels

Atlas = NDArray[np.uint16]


@dataclass(frozen=True)
class World:
    """World data for renderer and motion; shared between sessions and read-only.

    Attributes:
        grid: the map.
        floor, ceiling: (ATLAS_ROWS, STRIDE) uint16 atlases of material and lit level: mip 0, and below it the
            smaller mips in a row; see :func:`mip_origin`.
        light: (LIGHT_SIDE, LIGHT_SIDE) int16 levels added by the lamps to a wall, indexed [y, x].
        turns: (SIZE * SIZE, 4, 4) uint8: (cell, heading on arrival, choice) -> next heading.
    """

    grid: Grid
    floor: Atlas
    ceiling: Atlas
    light: NDArray[np.int16]
    turns: NDArray[np.uint8]


@dataclass(frozen=True)
class Surface:
    """An unlit floor or ceiling.

    Attributes:
        levels: (STRIDE, STRIDE) levels of the texels, indexed [y, x].
        material: (SIZE, SIZE) uint16, the material of each cell.
    """

    levels: Levels
    material: NDArray[np.uint16]


@lru_cache(maxsize=4)
def make_world(seed: int) -> World:
    """Return the world of a seed (an integer of 0 or more)."""
    grid = make_grid(np.random.default_rng(seed))
    return build_world(grid, _paving(grid), _coffers())


def build_world(grid: Grid, floor: Surface, ceiling: Surface) -> World:
    """Return the world of a map with the given floor and ceiling; adds the lamps."""
    light = _as_levels(_enlarge(_lamp_light(grid), LIGHT_SIDE))
    fine = light.repeat(STRIDE // LIGHT_SIDE, 0).repeat(STRIDE // LIGHT_SIDE, 1)
    world = World(
        grid=grid,
        floor=_atlas(_lit(floor, fine)),
        ceiling=_atlas(_ceiling_texels(grid, ceiling, fine)),
        light=light,
        turns=_turns(grid.solid),
    )
    for array in (world.floor, world.ceiling, world.light, world.turns, grid.kinds):
        array.setflags(write=False)
    return world


def mip_origin(mip: int) -> int:
    """Return the index of the first texel of a mip in a flattened atlas."""
    if mip == 0:
        return 0
    return STRIDE * STRIDE + sum(STRIDE >> smaller for smaller in range(1, mip))


def _atlas(texels: Atlas) -> Atlas:
    atlas = np.zeros((ATLAS_ROWS, STRIDE), np.uint16)
    atlas[:STRIDE] = texels
    for mip in range(1, MIPS):
        texels = halve(texels)
        side = len(texels)
        column = mip_origin(mip) - STRIDE * STRIDE
        atlas[STRIDE : STRIDE + side, column : column + side] = texels
    return atlas


def _lamp_light(grid: Grid) -> NDArray[np.float64]:
    """Return (SIZE * 4, SIZE * 4) light of the lamps visible from each point; low in walls, which darkens corners."""
    inside = grid.solid.repeat(_COARSE, 0).repeat(_COARSE, 1)
    row, column = np.nonzero(~inside)
    y, x = (row + 0.5) / _COARSE, (column + 0.5) / _COARSE
    lamp_x, lamp_y = (grid.lamps.T + 0.5)[..., None]
    seen = np.ones((len(grid.lamps), len(x)), bool)
    for part in np.linspace(0.04, 0.96, 26):
        on_x, on_y = lamp_x + (x - lamp_x) * part, lamp_y + (y - lamp_y) * part
        seen &= ~grid.solid[on_y.astype(np.intp), on_x.astype(np.intp)]
    squared = (lamp_x - x) ** 2 + (lamp_y - y) ** 2
    light = np.full(inside.shape, 0.3 * _AMBIENT + 0.02)
    light[row, column] = _AMBIENT + np.where(seen, 1.45 / (1 + 0.55 * squared), 0).sum(axis=0)
    return light


def _enlarge(plane: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    """Resample a square plane to (side, side) with a separable tent filter."""
    enlarged: NDArray[np.float64] = _enlarge_rows(_enlarge_rows(plane, side).T, side).T
    return enlarged


def _enlarge_rows(plane: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    count = len(plane)
    at = (np.arange(side) + 0.5) * count / side - 0.5
    total, weights = np.zeros((side, plane.shape[1])), np.zeros((side, 1))
    for offset in (-1, 0, 1, 2):
        row = np.floor(at).astype(np.intp) + offset
        weight = np.clip(1.6 - np.abs(at - row), 0, None)[:, None]  # a filter wider than the spacing hides the lattice
        total += weight * plane[np.clip(row, 0, count - 1)]
        weights += weight
    enlarged: NDArray[np.float64] = total / weights
    return enlarged


def _as_levels(light: NDArray[np.float64]) -> NDArray[np.int16]:
    return np.clip(np.rint(to_levels(light) - ONE), *_LIGHT_RANGE).astype(np.int16)


def _lit(surface: Surface, light: NDArray[np.int16]) -> Atlas:
    texels: Atlas = np.clip(surface.levels + light, 0, _BRIGHTEST).astype(np.uint16)
    texels += (surface.material * np.uint16(LEVELS)).repeat(TILE_SIDE, 0).repeat(TILE_SIDE, 1)
    return texels


def _paving(grid: Grid) -> Surface:
    tiles = flat_textures()
    in_room = grid.rooms.repeat(TILE_SIDE, 0).repeat(TILE_SIDE, 1)
    levels = np.where(in_room, np.tile(tiles[MOSAIC], (SIZE, SIZE)), np.tile(tiles[FLAGSTONE], (SIZE, SIZE)))
    return Surface(levels, np.where(grid.rooms, MOSAIC, FLAGSTONE).astype(np.uint16))


def _coffers() -> Surface:
    levels = np.tile(flat_textures()[COFFER], (SIZE, SIZE))
    return Surface(levels, np.full((SIZE, SIZE), COFFER, np.uint16))


def _ceiling_texels(grid: Grid, ceiling: Surface, light: NDArray[np.int16]) -> Atlas:
    texels = _lit(ceiling, light + _CEILING_SHADE)
    mask = lamp_mask()
    bulb = (LAMP * LEVELS + np.clip(to_levels(np.maximum(mask, 0.1)), 0, _BRIGHTEST)).astype(np.uint16)
    for x, y in grid.lamps.tolist():
        cell = texels[y * TILE_SIDE : (y + 1) * TILE_SIDE, x * TILE_SIDE : (x + 1) * TILE_SIDE]
        np.copyto(cell, bulb, where=mask > 0)
    return texels


def _turns(solid: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return for each cell, heading and choice the next heading of an orb: backwards only in a dead end."""
    turns = np.zeros((SIZE * SIZE, 4, 4), np.uint8)
    for y, x in np.argwhere(~solid).tolist():
        ways = [h for h, (dx, dy) in enumerate(HEADINGS) if not solid[y + dy, x + dx]]
        for heading in range(4):
            onward = [way for way in ways if way != (heading + 2) % 4] or [(heading + 2) % 4]
            turns[y * SIZE + x, heading] = [onward[choice % len(onward)] for choice in range(4)]
    return turns
