from __future__ import annotations

import numpy as np
import pytest

from realtime_engine.integrations.dream.ground import nearest_ground, pushes
from realtime_engine.integrations.dream.level import SIDE, level
from realtime_engine.integrations.dream.walks import Walkers
from realtime_engine.integrations.maze.motion import RADIUS


def touches_a_wall(x: float, y: float) -> bool:
    """Whether the square that a visitor fills reaches into a wall, corner by corner; by a hair is not."""
    half = RADIUS - 1e-9
    return any(level().grid.solid[int(y + dy), int(x + dx)] for dx in (-half, half) for dy in (-half, half))


def test_who_touches_no_wall_stays() -> None:
    random = np.random.default_rng(1)
    points = random.uniform(RADIUS, SIDE - RADIUS, (600, 2))
    free = np.array([not touches_a_wall(x, y) for x, y in points])
    assert 0.1 < free.mean() < 0.9
    stays = (nearest_ground(points) == points).all(1)
    np.testing.assert_array_equal(stays, free)


def test_the_others_are_sent_to_the_nearest_place_of_all() -> None:
    random = np.random.default_rng(2)
    fine = np.stack(np.meshgrid(*[np.arange(0, SIDE, 0.02)] * 2), -1).reshape(-1, 2)
    inner = fine[((fine > RADIUS) & (fine < SIDE - RADIUS)).all(1)]
    ground = inner[[not touches_a_wall(x, y) for x, y in inner]]
    for point in random.uniform(0, SIDE, (60, 2)):
        found = nearest_ground(point[None])[0]
        assert not touches_a_wall(*found)
        nearest = np.hypot(*(ground - point).T).min()
        assert np.hypot(*(found - point)) <= nearest + 1e-9
        assert np.hypot(*(found - point)) > nearest - 0.03  # the grid is that coarse


def test_walkers_are_on_the_ground_always() -> None:
    walkers = Walkers(64, seed=5)
    places = walkers.walk(300).places[..., :2].reshape(-1, 2)
    assert np.hypot(*(nearest_ground(places) - places).T).max() < 1e-5


def test_pushes_lead_back_to_the_ground_no_faster_than_they_may() -> None:
    ends, ways, corrections = pushes(4000, np.random.default_rng(3))
    length, pushed = np.hypot(*ways.T), np.hypot(*corrections.T)
    assert length.min() >= 0.0099 and length.max() <= 0.171
    assert (pushed <= 1.4 * length + 1e-6).all()
    arrived = ends + corrections
    left = np.hypot(*(nearest_ground(arrived.astype(float)) - arrived).T)
    before = np.hypot(*(nearest_ground(ends.astype(float)) - ends).T)
    np.testing.assert_allclose(left, before - pushed, atol=2e-5)
    assert 0.2 < (pushed > 0).mean() < 0.9


@pytest.mark.parametrize("seed", [0, 1])
def test_pushes_follow_from_the_generator(seed: int) -> None:
    first, again = (pushes(16, np.random.default_rng(seed)) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
