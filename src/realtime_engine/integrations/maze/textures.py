"""Procedural wall, floor and ceiling textures of logarithmic brightness.

A texel is a *level*: ``ONE + STEPS * log2(brightness)``. Light is therefore added rather than multiplied, and a theme
is a table from material and level to color.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

ONE = 96
"""The level of brightness 1."""
STEPS = 16
"""Levels per doubling of brightness."""
LEVELS = 128
"""Number of levels per material."""
WALL_KINDS = 4
"""Brick, cobble, panels, planks: materials 0 to 3."""
FLAGSTONE, MOSAIC, COFFER, LAMP = range(WALL_KINDS, WALL_KINDS + 4)
"""Materials of floors, ceilings and lamps."""
MATERIALS = WALL_KINDS + 4
WALL_SIDE = 256
"""Texels per side of a wall texture."""
TILE_SIDE = 64
"""Texels per side of a floor or ceiling cell."""

Plane = NDArray[np.float64]
Levels = NDArray[np.uint8]
_DARKEST, _BRIGHTEST = 46, 104  # leaves headroom for light in both directions


def to_levels(brightness: Plane) -> Plane:
    """Convert brightness to levels, not rounded."""
    levels: Plane = ONE + STEPS * np.log2(np.maximum(brightness, 1e-3))
    return levels


@lru_cache(maxsize=1)
def wall_textures() -> Levels:
    """Return (WALL_KINDS, WALL_SIDE, WALL_SIDE) levels, indexed [kind, u, v]; v = 0 is the top."""
    random = np.random.default_rng(7)
    planes = [_brick(random), _cobble(random), _panels(random), _planks(random)]
    worn = [_finish(plane * _footing(), random) for plane in planes]
    return np.stack([np.ascontiguousarray(plane.T) for plane in worn])


@lru_cache(maxsize=1)
def flat_textures() -> dict[int, Levels]:
    """Return material -> (TILE_SIDE, TILE_SIDE) levels of one floor or ceiling cell, indexed [y, x]."""
    random = np.random.default_rng(11)
    planes = {
        FLAGSTONE: _flagstone(random),
        MOSAIC: _mosaic(random),
        COFFER: _coffer(random),
    }
    return {material: _finish(plane, random) for material, plane in planes.items()}


def lamp_mask() -> Plane:
    """Return (TILE_SIDE, TILE_SIDE) brightness of a round lamp at the center of a ceiling cell; 0 outside it."""
    y, x = (np.mgrid[:TILE_SIDE, :TILE_SIDE] + 0.5) / TILE_SIDE - 0.5
    radius = np.hypot(x, y)
    rings = 1.5 + 1.6 * np.clip(1 - radius / 0.2, 0, 1)
    return np.where(radius < 0.2, rings, np.where(radius < 0.235, 0.5, 0.0))


def halve(levels: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Return the next mip: means over 2 x 2 texels, with the material of the first texel."""
    low = levels & (LEVELS - 1)
    mean = (low[0::2, 0::2] + low[1::2, 0::2] + low[0::2, 1::2] + low[1::2, 1::2] + 2) >> 2
    material = levels[0::2, 0::2] & ~np.uint16(LEVELS - 1)
    mip: NDArray[np.uint16] = material | mean
    return mip


def _finish(brightness: Plane, random: np.random.Generator) -> Levels:
    grain = brightness * (0.93 + 0.14 * random.random(brightness.shape))
    return np.clip(np.rint(to_levels(grain)), _DARKEST, _BRIGHTEST).astype(np.uint8)


def _axes(side: int) -> tuple[Plane, Plane]:
    v, u = (np.mgrid[:side, :side] + 0.5) / side
    return u, v


def _footing() -> Plane:
    """Return the ambient occlusion at the top and bottom of a wall."""
    _, v = _axes(WALL_SIDE)
    return 1.0 - 0.55 * np.exp(-(1 - v) / 0.07) - 0.4 * np.exp(-v / 0.06)


