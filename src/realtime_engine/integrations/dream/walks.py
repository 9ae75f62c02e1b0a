"""Walks through the level to learn from: many visitors at once, who mostly follow corridors and sometimes bump."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..maze.grid import HEADINGS, SIZE
from ..maze.motion import VISITOR, Controls, Motion, Records
from .level import level, open_cells

STEP_S = 1 / 30
"""Seconds between two steps of the dynamics."""
CONTROLS = 6
"""Numbers that a step is told: forward, strafe, both again while running, turn, pointer travel in pixels / 100."""

_AIM = 0.2  # cells around the middle of a cell in which a walker aims
_NEAR = 0.3  # cells from its aim at which a walker chooses another
_WILD_SHARE = 0.3  # of the time with random keys


@dataclass(frozen=True)
class Walks:
    """Some steps of n walkers.

    Attributes:
        places: (steps + 1, n, 3) float64: x, y in cells and yaw in turns, before each step and after the last.
        controls: (steps, n, CONTROLS) float32.
    """

    places: NDArray[np.float64]
    controls: NDArray[np.float32]


class Walkers:
    """n visitors of the level with a will of their own; a walk is never the same twice, but follows from the seed."""

    def __init__(self, count: int, seed: int) -> None:
        self._random = np.random.default_rng([seed, 3])
        self._motion = Motion(STEP_S)
        self._solid = np.broadcast_to(level().grid.solid.ravel(), (count, SIZE * SIZE))
        self._cells = open_cells()
        self.visitors: Records = np.zeros(count, VISITOR)
        self._scatter()
        self._keys = np.zeros((count, 3))
        self._run = np.zeros(count, bool)
        self._wild = np.zeros(count, bool)
        self._left = np.zeros(count, np.int64)  # steps until the mood changes
        self._aims = np.stack([self.visitors["x"], self.visitors["y"]], 1)

    def walk(self, steps: int) -> Walks:
        """Go on for some steps."""
        return self._go(steps, self._wanted)

    def turn_left(self, steps: int) -> Walks:
        """Stand and turn to the left for some steps."""
        count = len(self.visitors)
        nothing, pointer = np.zeros(count), np.zeros((count, 2))
        left = Controls.of(nothing, nothing, nothing - 1, np.zeros(count, bool), pointer)
        return self._go(steps, lambda: left)

    def _go(self, steps: int, wish: Callable[[], Controls]) -> Walks:
        count = len(self.visitors)
        places = np.empty((steps + 1, count, 3))
        controls = np.empty((steps, count, CONTROLS), np.float32)
        places[0] = self.places()
        for step in range(steps):
            wanted = wish()
            controls[step] = control_numbers(wanted)
            self._motion.look(self.visitors, wanted)
            self._motion.walk(self.visitors, wanted, self._solid)
            places[step + 1] = self.places()
        return Walks(places, controls)

    def places(self) -> NDArray[np.float64]:
        """(n, 3) x, y and yaw."""
        return np.stack([self.visitors[name] for name in ("x", "y", "yaw")], 1)

    def rest(self) -> None:
        """Stop all walkers, as at the beginning of a session."""
        for name in ("ahead", "aside", "spin"):
            self.visitors[name] = 0

    def _scatter(self) -> None:
        count = len(self.visitors)
        cells = self._cells[self._random.integers(len(self._cells), size=count)]
        self.visitors["x"], self.visitors["y"] = (cells + 0.5 + self._random.uniform(-_AIM, _AIM, (count, 2))).T
        self.visitors["yaw"] = self._random.random(count)

    def _wanted(self) -> Controls:
        random, count = self._random, len(self.visitors)
        self._left -= 1
        changing = self._left < 0
        self._wild = np.where(changing, random.random(count) < _WILD_SHARE, self._wild)
        self._left = np.where(changing, random.integers(6, 60, count), self._left)
        self._run = np.where(changing, random.random(count) < 0.2, self._run)
        self._keys = np.where(changing[:, None], random.integers(-1, 2, (count, 3)), self._keys)
        forward, strafe, turn = np.where(self._wild[:, None], self._keys, self._towards_aim()).T
        glances = random.normal(0, 25, count) * (random.random(count) < 0.08)
        return Controls.of(forward, strafe, turn, self._run, np.stack([glances, np.zeros(count)], 1))

    def _towards_aim(self) -> NDArray[np.float64]:
        """(n, 3) keys that turn to the aim, then go there."""
        visitors = self.visitors
        away = self._aims - np.stack([visitors["x"], visitors["y"]], 1)
        arrived = np.hypot(*away.T) < _NEAR
        lost = np.hypot(*away.T) > 1.6
        for walker in np.flatnonzero(arrived | lost).tolist():
            self._aims[walker] = self._next_aim(walker)
        away = self._aims - np.stack([visitors["x"], visitors["y"]], 1)
        turn = np.arctan2(away[:, 1], away[:, 0]) / (2 * np.pi) - visitors["yaw"]
        turn -= np.rint(turn)
        keys = np.clip(turn * 12, -1, 1)
        forward = np.abs(turn) < 0.12
        return np.stack([forward.astype(float), np.zeros(len(keys)), keys], 1)

    def _next_aim(self, walker: int) -> NDArray[np.float64]:
        """A point in a neighbouring open cell, rather ahead than behind."""
        random, visitor = self._random, self.visitors[walker]
        x, y, ahead = int(visitor["x"]), int(visitor["y"]), visitor["yaw"] * 4
        solid = level().grid.solid
        ways = [heading for heading, (dx, dy) in enumerate(HEADINGS) if not solid[y + dy, x + dx]]
        weights = np.array([0.15 if abs((way - ahead + 2) % 4 - 2) > 1.5 else 1.0 for way in ways])
        way = ways[int(random.choice(len(ways), p=weights / weights.sum()))]
        cell = np.array((x, y)) + HEADINGS[way] + 0.5
        aim: NDArray[np.float64] = cell + random.uniform(-_AIM, _AIM, 2)
        return aim


def control_numbers(controls: Controls) -> NDArray[np.float32]:
    """(n, CONTROLS) what the dynamics are told of the controls of n visitors."""
    run = controls.run
    columns = (
        controls.forward,
        controls.strafe,
        controls.forward * run,
        controls.strafe * run,
        controls.turn,
        controls.pointer[:, 0] / 100,
    )
    return np.stack(columns, 1).astype(np.float32)
