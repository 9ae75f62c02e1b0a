"""Training data: simulated walks, rendered pictures (prepared in a thread) and moves into walls."""

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
from ...maze.motion import RADIUS, VISITOR, Motion, MotionControls, Records
from ..inference import as_input
from ..level import CONTROLS, SIDE, STEP_S, THEMES, TrueView, level, open_cells

_AIM = 0.2  # cells, largest offset of an aim from the center of its cell
_NEAR = 0.3  # cells, distance at which an aim is reached
_RANDOM_SHARE = 0.3  # share of the time with random keys


@dataclass(frozen=True)
class Walks:
    """Steps of n walkers.

    Attributes:
        places: (steps + 1, n, 3) float64: x, y in cells and yaw in turns, before each step and after the last.
        controls: (steps, n, CONTROLS) float32.
    """

    places: NDArray[np.float64]
    controls: NDArray[np.float32]


class Walkers:
    """Simulates n walkers in the level: they follow corridors or press random keys. Determined by the seed.

    Args:
        count: number of walkers.
        seed: seed of their decisions.

    Attributes:
        visitors: (n,) records of the walkers.
    """

    def __init__(self, count: int, seed: int) -> None:
        self._random = np.random.default_rng([seed, 3])
        self._motion = Motion(STEP_S)
        self._solid = np.broadcast_to(level().grid.solid.ravel(), (count, SIZE * SIZE))
        self._cells = open_cells()
        self.visitors: Records = np.zeros(count, VISITOR)
        self._scatter()
        self._keys = np.zeros((count, 3))
        self._run = np.zeros(count, bool)
        self._random_keys = np.zeros(count, bool)
        self._left = np.zeros(count, np.int64)  # steps until the behavior changes
        self._aims = np.stack([self.visitors["x"], self.visitors["y"]], 1)

    def walk(self, steps: int) -> Walks:
        """Simulate ``steps`` steps."""
        return self._simulate(steps, self._choose_controls)

    def turn_left(self, steps: int) -> Walks:
        """Simulate ``steps`` steps of turning left in place."""
        count = len(self.visitors)
        nothing, pointer = np.zeros(count), np.zeros((count, 2))
        left = MotionControls.of(nothing, nothing, nothing - 1, np.zeros(count, bool), pointer)
        return self._simulate(steps, lambda: left)

    def _simulate(self, steps: int, choose: Callable[[], MotionControls]) -> Walks:
        count = len(self.visitors)
        places = np.empty((steps + 1, count, 3))
        controls = np.empty((steps, count, CONTROLS), np.float32)
        places[0] = self.places()
        for step in range(steps):
            chosen = choose()
            controls[step] = control_vectors(chosen)
            self._motion.look(self.visitors, chosen)
            self._motion.walk(self.visitors, chosen, self._solid)
            places[step + 1] = self.places()
        return Walks(places, controls)

    def places(self) -> NDArray[np.float64]:
        """Return (n, 3) x, y in cells and yaw in turns."""
        return np.stack([self.visitors[name] for name in ("x", "y", "yaw")], 1)

    def rest(self) -> None:
        """Stop all walkers, as at the start of a session."""
        for name in ("ahead", "aside", "spin"):
            self.visitors[name] = 0

    def _scatter(self) -> None:
        count = len(self.visitors)
        cells = self._cells[self._random.integers(len(self._cells), size=count)]
        self.visitors["x"], self.visitors["y"] = (cells + 0.5 + self._random.uniform(-_AIM, _AIM, (count, 2))).T
        self.visitors["yaw"] = self._random.random(count)

    def _choose_controls(self) -> MotionControls:
        random, count = self._random, len(self.visitors)
        self._left -= 1
        changing = self._left < 0
        self._random_keys = np.where(changing, random.random(count) < _RANDOM_SHARE, self._random_keys)
        self._left = np.where(changing, random.integers(6, 60, count), self._left)
        self._run = np.where(changing, random.random(count) < 0.2, self._run)
        self._keys = np.where(changing[:, None], random.integers(-1, 2, (count, 3)), self._keys)
        forward, strafe, turn = np.where(self._random_keys[:, None], self._keys, self._towards_aim()).T
        glances = random.normal(0, 25, count) * (random.random(count) < 0.08)
        return MotionControls.of(forward, strafe, turn, self._run, np.stack([glances, np.zeros(count)], 1))

    def _towards_aim(self) -> NDArray[np.float64]:
        """Return (n, 3) forward, strafe and turn that turn towards the aim, then walk to it."""
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
        """Return a random point in a neighboring open cell; the cell behind has a lower probability."""
        random, visitor = self._random, self.visitors[walker]
        x, y, ahead = int(visitor["x"]), int(visitor["y"]), visitor["yaw"] * 4
        solid = level().grid.solid
        ways = [heading for heading, (dx, dy) in enumerate(HEADINGS) if not solid[y + dy, x + dx]]
        weights = np.array([0.15 if abs((way - ahead + 2) % 4 - 2) > 1.5 else 1.0 for way in ways])
        way = ways[int(random.choice(len(ways), p=weights / weights.sum()))]
        cell = np.array((x, y)) + HEADINGS[way] + 0.5
        aim: NDArray[np.float64] = cell + random.uniform(-_AIM, _AIM, 2)
        return aim


def control_vectors(controls: MotionControls) -> NDArray[np.float32]:
    """Return the (n, CONTROLS) inputs of the dynamics for the controls of n visitors."""
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
_WARM_UP = 90  # steps until the walkers are spread over the level
_BETWEEN = 8  # steps between two batches
_PREFETCH = 3  # batches prepared in advance