def _noise(side: int, cells: int, random: np.random.Generator, octaves: int = 4) -> Plane:
    """Return periodic value noise in [0, 1] with ``octaves`` octaves (smoothstep between lattice values)."""
    total, weight, scale = np.zeros((side, side)), 0.0, 1.0
    for _ in range(octaves):
        lattice = random.random((cells, cells))
        at = np.arange(side) * cells / side
        low = at.astype(int)
        blend = (at - low) ** 2 * (3 - 2 * (at - low))
        rows = lattice[low] * (1 - blend[:, None]) + lattice[(low + 1) % cells] * blend[:, None]
        total += scale * (rows[:, low] * (1 - blend) + rows[:, (low + 1) % cells] * blend)
        weight, scale, cells = weight + scale, scale / 2, cells * 2
        if cells > side:
            break
    return total / weight


def _relief(height: Plane, strength: float) -> Plane:
    """Return the brightness of a height field lit from the upper left, about 1 where flat."""
    strength = strength * len(height) / 128  # slopes are differences between texels
    slope_u = np.roll(height, -1, 1) - np.roll(height, 1, 1)
    slope_v = np.roll(height, -1, 0) - np.roll(height, 1, 0)
    lit: Plane = np.clip(1 + strength * (0.5 * slope_u + slope_v), 0.35, 1.7)
    return lit


def _edge(local: Plane, size: float, width: float) -> Plane:
    """Return 0 at the rim of a cell of ``size``, rising to 1 at ``width`` inwards; ``local`` is the coordinate."""
    rim: Plane = np.clip(np.minimum(local, size - local) / width, 0, 1)
    return rim


def _blocks(
    side: int, columns: int, rows: int, joint: float, shift: float, random: np.random.Generator
) -> tuple[Plane, Plane]:
    """Return (profile, tone) of masonry: profile is 0 in joints and 1 on stones, tone is in [0, 1] per stone."""
    u, v = _axes(side)
    row = np.floor(v * rows).astype(int)
    along = (u * columns + shift * (row % 2)) % columns
    column = np.floor(along).astype(int)
    width = joint * rows
    profile = np.minimum(
        _edge(along - column, 1.0, joint * columns),
        _edge(v * rows - row, 1.0, width),
    )
    tones = random.random((rows, columns))
    return profile, tones[row, column]


def _brick(random: np.random.Generator) -> Plane:
    profile, tone = _blocks(WALL_SIDE, 4, 8, 0.022, 0.5, random)
    rough = _noise(WALL_SIDE, 16, random)
    surface = np.where(profile > 0.45, 0.5 + 0.42 * tone, 0.26) * (0.72 + 0.5 * rough)
    return surface * _relief(profile * 1.3 + 0.6 * rough, 0.55)


def _cobble(random: np.random.Generator) -> Plane:
    """Return rounded stones: a periodic Voronoi pattern on a jittered lattice, raised by the distance to the rim."""
    u, v = _axes(WALL_SIDE)
    count = 6
    lattice = (
        np.moveaxis(np.mgrid[:count, :count], 0, -1) + 0.5 + random.uniform(-0.36, 0.36, (count, count, 2))
    ) / count
    points = lattice.reshape(-1, 2)
    offset_v = (v[..., None] - points[:, 0] + 0.5) % 1 - 0.5
    offset_u = (u[..., None] - points[:, 1] + 0.5) % 1 - 0.5
    distance = np.hypot(offset_u, offset_v)
    nearest = np.argsort(distance, axis=-1)[..., :2]
    first, second = (np.take_along_axis(distance, nearest[..., i : i + 1], -1)[..., 0] for i in (0, 1))
    rim = np.clip((second - first) * count / 0.42, 0, 1)
    dome = np.sqrt(rim)
    tone = random.random(len(points))[nearest[..., 0]]
    rough = _noise(WALL_SIDE, 8, random)
    surface = (0.18 + dome * (0.3 + 0.35 * tone)) * (0.7 + 0.55 * rough)
    stones: Plane = surface * _relief(dome * 2.2 + 0.7 * rough, 0.6)
    return stones


