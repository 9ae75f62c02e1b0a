"""Pictures to learn from, made in a thread of their own while the network learns from those before."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from queue import Queue
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...maze.grid import HEADINGS, SIZE
from ...maze.motion import RADIUS, VISITOR, Controls, Motion, Records
from ..inference import as_input
from ..level import CONTROLS, SIDE, STEP_S, THEMES, TrueView, level, open_cells

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


_WALKERS = 512
_WARM_UP = 90  # steps until the walkers have spread
_BETWEEN = 8  # steps between two batches
_AHEAD = 3  # batches made in advance


class Lesson(NamedTuple):
    """A batch of n pictures.

    Attributes:
        pictures: (n, 3, HEIGHT, WIDTH) in [-1, 1], themes one after the other.
        places: (n, 4) x, y in cells, cosine and sine of the yaw.
        others: (n,) for each picture the index of one in the same theme.
    """

    pictures: Tensor
    places: Tensor
    others: Tensor


def lessons(count: int, size: int, seed: int) -> Iterator[Lesson]:
    """``count`` batches of ``size`` pictures; the same seed gives the same ones.

    The thread that makes them has ended when the iteration ends, however it does. What is raised there is raised here.
    """
    queue: Queue[Lesson | BaseException] = Queue(_AHEAD)
    ended = threading.Event()

    def make() -> None:
        try:
            for lesson in _made(count, size, seed):
                if ended.is_set():
                    return
                queue.put(lesson)
        except BaseException as error:
            queue.put(error)

    maker = threading.Thread(target=make, name="lessons", daemon=True)
    try:
        maker.start()
        for _ in range(count):
            lesson = queue.get()
            if isinstance(lesson, BaseException):
                raise lesson
            yield lesson
    finally:
        ended.set()
        _see_off(maker, queue)


def _see_off(maker: threading.Thread, queue: Queue[Lesson | BaseException]) -> None:
    """Wait for its end, whoever is impatient: a process that ends while it computes is aborted."""
    while maker.is_alive():
        with contextlib.suppress(KeyboardInterrupt):  # the first one is on its way up already
            while not queue.empty():  # what it still puts, a lesson and an error at most, finds room then
                queue.get_nowait()
            maker.join()


def places_as_tensor(places: NDArray[np.float64]) -> Tensor:
    """(..., 3) x, y, yaw in turns -> (..., 4) x, y, cosine and sine of the yaw."""
    angle = places[..., 2] * (2 * np.pi)
    four = np.stack([places[..., 0], places[..., 1], np.cos(angle), np.sin(angle)], -1)
    return torch.from_numpy(four.astype(np.float32))


def _made(count: int, size: int, seed: int) -> Iterator[Lesson]:
    random = np.random.default_rng([seed, 4])
    walkers, view = Walkers(max(_WALKERS, size), seed), TrueView()
    walkers.walk(_WARM_UP)
    for _ in range(count):
        walkers.walk(_BETWEEN)
        chosen = random.choice(len(walkers.visitors), size, replace=False)
        themes = np.sort(random.integers(0, len(THEMES), size))
        pictures = view(walkers.visitors[chosen], themes)
        yield Lesson(
            as_input(pictures),
            places_as_tensor(walkers.places()[chosen]),
            torch.from_numpy(_others(themes, random)),
        )


def _others(themes: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    others = np.arange(len(themes))
    for theme in range(len(THEMES)):
        same = np.flatnonzero(themes == theme)
        others[same] = random.permutation(same)
    return others


_LENGTHS = (0.01, 0.17)  # cells a step, from a creeping to a running visitor
_AT_THE_WALL = 0.6  # share of the moves that end near a wall
_FARTHEST = 1.4  # lengths of a move that a wall gives way at most; a visitor far inside a wall takes some steps
_BLOCKS = ((0, 0), (1, 0), (0, 1), (1, 1))  # how far blocks of cells reach that are open together


def nearest_ground(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest place to each of (n, 2) points at which a visitor touches no wall; the point itself if it is one."""
    inside = np.clip(points[:, None], _rooms()[:, :2], _rooms()[:, 2:])  # (n, rooms, 2)
    nearest = np.square(inside - points[:, None]).sum(-1).argmin(1)
    found: NDArray[np.float64] = inside[np.arange(len(points)), nearest]
    return found


class Pushes(NamedTuple):
    """Moves and what walls do to them, (n, 2) each in cells: where they would end, the way, the correction."""

    ends: NDArray[np.float32]
    ways: NDArray[np.float32]
    corrections: NDArray[np.float32]


def pushes(count: int, random: np.random.Generator) -> Pushes:
    """Moves to learn walls from: all over the level, most of them ending near a wall, on either side of it."""
    angle = random.uniform(0, 2 * np.pi, count)
    shortest, longest = np.log(_LENGTHS).tolist()
    length = np.exp(random.uniform(shortest, longest, count))[:, None]
    anywhere = random.uniform(0.3, SIDE - 0.3, (count, 2))
    near = nearest_ground(anywhere) + random.normal(0, 0.7, (count, 2)) * length
    ends = np.where(random.random((count, 1)) < _AT_THE_WALL, near, anywhere)
    back = nearest_ground(ends) - ends
    far = np.hypot(*back.T)[:, None]
    back *= np.minimum(1, _FARTHEST * length / np.maximum(far, 1e-9))
    ways = np.stack([np.cos(angle), np.sin(angle)], 1) * length
    return Pushes(ends.astype(np.float32), ways.astype(np.float32), back.astype(np.float32))


@lru_cache(maxsize=1)
def _rooms() -> NDArray[np.float64]:
    """(n, 4) boxes x0, y0, x1, y1 which together are all places where a visitor can stand."""
    solid = level().grid.solid
    boxes = [
        (x + RADIUS, y + RADIUS, x + dx + 1 - RADIUS, y + dy + 1 - RADIUS)
        for y in range(SIDE - 1)
        for x in range(SIDE - 1)
        for dx, dy in _BLOCKS
        if not solid[y : y + dy + 1, x : x + dx + 1].any()
    ]
    return np.array(boxes)
