"""Where the visitors of all rows truly are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dream.level import STEP_S, first_visitor, level
from ..maze.grid import SIZE
from ..maze.motion import VISITOR, Controls, Motion, Records


class Walk:
    """Visitors in the level, moved as the maze moves them, in steps of ``STEP_S``; all look straight ahead.

    State at two chunk boundaries: a row of even age reads the first and writes the second, a row of odd age the other
    way round, so a step that fails afterwards is made again from the same state.
    """

    def __init__(self, rows: int) -> None:
        self._motion = Motion(STEP_S)
        self._visitors = np.zeros((2, rows), VISITOR)
        self._solid = level().grid.solid.reshape(1, SIZE * SIZE)

    def enter(self, row: int, seed: int) -> None:
        """Begin at the seed's first place, at rest."""
        self._visitors[0, row] = first_visitor(seed)

    def visitors(self, rows: NDArray[np.int64], ages: NDArray[np.int64]) -> Records:
        """(n,) records of rows at the boundary before their next chunk."""
        visitors: Records = self._visitors[ages & 1, rows]
        return visitors

    def go(
        self,
        rows: NDArray[np.int64],
        ages: NDArray[np.int64],
        told: Sequence[Mapping[str, Any]],
        frames: int,
        steps: int,
    ) -> Records:
        """(frames, n) records, after ``steps`` steps each. Errors: :class:`ValueError`, before anything has moved."""
        controls = Controls(told)
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
