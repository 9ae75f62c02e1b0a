from __future__ import annotations

import numpy as np
import pytest

from realtime_engine.integrations.maze.motion import ORB, ORBS, VISITOR, first_orbs, first_visitor
from realtime_engine.integrations.maze.palette import theme_of
from realtime_engine.integrations.maze.renderer import Renderer, View
from realtime_engine.integrations.maze.textures import wall_textures
from realtime_engine.integrations.maze.world import make_world
from tests.integrations.maze.reference import ReferenceRenderer

WIDTH, HEIGHT = 320, 180
PROMPTS = ("", "ice", "lava", "forest", "night")


def renderer_of(seeds: list[int], rows: list[int] | None = None, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Renderer:
    """Seeds in rows, each with a prompt of its own."""
    rows = rows or list(range(len(seeds)))
    renderer = Renderer(max(rows) + 1, *size)
    for row, seed in zip(rows, seeds, strict=True):
        renderer.set_world(row, make_world(seed))
        renderer.set_theme(row, theme_of(PROMPTS[seed % len(PROMPTS)]))
    return renderer


def view_of(seeds: list[int], turn: float = 0.0, pitch: float = 0.0, orbs: bool = True) -> View:
    visitors = np.array([first_visitor(make_world(seed)) for seed in seeds], VISITOR)
    visitors["yaw"] = (visitors["yaw"] + turn) % 1
    visitors["pitch"] = pitch
    if orbs:
        return View(visitors, np.array([first_orbs(make_world(seed), seed) for seed in seeds], ORB))
    absent = np.zeros((len(seeds), ORBS), ORB)
    absent["x"] = -100
    return View(visitors, absent)


@pytest.mark.parametrize(("seed", "turn", "pitch"), [(0, 0.0, 0.0), (1, 0.08, 0.2), (2, -0.2, -0.25), (3, 0.5, 0.0)])
def test_the_picture_is_that_of_the_plain_renderer(seed: int, turn: float, pitch: float) -> None:
    view = view_of([seed], turn, pitch, orbs=False)
    got = renderer_of([seed], size=(640, 360)).render(np.array([0]), view)[0].astype(int)
    plain = ReferenceRenderer(make_world(seed), theme_of(PROMPTS[seed]), 640, 360)
    difference = np.abs(got - plain.render(view.visitors[0]))
    assert difference.mean() < 6 and np.median(difference) <= 2
    coarse = difference.reshape(36, 10, 64, 10, 3).mean(axis=(1, 3))
    assert np.percentile(coarse, 95) < 15


def test_a_picture_has_the_same_bytes_in_every_row_and_company() -> None:
    seeds = [0, 1, 2, 3, 4]
    together = renderer_of(seeds).render(np.arange(5), view_of(seeds, 0.03, 0.1)).copy()
    some = renderer_of([3, 1], rows=[0, 6]).render(np.array([6, 0]), view_of([1, 3], 0.03, 0.1)).copy()
    assert np.array_equal(some, together[[1, 3]])
    for seed in seeds:
        alone = renderer_of([seed]).render(np.array([0]), view_of([seed], 0.03, 0.1))
        assert np.array_equal(alone[0], together[seed])


def shift_between(before: np.ndarray, after: np.ndarray) -> int:
    """Pixels by which the middle of a picture has moved to the right."""
    middle = slice(WIDTH // 4, -WIDTH // 4)
    shifts = range(-60, 61)
    errors = [np.abs(np.roll(before, shift, 1)[:, middle] - after[:, middle]).mean() for shift in shifts]
    return shifts[int(np.argmin(errors))]


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_turning_left_moves_the_picture_right(seed: int) -> None:
    renderer, rows = renderer_of([seed]), np.array([0])
    before, left, right = (
        renderer.render(rows, view_of([seed], turn, orbs=False))[0].astype(int) for turn in (0.0, -0.01, 0.01)
    )
    assert shift_between(before, left) == pytest.approx(0.01 * 2 * np.pi * 0.78 * WIDTH, abs=4)
    assert shift_between(before, right) == pytest.approx(-0.01 * 2 * np.pi * 0.78 * WIDTH, abs=4)


def test_looking_up_moves_the_picture_down() -> None:
    renderer, rows = renderer_of([0]), np.array([0])
    level, up = (renderer.render(rows, view_of([0], 0, pitch, orbs=False))[0].astype(int) for pitch in (0.0, 0.1))
    moved = round(0.1 * HEIGHT)
    assert np.abs(up[moved + 20 : -20] - level[20 : -20 - moved]).mean() < 8
    assert np.abs(up - level).mean() > 8


def test_extreme_views_stay_inside_the_tables() -> None:
    seeds = [0, 1, 2, 3, 4]
    renderer = renderer_of(seeds, size=(160, 96))
    with np.errstate(all="raise"):
        for turn in np.arange(8) / 8 + 0.003:
            for pitch in (-0.3, 0.3):
                renderer.render(np.arange(5), view_of(seeds, turn, pitch))


def test_the_far_floor_is_calm() -> None:
    """No moire: a step of a tenth of a texel hardly changes the floor near the horizon."""
    renderer, rows = renderer_of([0], size=(640, 360)), np.array([0])
    view = view_of([0], orbs=False)
    before = renderer.render(rows, view)[0].astype(int)
    view.visitors["yaw"] += 0.0004
    after = renderer.render(rows, view)[0].astype(int)
    far, near = (np.abs(after - before)[band].mean() for band in (slice(195, 225), slice(300, 360)))
    assert far < 3 * max(near, 1)


def test_other_walls_change_the_walls_and_nothing_else() -> None:
    view, flat = view_of([0], orbs=False), np.full_like(wall_textures(), 80)
    own, same, other = (Renderer(1, WIDTH, HEIGHT, walls=walls) for walls in (None, wall_textures(), flat))
    pictures = []
    for renderer in (own, same, other):
        renderer.set_world(0, make_world(0))
        renderer.set_theme(0, theme_of(""))
        pictures.append(renderer.render(np.array([0]), view)[0].astype(int))
    assert np.array_equal(pictures[0], pictures[1])
    plain = ReferenceRenderer(make_world(0), theme_of(""), WIDTH, HEIGHT, walls=flat).render(view.visitors[0])
    assert np.abs(pictures[2] - plain).mean() < 8
    changed = np.abs(pictures[2] - pictures[0]).max(axis=2) > 4
    assert 0.05 < changed.mean() < 0.8
    ahead = slice(WIDTH // 2 - 20, WIDTH // 2 + 20)  # down a corridor: floor below, ceiling above
    assert not changed[-8:, ahead].any() and not changed[:8, ahead].any()
