"""Motion of visitors and orbs, batched over rows.

No result depends on the composition of the batch: there are no sums over rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import brief
from .grid import HEADINGS, SIZE
from .world import World

ORBS = 8
"""Number of orbs per world."""
ANGLES = 1 << 16
"""Entries of the sine table per full turn."""
RADIUS = 0.28
"""Half the width of a visitor, in cells."""
MAX_PITCH = 0.3
"""Largest offset of the horizon from the center, in picture heights."""

_WALK, _RUN = 2.1, 3.6  # cells per second
_TURN = 0.3  # turns per second
_START_TAU, _TURN_TAU = 0.11, 0.07  # time constants of speed changes in seconds
_TURNS_PER_PIXEL = 1 / 2600
_PITCH_PER_PIXEL = 1 / 900
_MAX_POINTER_TRAVEL = 5000.0  # pixels per chunk
_MAX_MOVE = 0.2  # cells; less than RADIUS, so that no visitor passes through a wall
_ORB_SPEED, _ORB_TAU = (0.45, 0.95), 0.35
_STEP = np.array(HEADINGS, np.int64)
_SINE = np.sin(np.arange(ANGLES) * (2 * math.pi / ANGLES))

VISITOR = np.dtype(
    [(name, np.float64) for name in ("x", "y", "yaw", "pitch", "ahead", "aside", "spin")],
)
ORB = np.dtype(
    [
        ("cell", np.int64),
        ("heading", np.int64),
        ("along", np.float64),
        ("turns", np.int64),
        ("speed", np.float64),
        ("phase", np.float64),
        ("x", np.float64),
        ("y", np.float64),
    ]
)
Records = NDArray[np.void]


def sine(turns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sine of an angle in turns, from a table: bit-identical for every array shape."""
    values: NDArray[np.float64] = _SINE.take(np.floor(turns * ANGLES).astype(np.int64) & (ANGLES - 1))
    return values


