from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from realtime_engine.integrations.compare.walk import TrueMotion
from realtime_engine.integrations.dream.level import start_pose

BOTH = np.array([0, 2])


def told(row: int, step: int) -> dict[str, Any]:
    return {"forward": 1.0, "turn": 0.4 * row - 0.3, "events": [{"kind": "pointer_move", "dx": step * row, "dy": -90}]}


def test_rows_walk_as_they_would_alone() -> None:
    together, alone = TrueMotion(3), TrueMotion(3)
    for walk in (together, alone):
        walk.enter(0, seed=4)
        walk.enter(2, seed=9)
    for step in range(5):
        ages = np.array([step, step])
        seen = together.go(BOTH, ages, [told(0, step), told(2, step)], frames=2, steps=2)
        for index, row in enumerate(BOTH.tolist()):
            wanted = alone.go(np.array([row]), ages[:1], [told(row, step)], frames=2, steps=2)
            assert np.array_equal(seen[:, index], wanted[:, 0])
    assert seen["x"][-1, 0] != start_pose(4)["x"] or seen["y"][-1, 0] != start_pose(4)["y"]


def test_all_look_straight_ahead() -> None:
    walk = TrueMotion(1)
    walk.enter(0, seed=4)
    seen = walk.go(np.array([0]), np.array([0]), [told(1, 3)], frames=1, steps=1)
    assert seen["pitch"].tolist() == [[0.0]]
    assert seen["yaw"][0, 0] != start_pose(4)["yaw"]


def test_a_step_is_made_again_from_the_same_place() -> None:
    walk = TrueMotion(3)
    walk.enter(0, seed=4)
    walk.enter(2, seed=9)
    for age in range(3):
        ages = np.array([age, age])
        before = walk.visitors(BOTH, ages)
        with pytest.raises(ValueError, match="forward must be a number"):
            walk.go(BOTH, ages, [told(0, age), {"forward": "no"}], frames=1, steps=2)
        first = walk.go(BOTH, ages, [told(0, age), told(2, age)], frames=1, steps=2)
        assert np.array_equal(walk.visitors(BOTH, ages), before)
        assert np.array_equal(walk.go(BOTH, ages, [told(0, age), told(2, age)], frames=1, steps=2), first)
        assert np.array_equal(walk.visitors(BOTH, ages + 1), first[0])


def test_a_row_begins_anew() -> None:
    walk = TrueMotion(1)
    walk.enter(0, seed=4)
    walk.go(np.array([0]), np.array([0]), [told(1, 3)], frames=1, steps=2)
    walk.enter(0, seed=5)
    assert walk.visitors(np.array([0]), np.array([0]))[0] == start_pose(5)
