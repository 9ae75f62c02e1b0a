"""The true poses of all rows of the comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dream.level import STEP_S, level, start_pose
from ..maze.grid import SIZE
from ..maze.motion import VISITOR, Motion, MotionControls, Records


class TrueMotion:
    """Moves a visitor of the level for each row by the rules of the maze, in steps of ``STEP_S``, with level gaze.

    The state is double-buffered by the parity of a row's age, so that a failed step can be repeated from the same
    state.

    Args:
        rows: number of rows.
    """

    def __init__(self, rows: int) -> None:
        self._motion = Motion(STEP_S)
        self._visitors = np.zeros((2, rows), VISITOR)
        self._solid = level().grid.solid.reshape(1, SIZE * SIZE)

    def enter(self, row: int, seed: int) -> None:
        """Place a row at the start pose of a seed, at rest."""
        self._visitors[0, row] = start_pose(seed)

    def visitors(self, rows: NDArray[np.int64], ages: NDArray[np.int64]) -> Records:
        """The records (n,) of rows before their next chunk."""
        visitors: Records = self._visitors[ages & 1, rows]
        return visitors

    def go(
        self,
        rows: NDArray[np.int64],
        ages: NDArray[np.int64],
        conditioning: Sequence[Mapping[str, Any]],
        frames: int,
        steps: int,
    ) -> Records:
        """Advance rows by ``frames`` times ``steps`` steps; returns records (frames, n).

        Raises:
            ValueError: a conditioning is invalid; no row has moved.
        """
        controls = MotionControls(conditioning)
        visitors = self.visitors(rows, ages)
        solid = np.broadcast_to(self._solid, (len(rows), SIZE * SIZE))
        self._motion.look(visitors, controls)
        visitors["pitch"] = 0
        seen = np.empty((frames, len(rows)), VISITOR)
        for frame in range(frames):
            for _ in range(steps):
                self._motion.walk(visitors, controls, solid)
            seen[frame] = visitors
        self._visitors[1 - (ages & 1), rows] = visitors
        return seen
