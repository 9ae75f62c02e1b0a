from __future__ import annotations

import math

import numpy as np

from realtime_engine.integrations.dream.level import level
from realtime_engine.integrations.dream.walks import CONTROLS, STEP_S, Walkers, control_numbers
from realtime_engine.integrations.maze.motion import RADIUS, Controls, Motion


def test_nobody_ever_stands_in_a_wall() -> None:
    places = Walkers(64, seed=1).walk(300).places
    solid = level().grid.solid
    for dx in (-RADIUS, RADIUS):
        for dy in (-RADIUS, RADIUS):
            assert not solid[(places[..., 1] + dy).astype(int), (places[..., 0] + dx).astype(int)].any()


def test_walkers_see_the_whole_level_and_all_directions() -> None:
    places = Walkers(128, seed=1).walk(300).places.reshape(-1, 3)
    visited = {(int(x), int(y)) for x, y in places[:, :2].tolist()}
    assert visited == {(x, y) for y, x in np.argwhere(~level().grid.solid).tolist()}
    assert (np.histogram(places[:, 2], 16, (0, 1))[0] > 0).all()


def test_walkers_get_about_and_bump_into_walls_too() -> None:
    walks = Walkers(64, seed=1).walk(300)
    way = np.hypot(*np.moveaxis(np.diff(walks.places[..., :2], axis=0), 2, 0))
    assert way.sum(0).mean() > 5  # cells in ten seconds
    wanted = np.hypot(walks.controls[..., 0], walks.controls[..., 1]) > 0.5
    assert 0 < (way[wanted] < 0.2 * 2.1 * STEP_S).mean() < 0.5


def test_controls_are_within_their_range() -> None:
    controls = Walkers(64, seed=1).walk(300).controls
    assert controls.shape == (300, 64, CONTROLS) and controls.dtype == np.float32
    forward, strafe, running, aside, turn, pointer = np.moveaxis(controls, 2, 0)
    assert np.abs([forward, strafe, turn]).max() <= 1
    assert min(forward.min(), strafe.min(), turn.min()) == -1 and max(forward.max(), strafe.max(), turn.max()) == 1
    run = (running != 0) | (aside != 0)
    assert np.array_equal(running[run], forward[run]) and np.array_equal(aside[run], strafe[run])
    assert 0.05 < run.mean() < 0.5
    assert 0 < (pointer != 0).mean() < 0.2 and 0.1 < pointer.std() * math.sqrt(1 / 0.08) < 0.5


def test_places_are_those_of_the_mazes_motion() -> None:
    walkers = Walkers(8, seed=3)
    walkers.walk(40)
    visitors = walkers.visitors.copy()
    walks = walkers.walk(40)
    motion, solid = Motion(STEP_S), np.tile(level().grid.solid.ravel(), (8, 1))
    for told, place in zip(walks.controls.astype(float), walks.places[1:], strict=True):
        run = (told[:, 2] != 0) | (told[:, 3] != 0)
        pointer = np.stack([told[:, 5] * 100, np.zeros(8)], 1)
        controls = Controls.of(told[:, 0], told[:, 1], told[:, 4], run, pointer)
        motion.look(visitors, controls)
        motion.walk(visitors, controls, solid)
        off = np.stack([visitors[name] for name in ("x", "y", "yaw")], 1) - place
        off[:, 2] -= np.rint(off[:, 2])
        assert np.abs(off).max() < 1e-5


def test_walks_follow_from_the_seed() -> None:
    one, same, other = (Walkers(16, seed).walk(50) for seed in (5, 5, 6))
    assert np.array_equal(one.places, same.places) and np.array_equal(one.controls, same.controls)
    assert not np.array_equal(one.places[0], other.places[0]) and not np.array_equal(one.controls, other.controls)


def test_a_walk_goes_on_where_the_one_before_ended() -> None:
    walkers = Walkers(16, seed=5)
    first, second = walkers.walk(20), walkers.walk(30)
    whole = Walkers(16, seed=5).walk(50)
    assert np.array_equal(np.concatenate([first.places, second.places[1:]]), whole.places)
    assert np.array_equal(np.concatenate([first.controls, second.controls]), whole.controls)


def test_turning_left_turns_left_on_the_spot() -> None:
    walkers = Walkers(16, seed=5)
    walkers.walk(50)
    walkers.rest()
    walks = walkers.turn_left(60)
    assert np.array_equal(walks.controls, np.tile(np.float32([0, 0, 0, 0, -1, 0]), (60, 16, 1)))
    turned = np.diff(walks.places[..., 2], axis=0)
    turned -= np.rint(turned)
    assert (turned < 0).all() and np.allclose(turned[-1], -0.3 * STEP_S, atol=1e-4)
    assert np.array_equal(walks.places[-1, :, :2], walks.places[0, :, :2])


def test_rest_stops_everybody_where_they_are() -> None:
    walkers = Walkers(16, seed=5)
    walkers.walk(50)
    before = walkers.places()
    assert walkers.visitors["ahead"].any()
    walkers.rest()
    nothing = np.zeros(16)
    still = Controls.of(nothing, nothing, nothing, np.zeros(16, bool), np.zeros((16, 2)))
    Motion(STEP_S).walk(walkers.visitors, still, np.tile(level().grid.solid.ravel(), (16, 1)))
    assert np.array_equal(walkers.places(), before)


def test_control_numbers_tell_running_apart() -> None:
    told = control_numbers(
        Controls(
            [
                {"forward": 1, "strafe": -0.5, "turn": 0.25, "events": [{"kind": "pointer_move", "dx": 50, "dy": 9}]},
                {"forward": 1, "strafe": -0.5, "run": True},
            ]
        )
    )
    assert told.dtype == np.float32
    assert told.tolist() == [[1, -0.5, 0, 0, 0.25, 0.5], [1, -0.5, 1, -0.5, 0, 0]]
