from __future__ import annotations

import numpy as np
import pytest

from realtime_engine.integrations.maze.grid import SIZE
from realtime_engine.integrations.maze.motion import RADIUS
from realtime_engine.integrations.maze.rays import Viewpoints, cast_rays
from realtime_engine.integrations.maze.world import make_world
from tests.integrations.maze.reference import march

TANGENTS = np.linspace(-0.64, 0.64, 61, dtype=np.float32)


def viewpoint_at(x: np.ndarray, y: np.ndarray, yaw: np.ndarray) -> Viewpoints:
    values = (x, y, np.cos(2 * np.pi * yaw), np.sin(2 * np.pi * yaw))
    return Viewpoints(*(value.astype(np.float32)[:, None] for value in values))


def poses(seed: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    cells = np.argwhere(~make_world(seed).grid.solid)
    y, x = cells[random.integers(0, len(cells), count)].T
    offsets = random.uniform(RADIUS, 1 - RADIUS, (2, count))
    return x + offsets[0], y + offsets[1], random.random(count)


@pytest.mark.parametrize("seed", range(4))
def test_walls_are_where_a_march_from_cell_to_cell_finds_them(seed: int) -> None:
    grid = make_world(seed).grid
    x, y, yaw = poses(seed, 20)
    viewpoints = viewpoint_at(x, y, yaw)
    hits = cast_rays(viewpoints, TANGENTS, np.broadcast_to(grid.solid.ravel(), (20, SIZE * SIZE)))
    agreeing = 0
    for n, column in np.ndindex(hits.distance.shape):
        ray = float(hits.ray_x[n, column]), float(hits.ray_y[n, column])
        distance, cell_x, cell_y, upright = march(
            grid.solid, float(viewpoints.x[n, 0]), float(viewpoints.y[n, 0]), *ray
        )
        near = abs(float(hits.distance[n, column]) - distance) < 1e-3 * (1 + distance)
        same = hits.cell[n, column] == cell_y * SIZE + cell_x and hits.upright[n, column] == upright
        agreeing += near and same
    assert agreeing >= hits.distance.size - 2  # a ray through a corner may be told either way


def test_along_runs_from_left_to_right_on_all_four_sides() -> None:
    solid = np.ones((SIZE, SIZE), bool)
    solid[4:7, 4:7] = False
    quarter = np.arange(4) / 4
    hits = cast_rays(
        viewpoint_at(np.full(4, 5.5), np.full(4, 5.5), quarter),
        np.array([-0.1, 0.1], np.float32),
        np.broadcast_to(solid.ravel(), (4, SIZE * SIZE)),
    )
    assert np.allclose(hits.distance, 1.5, atol=1e-5)
    assert (hits.along[:, 0] < hits.along[:, 1]).all()


def test_rays_along_a_grid_axis_are_no_special_case() -> None:
    solid = np.ones((SIZE, SIZE), bool)
    solid[5, 1:9] = False
    with np.errstate(all="raise"):
        hits = cast_rays(
            Viewpoints(*(np.array([[value]], np.float32) for value in (2.5, 5.5, 1.0, 0.0))),
            np.zeros(1, np.float32),
            solid.reshape(1, -1),
        )
    assert hits.distance[0, 0] == pytest.approx(6.5)
