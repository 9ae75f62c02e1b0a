from __future__ import annotations

import numpy as np
import pytest

from realtime_engine.integrations.maze.grid import HEADINGS, SIZE
from realtime_engine.integrations.maze.textures import COFFER, FLAGSTONE, LAMP, LEVELS, MOSAIC, TILE_SIDE, halve
from realtime_engine.integrations.maze.world import MIPS, STRIDE, TORCH, Surface, build_world, make_world, mip_origin


def mip_of(atlas: np.ndarray, mip: int) -> np.ndarray:
    side = STRIDE >> mip
    index = mip_origin(mip) + np.arange(side)[:, None] * STRIDE + np.arange(side)
    return atlas.ravel()[index]


@pytest.mark.parametrize("surface", ["floor", "ceiling"])
def test_each_mip_is_the_half_of_the_one_before(surface: str) -> None:
    atlas = getattr(make_world(4), surface)
    for mip in range(1, MIPS):
        assert np.array_equal(mip_of(atlas, mip), halve(mip_of(atlas, mip - 1)))


def test_surfaces_have_their_materials_and_room_for_the_torch() -> None:
    world = make_world(4)
    assert set(np.unique(mip_of(world.floor, 0) // LEVELS)) <= {FLAGSTONE, MOSAIC}
    assert set(np.unique(mip_of(world.ceiling, 0) // LEVELS)) == {COFFER, LAMP}
    for atlas in (world.floor, world.ceiling):
        assert (mip_of(atlas, 0) % LEVELS).max() < LEVELS - TORCH


def test_it_is_brightest_under_a_lamp_and_dark_in_the_wall() -> None:
    world = make_world(4)
    samples = len(world.light) // SIZE
    cells = world.light.reshape(SIZE, samples, SIZE, samples).mean(axis=(1, 3))
    x, y = world.grid.lamps.T
    assert cells[y, x].mean() > cells[~world.grid.solid].mean() > cells[world.grid.solid].mean()


def test_a_lamp_hangs_in_the_middle_of_its_cell() -> None:
    world = make_world(4)
    x, y = world.grid.lamps[0] * TILE_SIDE + TILE_SIDE // 2
    assert world.ceiling[y, x] // LEVELS == LAMP


def test_turns_lead_on_to_open_cells_and_back_only_from_dead_ends() -> None:
    world = make_world(4)
    solid = world.grid.solid
    for y, x in np.argwhere(~solid).tolist():
        ways = {h for h, (dx, dy) in enumerate(HEADINGS) if not solid[y + dy, x + dx]}
        for heading in range(4):
            back = (heading + 2) % 4
            onward = set(world.turns[y * SIZE + x, heading].tolist())
            assert onward <= ways
            assert back not in onward or ways == {back}


def test_worlds_are_shared_and_cannot_be_written_to() -> None:
    assert make_world(4) is make_world(4)
    with pytest.raises(ValueError):
        make_world(4).floor[0, 0] = 1


def test_a_world_can_have_other_surfaces() -> None:
    grid = make_world(4).grid
    material = np.arange(SIZE * SIZE, dtype=np.uint16).reshape(SIZE, SIZE) % 8
    ramp = np.tile(np.linspace(50, 90, STRIDE).astype(np.uint8), (STRIDE, 1))
    world = build_world(grid, Surface(ramp, material), Surface(ramp.T, material[::-1]))
    floor, ceiling = mip_of(world.floor, 0), mip_of(world.ceiling, 0)
    assert np.array_equal(floor[::TILE_SIDE, ::TILE_SIDE] // LEVELS, material)
    corners = ceiling[::TILE_SIDE, ::TILE_SIDE] // LEVELS  # a lamp hangs in the middle of its cell
    assert np.array_equal(corners, material[::-1])
    assert np.array_equal(world.light, make_world(4).light) and np.array_equal(world.turns, make_world(4).turns)
    lit = floor.astype(int) % LEVELS - ramp
    samples = world.light.repeat(STRIDE // len(world.light), 0).repeat(STRIDE // len(world.light), 1)
    unclipped = (ramp + samples.astype(int) > 0) & (ramp + samples.astype(int) < LEVELS - 1 - TORCH)
    assert np.array_equal(lit[unclipped], samples[unclipped]) and unclipped.mean() > 0.5
    x, y = grid.lamps[0] * TILE_SIDE + TILE_SIDE // 2
    assert world.ceiling[y, x] // LEVELS == LAMP


def test_rooms_have_a_floor_of_their_own() -> None:
    world = make_world(4)
    in_room = world.grid.rooms.repeat(TILE_SIDE, 0).repeat(TILE_SIDE, 1)
    material = mip_of(world.floor, 0) // LEVELS
    assert set(np.unique(material[in_room])) == {MOSAIC} and set(np.unique(material[~in_room])) == {FLAGSTONE}
