"""Two pictures as one: left, right, and what lies over them."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from .plan import DREAM_INK, TRUE_INK, Place, Plan
from .stamp import label

_DESIGNED_FOR = 320  # pixels of height; everything grows with the picture
_DIVIDER, _CAPTION, _CELL, _MARGIN = 4, 17, 9, 10


class Diptych:
    """Puts the truth to the left and the dream to the right, a divider between them, captions in the outer corners and
    the plan in the middle of the upper edge.

    Args:
        height, width: of the whole, in pixels; ``width`` is even.
    """

    def __init__(self, height: int, width: int) -> None:
        self._half = width // 2
        divider, caption, cell, self._margin = (
            max(1, round(pixels * height / _DESIGNED_FOR)) for pixels in (_DIVIDER, _CAPTION, _CELL, _MARGIN)
        )
        self._divider = slice(self._half - (divider + 1) // 2, self._half + (divider + 1) // 2)
        self._captions = (label("maze", caption, TRUE_INK), label("dream", caption, DREAM_INK))
        self._plan = Plan(cell)
        self._plan_at = (self._margin, self._half - self._plan.width // 2)

    def compose(
        self,
        frame: NDArray[np.uint8],
        true: NDArray[np.uint8],
        dreamt: NDArray[np.uint8],
        theme: int,
        true_place: Place,
        dreamt_place: Place,
    ) -> None:
        """Fill an (height, width, 3) RGB frame.

        Args:
            true: RGB of any size.
            dreamt: (height, width / 2, 3) RGB.
            theme: index in :data:`~..dream.level.THEMES`.
            true_place, dreamt_place: (4,) x, y in cells, cosine and sine of the yaw.
        """
        left, right = frame[:, : self._half], frame[:, self._half :]
        cv2.resize(true, left.shape[1::-1], dst=left, interpolation=cv2.INTER_AREA)
        right[...] = dreamt
        frame[:, self._divider] = 0
        maze, dream = self._captions
        maze.press(frame, self._margin, self._margin)
        dream.press(frame, self._margin, frame.shape[1] - self._margin - dream.width)
        self._plan.press(frame, *self._plan_at, theme, true_place, dreamt_place)