def _panels(random: np.random.Generator) -> Plane:
    """Return 2 x 2 carved panels, each with a frame, a recess and a diamond."""
    u, v = _axes(WALL_SIDE)
    local_u, local_v = (u * 2) % 1, (v * 2) % 1
    rim = np.minimum(np.minimum(local_u, 1 - local_u), np.minimum(local_v, 1 - local_v))
    diamond = np.clip((0.27 - (np.abs(local_u - 0.5) + np.abs(local_v - 0.5))) / 0.09, 0, 1)
    stud = np.clip((0.045 - np.hypot(np.abs(local_u - 0.5) - 0.3, np.abs(local_v - 0.5) - 0.3)) / 0.03, 0, 1)
    height = np.clip(rim / 0.03, 0, 1) - 0.9 * np.clip((rim - 0.11) / 0.03, 0, 1) + diamond + stud
    rough = _noise(WALL_SIDE, 8, random)
    tone = random.random((2, 2))[np.floor(v * 2).astype(int), np.floor(u * 2).astype(int)]
    surface = (0.46 + 0.08 * tone + 0.16 * diamond + 0.1 * stud) * (0.78 + 0.4 * rough)
    return np.where(rim < 0.014, 0.2, surface) * _relief(height, 0.55)


def _planks(random: np.random.Generator) -> Plane:
    """Return vertical boards with grain, and two beams with nails."""
    u, v = _axes(WALL_SIDE)
    boards = 6
    board = np.floor(u * boards).astype(int)
    warp = _noise(WALL_SIDE, 4, random)
    phase = random.random(boards)[board]
    grain = 0.5 + 0.5 * np.sin(2 * np.pi * (u * boards * 4 + 2.2 * warp + 5 * phase + np.sin(2 * np.pi * (v + phase))))
    seam = _edge(u * boards - board, 1.0, 0.1)
    tone = random.random(boards)[board]
    wood = (0.42 + 0.28 * tone) * (0.68 + 0.22 * grain + 0.25 * warp) * (0.3 + 0.7 * seam)
    beam = (np.abs(v - 0.14) < 0.075) | (np.abs(v - 0.86) < 0.075)
    nail = np.hypot(((u * boards) % 1 - 0.5) / boards, np.minimum(np.abs(v - 0.14), np.abs(v - 0.86))) < 0.016
    height = np.where(beam, 2.0, seam) + 0.25 * grain
    beam_wood = 0.62 * (0.7 + 0.5 * _noise(WALL_SIDE, 4, random))
    surface = np.where(nail, 0.2, np.where(beam, beam_wood, wood))
    return surface * _relief(height, 0.45)


def _flagstone(random: np.random.Generator) -> Plane:
    profile, tone = _blocks(TILE_SIDE, 2, 2, 0.035, 0.5, random)
    rough = _noise(TILE_SIDE, 8, random)
    surface = np.where(profile > 0.5, 0.5 + 0.22 * tone, 0.24) * (0.7 + 0.55 * rough)
    return surface * _relief(profile * 1.2 + 0.8 * rough, 0.4)


def _mosaic(random: np.random.Generator) -> Plane:
    """Return a checkerboard of small tiles with a dark diamond at the center and a border."""
    u, v = _axes(TILE_SIDE)
    checks = (np.floor(u * 6) + np.floor(v * 6)) % 2
    joint = np.minimum(_edge((u * 6) % 1, 1.0, 0.22), _edge((v * 6) % 1, 1.0, 0.22))
    rim = np.minimum(np.minimum(u, 1 - u), np.minimum(v, 1 - v))
    diamond = np.abs(u - 0.5) + np.abs(v - 0.5)
    inlay = np.where(diamond < 0.2, 0.3, np.where(diamond < 0.27, 0.85, 0.36 + 0.26 * checks))
    base = np.where(rim < 0.05, 0.3, inlay)
    return base * (0.5 + 0.5 * joint) * (0.85 + 0.25 * _noise(TILE_SIDE, 8, random))


def _coffer(random: np.random.Generator) -> Plane:
    u, v = _axes(TILE_SIDE)
    rim = np.minimum(np.minimum(u, 1 - u), np.minimum(v, 1 - v))
    height = 2 * np.clip(1 - rim / 0.14, 0, 1) + np.clip(1 - np.abs(rim - 0.28) / 0.05, 0, 1)
    rough = _noise(TILE_SIDE, 8, random)
    surface = np.where(rim < 0.12, 0.52, 0.36) * (0.75 + 0.45 * rough)
    return surface * _relief(height, 0.35)
