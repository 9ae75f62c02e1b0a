from __future__ import annotations

import numpy as np
import pytest

from realtime_engine.integrations.maze.palette import ORB_COLORS, theme_of
from realtime_engine.integrations.maze.rays import Hits
from realtime_engine.integrations.maze.sprites import PROFILE, Orbs, draw_orbs, glow_table, light_on_walls

HEIGHT, WIDTH, FOCAL = 48, 80, 60.0
TABLE = glow_table(theme_of("candy"))


def orbs_at(*places: tuple[float, float]) -> Orbs:
    """Orbs of one world at (depth, aside), at eye height."""
    depth, aside = (np.array([values], np.float32) for values in zip(*places, strict=True))
    return Orbs(depth, aside, depth, aside, np.zeros_like(depth))


def draw(orbs: Orbs, wall: float | np.ndarray = 10.0, worlds: int = 1) -> np.ndarray:
    picture = np.full((worlds, HEIGHT, WIDTH, 4), (20, 30, 40, 255), np.uint8)
    draw_orbs(
        picture.view(np.uint32)[..., 0],
        Orbs(*(np.repeat(getattr(orbs, name), worlds, 0) for name in ("x", "y", "depth", "aside", "height"))),
        np.broadcast_to(np.float32(wall), (worlds, WIDTH)),
        np.full(worlds, HEIGHT / 2, np.float32),
        FOCAL,
        np.ones((worlds, orbs.x.shape[1]), np.float32),
        np.repeat(TABLE[None], worlds, 0),
    )
    return picture


def draw_slowly(orbs: Orbs, wall: float) -> np.ndarray:
    """One pixel after the other, the farthest orb first, each with its light on the floor below it."""
    picture = np.full((HEIGHT, WIDTH, 4), (20, 30, 40, 255), np.uint8)
    for orb in np.argsort(-orbs.depth[0]):
        depth, aside = float(orbs.depth[0, orb]), float(orbs.aside[0, orb])
        for kind, radius, flat, center in (
            (1, 0.55, 0.5 / depth, HEIGHT / 2 + 0.5 * FOCAL / depth),
            (0, 0.36, 1, HEIGHT / 2),
        ):
            radius_x = radius * FOCAL / depth
            for y, x in np.ndindex(HEIGHT, WIDTH):
                across = (x - WIDTH / 2 - aside * FOCAL / depth) / radius_x
                squared = across**2 + ((y - center) / (radius_x * flat)) ** 2
                if squared < 1 and depth < wall:
                    light = TABLE[kind, orb % ORB_COLORS, int(squared * PROFILE)].astype(int)
                    picture[y, x] = np.minimum((picture[y, x] * (256 - light[3]) >> 8) + light, 255)
    return picture


@pytest.mark.parametrize("places", [[(2.0, 0.1)], [(1.5, -0.4), (3.0, -0.5), (2.0, 0.9)]])
def test_orbs_look_as_drawn_pixel_by_pixel(places: list[tuple[float, float]]) -> None:
    got, wanted = (
        draw(orbs_at(*places))[0, ..., :3].astype(int),
        draw_slowly(orbs_at(*places), 10.0)[..., :3].astype(int),
    )
    assert (np.abs(got - wanted) > 6).any(axis=-1).mean() < 0.005
    assert (wanted != wanted[0, 0]).any(axis=-1).mean() > 0.05


def test_a_wall_hides_what_is_behind_it_column_by_column() -> None:
    untouched = draw(orbs_at((20.0, 0.0)))
    assert np.array_equal(draw(orbs_at((3.0, 0.0)), wall=2.5), untouched)
    half = draw(orbs_at((3.0, 0.0)), wall=np.where(np.arange(WIDTH) < WIDTH // 2, 2.0, 9.0))
    full = draw(orbs_at((3.0, 0.0)))
    assert np.array_equal(half[:, :, WIDTH // 2 :], full[:, :, WIDTH // 2 :])
    assert np.array_equal(half[:, :, : WIDTH // 2], untouched[:, :, : WIDTH // 2])


@pytest.mark.parametrize("place", [(-2.0, 0.0), (0.2, 0.0), (2.0, 40.0)])
def test_orbs_out_of_view_leave_no_mark(place: tuple[float, float]) -> None:
    picture = draw(orbs_at(place))
    assert (picture == picture[0, 0, 0]).all()


def test_each_world_gets_the_same_picture_from_the_same_orbs() -> None:
    orbs = orbs_at((1.5, -0.4), (3.0, -0.5), (2.0, 0.9))
    together = draw(orbs, worlds=3)
    assert all(np.array_equal(picture, draw(orbs)[0]) for picture in together)


def test_orbs_light_the_walls_near_them() -> None:
    place = np.array([[1.2, 3.0, 9.0]], np.float32)
    zeros = np.zeros_like(place)
    upright, cell = np.zeros(place.shape, bool), np.zeros(place.shape, np.int32)
    levels = light_on_walls(orbs_at((1.0, 0.0)), Hits(zeros, place, zeros, zeros, zeros, upright, cell, zeros))[0]
    assert levels[0] > levels[1] >= levels[2] == 0