class PictureBatch(NamedTuple):
    """A batch of n pictures.

    Attributes:
        pictures: (n, 3, HEIGHT, WIDTH) in [-1, 1], sorted by theme.
        places: (n, 4) x, y in cells, cosine and sine of the yaw.
        others: (n,) index of another picture with the same theme, for each picture.
    """

    pictures: Tensor
    places: Tensor
    others: Tensor


def picture_batches(count: int, size: int, seed: int) -> Iterator[PictureBatch]:
    """Yield ``count`` batches of ``size`` pictures, determined by the seed and prepared in a thread.

    The thread has ended when the iteration ends, also after an early stop. Its exceptions are raised to the caller.
    """
    queue: Queue[PictureBatch | BaseException] = Queue(_PREFETCH)
    ended = threading.Event()

    def produce() -> None:
        try:
            for batch in _generate_batches(count, size, seed):
                if ended.is_set():
                    return
                queue.put(batch)
        except BaseException as error:
            queue.put(error)

    producer = threading.Thread(target=produce, name="picture-batches", daemon=True)
    try:
        producer.start()
        for _ in range(count):
            batch = queue.get()
            if isinstance(batch, BaseException):
                raise batch
            yield batch
    finally:
        ended.set()
        _join(producer, queue)


def _join(producer: threading.Thread, queue: Queue[PictureBatch | BaseException]) -> None:
    """Wait for the end of the thread, also after Ctrl-C: a process that exits while torch computes is aborted."""
    while producer.is_alive():
        with contextlib.suppress(KeyboardInterrupt):  # the first interrupt is already being raised
            while not queue.empty():  # makes room for what the thread still puts: at most a batch and an error
                queue.get_nowait()
            producer.join()


def places_as_tensor(places: NDArray[np.float64]) -> Tensor:
    """Convert (..., 3) x, y, yaw in turns to (..., 4) x, y, cosine and sine of the yaw."""
    angle = places[..., 2] * (2 * np.pi)
    four = np.stack([places[..., 0], places[..., 1], np.cos(angle), np.sin(angle)], -1)
    return torch.from_numpy(four.astype(np.float32))


def _generate_batches(count: int, size: int, seed: int) -> Iterator[PictureBatch]:
    random = np.random.default_rng([seed, 4])
    walkers, view = Walkers(max(_WALKERS, size), seed), TrueView()
    walkers.walk(_WARM_UP)
    for _ in range(count):
        walkers.walk(_BETWEEN)
        chosen = random.choice(len(walkers.visitors), size, replace=False)
        themes = np.sort(random.integers(0, len(THEMES), size))
        pictures = view(walkers.visitors[chosen], themes)
        yield PictureBatch(
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


_LENGTHS = (0.01, 0.17)  # cells per step, from slow to running
_AT_THE_WALL = 0.6  # share of the moves that end near a wall
_MAX_CORRECTION = 1.4  # largest correction in lengths of the move; leaving a wall from deep inside takes several steps
_BLOCKS = ((0, 0), (1, 0), (0, 1), (1, 1))  # extents of the blocks of open cells


def nearest_ground(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each of (n, 2) points the nearest point at which a visitor touches no wall."""
    inside = np.clip(points[:, None], _free_boxes()[:, :2], _free_boxes()[:, 2:])  # (n, rooms, 2)
    nearest = np.square(inside - points[:, None]).sum(-1).argmin(1)
    found: NDArray[np.float64] = inside[np.arange(len(points)), nearest]
    return found


class WallCorrections(NamedTuple):
    """Moves and their corrections by walls, (n, 2) each in cells: uncorrected end, move, correction."""

    ends: NDArray[np.float32]
    ways: NDArray[np.float32]
    corrections: NDArray[np.float32]


def wall_corrections(count: int, random: np.random.Generator) -> WallCorrections:
    """Return random moves all over the level with their corrections; most end near a wall, on either side of it."""
    angle = random.uniform(0, 2 * np.pi, count)
    shortest, longest = np.log(_LENGTHS).tolist()
    length = np.exp(random.uniform(shortest, longest, count))[:, None]
    anywhere = random.uniform(0.3, SIDE - 0.3, (count, 2))
    near = nearest_ground(anywhere) + random.normal(0, 0.7, (count, 2)) * length
    ends = np.where(random.random((count, 1)) < _AT_THE_WALL, near, anywhere)
    back = nearest_ground(ends) - ends
    far = np.hypot(*back.T)[:, None]
    back *= np.minimum(1, _MAX_CORRECTION * length / np.maximum(far, 1e-9))
    ways = np.stack([np.cos(angle), np.sin(angle)], 1) * length
    return WallCorrections(ends.astype(np.float32), ways.astype(np.float32), back.astype(np.float32))


@lru_cache(maxsize=1)
def _free_boxes() -> NDArray[np.float64]:
    """Return (n, 4) boxes x0, y0, x1, y1 whose union is the free space of a visitor's center."""
    solid = level().grid.solid
    boxes = [
        (x + RADIUS, y + RADIUS, x + dx + 1 - RADIUS, y + dy + 1 - RADIUS)
        for y in range(SIDE - 1)
        for x in range(SIDE - 1)
        for dx, dy in _BLOCKS
        if not solid[y : y + dy + 1, x : x + dx + 1].any()
    ]
    return np.array(boxes)
