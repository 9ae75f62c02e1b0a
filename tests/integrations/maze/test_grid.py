from __future__ import annotations

import numpy as np
import pytest

from realtime_engine.integrations.maze.grid import HEADINGS, SIZE, Grid, make_grid
from realtime_engine.integrations.maze.textures import WALL_KINDS

SEEDS = range(40)


def grid_of(seed: int) -> Grid:
    return make_grid(np.random.default_rng(seed))


def reachable(grid: Grid) -> set[tuple[int, int]]:
    seen, todo = {grid.start}, [grid.start]
    while todo:
        x, y = todo.pop()
        for dx, dy in HEADINGS:
            cell = (x + dx, y + dy)
            if not grid.solid[cell[1], cell[0]] and cell not in seen:
                seen.add(cell)
                todo.append(cell)
    return seen


@pytest.mark.parametrize("seed", SEEDS)
def test_every_open_cell_can_be_reached(seed: int) -> None:
    grid = grid_of(seed)
    assert len(reachable(grid)) == np.count_nonzero(~grid.solid)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_border_is_closed(seed: int) -> None:
    solid = grid_of(seed).solid
    assert solid[0].all() and solid[-1].all() and solid[:, 0].all() and solid[:, -1].all()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_start_looks_down_a_corridor(seed: int) -> None:
    grid = grid_of(seed)
    dx, dy = HEADINGS[grid.heading]
    x, y = grid.start
    assert not any(grid.solid[y + dy * step, x + dx * step] for step in range(5))


@pytest.mark.parametrize("seed", SEEDS)
def test_lamps_hang_in_open_cells_apart_from_one_another(seed: int) -> None:
    grid = grid_of(seed)
    assert not grid.solid[grid.lamps[:, 1], grid.lamps[:, 0]].any()
    assert len({tuple(cell) for cell in grid.lamps.tolist()}) == len(grid.lamps) > 3


def test_seeds_give_different_maps_and_the_same_seed_the_same() -> None:
    maps = {grid_of(seed).kinds.tobytes() for seed in SEEDS}
    assert len(maps) == len(SEEDS)
    assert np.array_equal(grid_of(5).kinds, grid_of(5).kinds)


def test_all_kinds_of_wall_are_used_and_nothing_else() -> None:
    kinds = np.concatenate([grid_of(seed).kinds.ravel() for seed in SEEDS])
    assert set(np.unique(kinds)) == set(range(WALL_KINDS + 1))
    assert grid_of(0).kinds.shape == (SIZE, SIZE)
