"""A small plan of the level: where the visitor is, and where the dream takes them to be."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from ..dream.level import SIDE, open_cells
from .stamp import INK, PAPER, Rgb, Stamp, glyphs

Places = NDArray[np.floating]

TRUE_INK: Rgb = (255, 255, 255)
DREAM_INK: Rgb = (255, 190, 40)

_UNIT = " cells apart"
_FLOOR = (118, 120, 138, 235)
_EDGE: Rgb = (12, 12, 18)
_ARROW = np.array(((0.62, 0), (-0.45, 0.45), (-0.22, 0), (-0.45, -0.45)))  # ahead and to the right, in cells
_ROOM = 1.5  # an arrow's edge, larger than the arrow
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
        self._paper = Stamp(self._drawn(size))

    def press(self, frame: NDArray[np.uint8], top: int, left: int, true: Places, dreamt: Places) -> None:
        """Lay it over a frame; ``true`` and ``dreamt`` are (4,) x, y in cells, cosine and sine of the yaw."""
        self._paper.press(frame, top, left)
        for place, ink in ((dreamt, DREAM_INK), (true, TRUE_INK)):
            corner = (left + self._origin[0], top + self._origin[1])
            self._arrow(frame, corner, place, ink)
        apart = f"{math.hypot(true[0] - dreamt[0], true[1] - dreamt[1]):.1f}"
        at = left + self._unit_at - sum(self._digits[each].width for each in apart)
        for each in apart:
            self._digits[each].press(frame, top + self._line, at)
            at += self._digits[each].width

    def _arrow(self, frame: NDArray[np.uint8], corner: tuple[int, int], place: Places, ink: Rgb) -> None:
        x, y, cos, sin = (float(number) for number in place)
        middle = np.clip((x, y), 0, SIDE) * self._cell + corner
        turned = _ARROW @ np.array(((cos, sin), (-sin, cos))) * self._cell
        for shape, colour in ((turned * _ROOM, _EDGE), (turned, ink)):
            corners = np.rint((middle + shape - 0.5) * (1 << _FRACTION)).astype(np.int32)
            cv2.fillPoly(frame, [corners], colour, cv2.LINE_AA, _FRACTION)

    def _drawn(self, size: int) -> NDArray[np.uint8]:
        image = Image.new("RGBA", (self.width, self.height))
        pen = ImageDraw.Draw(image)
        pen.rounded_rectangle((0, 0, self.width - 1, self.height - 1), self._cell // 2, PAPER)
        for x, y in open_cells().tolist():
            left, top = self._origin[0] + x * self._cell, self._origin[1] + y * self._cell
            pen.rectangle((left, top, left + self._cell - 1, top + self._cell - 1), _FLOOR)
        middle = self._line + self._digits["0"].height / 2
        pen.text((self._unit_at, middle), _UNIT, INK, font=ImageFont.load_default(size), anchor="lm")
        return np.array(image)
