from __future__ import annotations

import cv2
import numpy as np
import pytest

from realtime_engine.integrations.dream.level import (
    HEIGHT,
    SIDE,
    THEMES,
    WIDTH,
    TrueView,
    level,
    open_cells,
    start_pose,
    theme_of,
    wall_textures,
)
from realtime_engine.integrations.maze.grid import HEADINGS
from realtime_engine.integrations.maze.renderer import BRIGHTEST, DARKEST
from realtime_engine.integrations.maze.textures import LEVELS, WALL_KINDS, WALL_SIDE, to_levels
from tests.integrations.maze.reference import ReferenceRenderer

PLACES = np.array([[1.5, 7.5, 0.0], [3.4, 3.6, 0.3], [5.2, 5.7, 0.62], [7.5, 2.4, 0.9], [2.6, 7.3, 0.13]])
ALL_THEMES = np.array([0, 1, 2, 0, 1])


def test_walls_close_the_level() -> None:
    solid = level().grid.solid
    assert solid[[0, SIDE - 1], :].all() and solid[:, [0, SIDE - 1]].all()
    assert solid[SIDE:].all() and solid[:, SIDE:].all()


def test_every_open_cell_can_be_reached() -> None:
    cells = {(x, y) for x, y in open_cells().tolist()}
    reached, ahead = set(), [min(cells)]
    while ahead:
        x, y = ahead.pop()
        reached.add((x, y))
        ahead += [way for dx, dy in HEADINGS if (way := (x + dx, y + dy)) in cells - reached]
    assert reached == cells
    assert {(x, y) for y, x in np.argwhere(~level().grid.solid).tolist()} == cells


def test_lamps_hang_in_open_cells_and_floors_differ() -> None:
    world = level()
    x, y = world.grid.lamps.T
    assert not world.grid.solid[y, x].any()
    side = world.floor.shape[1] // len(world.grid.kinds)
    material = world.floor[side // 2 :: side, side // 2 :: side][: len(world.grid.kinds)] // LEVELS
    assert len(np.unique(material[~world.grid.solid])) == 5


def test_wall_textures_are_four_that_stay_in_their_material_in_any_light() -> None:
    walls = wall_textures()
    assert walls.shape == (WALL_KINDS, WALL_SIDE, WALL_SIDE)
    assert int(walls.min()) + DARKEST >= 0 and int(walls.max()) + BRIGHTEST < LEVELS
    assert set(np.unique(walls)) == {int(np.rint(to_levels(np.array(value)))) for value in (0.45, 1.0)}
    for kind, other in np.argwhere(~np.tri(WALL_KINDS, dtype=bool)).tolist():
        assert (walls[kind] != walls[other]).mean() > 0.1


def test_all_themes_look_different() -> None:
    view = TrueView()
    for place in PLACES:
        pictures = view.at(np.stack([place] * len(THEMES)), np.arange(len(THEMES))).astype(int)
        for one, other in ((0, 1), (0, 2), (1, 2)):
            assert np.abs(pictures[one] - pictures[other]).mean() > 10


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_picture_is_that_of_the_plain_renderer(index: int) -> None:
    view = TrueView()
    got = view.at(PLACES[index : index + 1], ALL_THEMES[index : index + 1])[0].astype(int)
    theme = theme_of(THEMES[ALL_THEMES[index]])
    visitor = start_pose(0)
    visitor["x"], visitor["y"], visitor["yaw"] = PLACES[index]
    large = ReferenceRenderer(level(), theme, 3 * WIDTH, 3 * HEIGHT, wall_textures()).render(visitor)
    plain = cv2.resize(large, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
    difference = np.abs(got - plain)
    assert difference.mean() < 5 and np.median(difference) <= 2


def test_a_picture_does_not_depend_on_its_company() -> None:
    view = TrueView()
    together = view.at(PLACES, ALL_THEMES)
    assert together.shape == (len(PLACES), HEIGHT, WIDTH, 3) and together.dtype == np.uint8
    for index in range(len(PLACES)):
        alone = TrueView().at(PLACES[index : index + 1], ALL_THEMES[index : index + 1])
        assert np.array_equal(alone[0], together[index])
    assert np.array_equal(view.at(PLACES[::-1], ALL_THEMES[::-1]), together[::-1])


def test_pictures_are_kept_when_others_are_rendered() -> None:
    view = TrueView()
    first = view.at(PLACES[:1], ALL_THEMES[:1])
    kept = first.copy()
    view.at(PLACES[1:2], ALL_THEMES[1:2])
    assert np.array_equal(first, kept)


def test_a_walk_begins_in_the_middle_of_a_cell_with_two_open_cells_ahead() -> None:
    solid, places = level().grid.solid, set()
    for seed in range(40):
        visitor = start_pose(seed)
        x, y, quarter = float(visitor["x"]) - 0.5, float(visitor["y"]) - 0.5, float(visitor["yaw"]) * 4
        assert (x % 1, y % 1, quarter % 1) == (0, 0, 0)
        dx, dy = HEADINGS[int(quarter)]
        assert not any(solid[int(y) + k * dy, int(x) + k * dx] for k in range(3))
        assert np.array_equal(start_pose(seed), visitor)
        places.add((x, y, quarter))
    assert len(places) > 10
