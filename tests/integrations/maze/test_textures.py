from __future__ import annotations

import numpy as np

from realtime_engine.integrations.maze.textures import (
    LEVELS,
    ONE,
    STEPS,
    TILE_SIDE,
    WALL_KINDS,
    WALL_SIDE,
    flat_textures,
    halve,
    lamp_mask,
    to_levels,
    wall_textures,
)


def test_levels_are_logarithmic() -> None:
    assert to_levels(np.array([0.5, 1.0, 2.0])).tolist() == [ONE - STEPS, ONE, ONE + STEPS]


def test_wall_textures_differ_have_detail_and_leave_room_for_light() -> None:
    textures = wall_textures()
    assert textures.shape == (WALL_KINDS, WALL_SIDE, WALL_SIDE)
    assert textures.min() >= 44 and textures.max() <= LEVELS - 1 - 22
    assert all(texture.std() > 5 for texture in textures)
    assert len({texture.tobytes() for texture in textures}) == WALL_KINDS


def test_flat_textures_cover_a_cell() -> None:
    assert all(texture.shape == (TILE_SIDE, TILE_SIDE) for texture in flat_textures().values())
    assert lamp_mask()[TILE_SIDE // 2, TILE_SIDE // 2] > 1 and lamp_mask()[0, 0] == 0


def test_walls_tile_sideways() -> None:
    for texture in wall_textures().astype(int):
        seam = np.abs(texture[0] - texture[-1]).mean()
        inside = np.abs(np.diff(texture, axis=0)).mean(axis=1).max()
        assert seam <= inside


def test_halving_keeps_the_material_and_takes_the_mean_level() -> None:
    levels = np.array([[10, 12], [14, 18]], np.uint16) + np.uint16(3 * LEVELS)
    assert halve(levels).tolist() == [[3 * LEVELS + 14]]