def cosine(turns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosine of an angle in turns."""
    return sine(turns + 0.25)


class MotionControls:
    """MotionControls of n visitors, one entry per row of the batch.

    Args:
        conditioning: the conditioning of each row.

    Attributes:
        forward, strafe, turn: (n,) float64 in [-1, 1]; right is positive.
        run: (n,) bool.
        pointer: (n, 2) float64, pixels of pointer movement to the right and down since the last chunk.

    Raises:
        ValueError: a value is not a number.
    """

    def __init__(self, conditioning: Sequence[Mapping[str, Any]]) -> None:
        axes = [[_axis(given, name) for name in ("forward", "strafe", "turn")] for given in conditioning]
        self.forward, self.strafe, self.turn = np.array(axes, np.float64).reshape(-1, 3).T
        self.run = np.array([bool(given.get("run", False)) for given in conditioning], bool)
        moves = [_pointer(given.get("events", ())) for given in conditioning]
        self.pointer = np.array(moves, np.float64).reshape(-1, 2)

    @classmethod
    def of(
        cls,
        forward: NDArray[np.float64],
        strafe: NDArray[np.float64],
        turn: NDArray[np.float64],
        run: NDArray[np.bool_],
        pointer: NDArray[np.float64],
    ) -> MotionControls:
        """Create controls from arrays."""
        controls = cls([])
        controls.forward, controls.strafe, controls.turn = forward, strafe, turn
        controls.run, controls.pointer = run, pointer
        return controls


def _axis(given: Mapping[str, Any], name: str) -> float:
    return min(max(_number(given.get(name, 0.0), name), -1.0), 1.0)


def _number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a number, got {brief(value)}") from None
    return number if math.isfinite(number) else 0.0


def _pointer(events: Sequence[Any] | None) -> tuple[float, float]:
    moves = [event for event in events or () if isinstance(event, Mapping) and event.get("kind") == "pointer_move"]
    return _total(moves, "dx"), _total(moves, "dy")


def _total(moves: Sequence[Mapping[str, Any]], name: str) -> float:
    total = sum(_number(move.get(name, 0.0), name) for move in moves)
    return min(max(total, -_MAX_POINTER_TRAVEL), _MAX_POINTER_TRAVEL)


class Motion:
    """Advances visitors and orbs by one frame of ``frame_s`` seconds."""

    def __init__(self, frame_s: float) -> None:
        self._substeps = max(1, math.ceil(_RUN * math.sqrt(2) * frame_s / _MAX_MOVE))
        self._frame_s = frame_s
        self._gain = 1 - math.exp(-frame_s / _START_TAU)
        self._turn_gain = 1 - math.exp(-frame_s / _TURN_TAU)
        self._orb_gain = 1 - math.exp(-frame_s / _ORB_TAU)

    def look(self, visitors: Records, controls: MotionControls) -> None:
        """Apply pointer movement, once per chunk."""
        visitors["yaw"] += controls.pointer[:, 0] * _TURNS_PER_PIXEL
        pitch = visitors["pitch"] - controls.pointer[:, 1] * _PITCH_PER_PIXEL
        visitors["pitch"] = np.clip(pitch, -MAX_PITCH, MAX_PITCH)

    def walk(self, visitors: Records, controls: MotionControls, solid: NDArray[np.bool_]) -> None:
        """Turn and move visitors for one frame, sliding along walls; ``solid`` is (n, SIZE * SIZE)."""
        frame_s = self._frame_s
        visitors["spin"] += (controls.turn * _TURN - visitors["spin"]) * self._turn_gain
        yaw = visitors["yaw"] + visitors["spin"] * frame_s
        visitors["yaw"] = yaw - np.floor(yaw)
        speed = np.where(controls.run, _RUN, _WALK)
        visitors["ahead"] += (controls.forward * speed - visitors["ahead"]) * self._gain
        visitors["aside"] += (controls.strafe * speed - visitors["aside"]) * self._gain
        cos, sin = cosine(visitors["yaw"]), sine(visitors["yaw"])
        step = frame_s / self._substeps
        move_x = (visitors["ahead"] * cos - visitors["aside"] * sin) * step
        move_y = (visitors["ahead"] * sin + visitors["aside"] * cos) * step
        for _ in range(self._substeps):
            visitors["x"] = _slide(visitors["x"], visitors["y"], move_x, solid, (1, SIZE))
            visitors["y"] = _slide(visitors["y"], visitors["x"], move_y, solid, (SIZE, 1))

    def drift(self, orbs: Records, turns: NDArray[np.uint8]) -> None:
        """Move (n, ORBS) orbs for one frame; ``turns`` is (n, SIZE * SIZE, 4, 4)."""
        along = orbs["along"] + orbs["speed"] * self._frame_s
        arrived = along >= 1.0
        orbs["along"] = along - arrived
        onward = _STEP.take(orbs["heading"], axis=0)
        orbs["cell"] += arrived * (onward[..., 0] + onward[..., 1] * SIZE)
        orbs["turns"] += arrived
        mixed = (orbs["turns"] * 0x9E3779B1 + np.arange(ORBS) * 0x85EBCA77 >> 13) & 3
        rows = np.arange(len(orbs))[:, None]
        orbs["heading"] = np.where(arrived, turns[rows, orbs["cell"], orbs["heading"], mixed], orbs["heading"])
        goal_x, goal_y = _path(orbs)
        orbs["x"] += (goal_x - orbs["x"]) * self._orb_gain
        orbs["y"] += (goal_y - orbs["y"]) * self._orb_gain
        phase = orbs["phase"] + 0.35 * self._frame_s
        orbs["phase"] = phase - np.floor(phase)


def _slide(
    at: NDArray[np.float64],
    across: NDArray[np.float64],
    move: NDArray[np.float64],
    solid: NDArray[np.bool_],
    strides: tuple[int, int],
) -> NDArray[np.float64]:
    """Move along one axis, stopping at walls; ``strides`` are the strides in ``solid`` of this axis and the other."""
    wanted = at + move
    right = move > 0
    front = np.where(right, wanted + RADIUS, wanted - RADIUS)
    cell = np.floor(front).astype(np.int64)
    rows = np.arange(len(at))
    low = np.floor(across - RADIUS).astype(np.int64) * strides[1] + cell * strides[0]
    high = np.floor(across + RADIUS).astype(np.int64) * strides[1] + cell * strides[0]
    blocked = solid[rows, low] | solid[rows, high]
    rest = np.where(right, cell - RADIUS - 1e-6, cell + 1 + RADIUS + 1e-6)
    return np.where(blocked & (move != 0), rest, wanted)


def _path(orbs: Records) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    onward = _STEP.take(orbs["heading"], axis=0)
    x = orbs["cell"] % SIZE + 0.5 + onward[..., 0] * orbs["along"]
    y = orbs["cell"] // SIZE + 0.5 + onward[..., 1] * orbs["along"]
    return x, y


def first_visitor(world: World) -> Records:
    """Return the initial visitor of a world: a 0-d record at the start cell, at rest."""
    visitor = np.zeros((), VISITOR)
    visitor["x"], visitor["y"] = (coordinate + 0.5 for coordinate in world.grid.start)
    visitor["yaw"] = world.grid.heading / 4
    return visitor


def first_orbs(world: World, seed: int) -> Records:
    """Return the (ORBS,) initial orbs of a world; the first is in view of the visitor."""
    random = np.random.default_rng([seed, 1])
    orbs = np.zeros(ORBS, ORB)
    solid = world.grid.solid
    cells = np.flatnonzero(~solid.ravel())
    orbs["cell"] = random.choice(cells, ORBS, replace=False)
    x, y = world.grid.start
    dx, dy = HEADINGS[world.grid.heading]
    orbs["cell"][0] = (y + 3 * dy) * SIZE + x + 3 * dx
    orbs["heading"] = world.turns[orbs["cell"], random.integers(0, 4, ORBS), 0]
    orbs["heading"][0] = world.grid.heading
    orbs["speed"] = random.uniform(*_ORB_SPEED, ORBS)
    orbs["phase"] = random.random(ORBS)
    orbs["x"], orbs["y"] = _path(orbs)
    return orbs
