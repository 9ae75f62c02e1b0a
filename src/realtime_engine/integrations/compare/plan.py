"""A small plan of the level: where the visitor is, and where the dream takes them to be."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from ..dream.level import SIDE, THEMES, level, theme_of
from .stamp import INK, PAPER, Rgb, Stamp, glyphs

Place: TypeAlias = NDArray[np.floating[Any]]

TRUE_INK: Rgb = (255, 255, 255)
DREAM_INK: Rgb = (255, 150, 240)

_UNIT = " cells apart"
_FLOOR: Rgb = (22, 22, 30)
_ARROW = np.array(((0.62, 0), (-0.45, 0.45), (-0.22, 0), (-0.45, -0.45)))  # ahead and to the right, in cells
_TRUE_SIZE, _DREAM_SIZE = 0.9, 1.7  # the dream's shows around the true one while both are in the same place
_FRACTION = 4  # bits behind the point of a coordinate


class Plan:
    """Draws the plan with both places on it, and below it how many cells are between them.

    Args:
        cell: pixels along a side of a cell.
    """

    def __init__(self, cell: int) -> None:
        self._cell = cell
        size = max(6, round(cell * 1.35))
        self._digits = glyphs("0123456789.", size)
        unit = round(ImageFont.load_default(size).getlength(_UNIT))
        text = unit + sum(self._digits[each].width for each in "0.0")
        margin, side = max(2, cell // 2), SIDE * cell
        self.width, self.height = max(side, text) + 2 * margin, side + 2 * margin + self._digits["0"].height
        self._origin = ((self.width - side) // 2, margin)
        self._unit_at = (self.width - text) // 2 + text - unit
        self._line = side + margin + margin // 2
        self._papers = [Stamp(self._drawn(size, theme)) for theme in THEMES]

    def press(self, frame: NDArray[np.uint8], top: int, left: int, theme: int, true: Place, dreamt: Place) -> None:
        """Lay it over a frame.

        Args:
            theme: index in :data:`~..dream.level.THEMES`.
            true, dreamt: (4,) x, y in cells, cosine and sine of the yaw.
        """
        self._papers[theme].press(frame, top, left)
        corner = left + self._origin[0], top + self._origin[1]
        self._arrow(frame, corner, dreamt, _DREAM_SIZE, DREAM_INK)
        self._arrow(frame, corner, true, _TRUE_SIZE, TRUE_INK)
        apart = f"{math.hypot(true[0] - dreamt[0], true[1] - dreamt[1]):.1f}"
        at = left + self._unit_at - sum(self._digits[each].width for each in apart)
        for each in apart:
            self._digits[each].press(frame, top + self._line, at)
            at += self._digits[each].width

    def _arrow(self, frame: NDArray[np.uint8], corner: tuple[int, int], place: Place, size: float, ink: Rgb) -> None:
        x, y, cos, sin = (float(number) for number in place)
        middle = np.clip((x, y), 0, SIDE) * self._cell + corner
        turned = _ARROW @ np.array(((cos, sin), (-sin, cos))) * (size * self._cell)
        corners = np.rint((middle + turned - 0.5) * (1 << _FRACTION)).astype(np.int32)
        cv2.fillPoly(frame, [corners], ink, cv2.LINE_AA, _FRACTION)

    def _drawn(self, size: int, theme: str) -> NDArray[np.uint8]:
        image = Image.new("RGBA", (self.width, self.height))
        pen = ImageDraw.Draw(image)
        pen.rounded_rectangle((0, 0, self.width - 1, self.height - 1), self._cell // 2, PAPER)
        colours = [tuple(round(255 * part) for part in colour) for colour in theme_of(theme).materials]
        for (y, x), kind in np.ndenumerate(level().grid.kinds[:SIDE, :SIDE]):
            left, top = self._origin[0] + x * self._cell, self._origin[1] + y * self._cell
            colour = colours[kind - 1] if kind else _FLOOR
            pen.rectangle((left, top, left + self._cell - 1, top + self._cell - 1), colour)
        middle = self._line + self._digits["0"].height / 2
        pen.text((self._unit_at, middle), _UNIT, INK, font=ImageFont.load_default(size), anchor="lm")
        return np.array(image)
