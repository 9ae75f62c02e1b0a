from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.integrations.maze.grid import SIZE
from realtime_engine.integrations.maze.motion import (
    MAX_PITCH,
    ORBS,
    RADIUS,
    VISITOR,
    Motion,
    MotionControls,
    cosine,
    first_orbs,
    first_visitor,
    sine,
)
from realtime_engine.integrations.maze.world import make_world

FPS = 30


def walk(given: list[dict[str, Any]], seed: int = 0, fps: float = FPS) -> np.ndarray:
    """Records of one visitor, before the first chunk and after each."""
    world, motion = make_world(seed), Motion(1 / fps)
    visitors = first_visitor(world)[None].copy()
    solid = world.grid.solid.reshape(1, -1)
    path = [visitors.copy()]
    for conditioning in given:
        controls = MotionControls([conditioning])
        motion.look(visitors, controls)
        motion.walk(visitors, controls, solid)
        path.append(visitors.copy())
    return np.concatenate(path)


def touches_wall(seed: int, x: float, y: float) -> bool:
    solid = make_world(seed).grid.solid
    return any(solid[math.floor(y + dy), math.floor(x + dx)] for dx in (-RADIUS, RADIUS) for dy in (-RADIUS, RADIUS))


axes = st.floats(-1, 1)
legs = st.lists(st.tuples(axes, axes, axes, st.booleans(), st.integers(1, 40)), min_size=1, max_size=12)


@given(legs=legs, seed=st.integers(0, 3), fps=st.sampled_from([5.0, 30.0, 60.0]))
def test_no_walk_ends_in_a_wall(legs: list[tuple[float, float, float, bool, int]], seed: int, fps: float) -> None:
    given_ = [
        {"forward": forward, "strafe": strafe, "turn": turn, "run": run}
        for forward, strafe, turn, run, frames in legs
        for _ in range(frames)
    ]
    for visitor in walk(given_, seed, fps):
        assert not touches_wall(seed, float(visitor["x"]), float(visitor["y"]))


def test_a_visitor_slides_along_a_wall() -> None:
    solid = np.ones((SIZE, SIZE), bool)
    solid[5, 1:9] = False
    visitors, motion = np.zeros(1, VISITOR), Motion(1 / FPS)
    visitors["x"], visitors["y"], visitors["yaw"] = 1.5, 5.5, 1 / 12  # 30 degrees to the right of the corridor
    for _ in range(60):
        motion.walk(visitors, MotionControls([{"forward": 1.0}]), solid.reshape(1, -1))
    assert visitors["y"][0] == pytest.approx(6 - RADIUS, abs=1e-5)
    assert visitors["x"][0] > 4.5


def test_walking_starts_and_ends_softly() -> None:
    path = walk([{"forward": 1.0}] * 15 + [{}] * 15)
    steps = np.hypot(np.diff(path["x"]), np.diff(path["y"]))
    assert (np.diff(steps[:15]) > 0).all() and (np.diff(steps[15:]) < 0).all()


def test_run_is_faster() -> None:
    walked, run = (walk([{"forward": 1.0, "run": fast}] * 20) for fast in (False, True))
    assert (
        abs(run["x"] + run["y"] - run["x"][0] - run["y"][0])[-1]
        > 1.4 * abs(walked["x"] + walked["y"] - walked["x"][0] - walked["y"][0])[-1]
    )


def test_turning_right_is_positive() -> None:
    path = walk([{"turn": 0.5}] * 10)
    assert (np.diff(np.unwrap(path["yaw"] * 2 * np.pi)) > 0).all()


def test_the_pointer_turns_and_tilts_within_limits() -> None:
    event = {"kind": "pointer_move", "dx": -10, "dy": -10}
    once, twice = walk([{"events": [event]}])[-1], walk([{"events": [event, event]}])[-1]
    start = make_world(0).grid.heading / 4
    assert (twice["yaw"] - start) % 1 == pytest.approx(2 * ((once["yaw"] - start) % 1) % 1)
    assert once["pitch"] > 0
    assert walk([{"events": [{"kind": "pointer_move", "dy": 1e6}]}])[-1]["pitch"] == -MAX_PITCH


def test_what_is_absent_not_finite_or_unknown_is_nothing() -> None:
    idle = walk([{}] * 3)
    odd = {"forward": math.nan, "strafe": math.inf, "turn": -math.inf, "jump": 1}
    events = ["noise", {"kind": "key"}, {"kind": "pointer_move", "dx": math.nan}, {"kind": "pointer_move"}]
    assert np.array_equal(walk([{**odd, "events": events}] * 3), idle)


def test_axes_are_clamped() -> None:
    assert np.array_equal(walk([{"forward": 9.0}] * 5), walk([{"forward": 1}] * 5))


def test_a_wrong_type_is_named() -> None:
    with pytest.raises(ValueError, match="strafe must be a number, got 'left'"):
        MotionControls([{"strafe": "left"}])


def test_sines_come_from_a_table_fine_enough_for_a_pixel() -> None:
    turns = np.linspace(-1, 2, 1001)
    assert np.allclose(sine(turns), np.sin(2 * np.pi * turns), atol=1e-4)
    assert np.allclose(cosine(turns), np.cos(2 * np.pi * turns), atol=1e-4)


def test_orbs_drift_through_open_cells_and_turn_corners() -> None:
    world, motion = make_world(2), Motion(1 / FPS)
    orbs = first_orbs(world, 2)[None].copy()
    cells: list[set[int]] = [set() for _ in range(ORBS)]
    for _ in range(900):
        before = orbs.copy()
        motion.drift(orbs, world.turns[None])
        x, y = orbs["x"][0], orbs["y"][0]
        assert not world.grid.solid[y.astype(int), x.astype(int)].any()
        assert np.hypot(x - before["x"][0], y - before["y"][0]).max() < 0.1
        for orb, cell in enumerate(orbs["cell"][0].tolist()):
            cells[orb].add(cell)
    assert all(len(visited) > 8 for visited in cells)
    assert any(len({cell % SIZE for cell in c}) > 1 and len({cell // SIZE for cell in c}) > 1 for c in cells)


def test_controls_that_are_arrays_already_are_those_of_the_mappings() -> None:
    given = [
        {"forward": 1, "strafe": -0.5, "run": True, "events": [{"kind": "pointer_move", "dx": 7, "dy": -3}]},
        {"turn": 0.25},
    ]
    told = MotionControls(given)
    same = MotionControls.of(
        np.array([1, 0.0]),
        np.array([-0.5, 0]),
        np.array([0, 0.25]),
        np.array([True, False]),
        np.array([[7.0, -3.0], [0, 0]]),
    )
    assert vars(told).keys() == vars(same).keys()
    world, motion, visitors = make_world(0), Motion(1 / FPS), []
    for controls in (told, same):
        both = np.array([first_visitor(world)] * 2, VISITOR)
        for _ in range(5):
            motion.look(both, controls)
            motion.walk(both, controls, np.tile(world.grid.solid.ravel(), (2, 1)))
        visitors.append(both)
    assert np.array_equal(*visitors)
    assert visitors[0]["pitch"][0] > 0 and visitors[0]["yaw"][1] != visitors[0]["yaw"][0]
