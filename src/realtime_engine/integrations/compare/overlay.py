"""Small pictures that lie over a frame, drawn once and pressed into every frame."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from ..dream.level import SIDE, THEMES, level, theme_of

Rgb: TypeAlias = tuple[int, int, int]

PAPER = (12, 12, 18, 175)
"""What texts lie on: red, green, blue, opacity."""
INK: Rgb = (255, 255, 255)


class Sprite:
    """A picture with opacity.

    Args:
        picture: (height, width, 4) uint8 RGBA.
    """

    def __init__(self, picture: NDArray[np.uint8]) -> None:
        self.height, self.width = picture.shape[:2]
        opacity = picture[..., 3:].astype(np.uint16)
        self._ink = picture[..., :3] * opacity + np.uint16(127)
        self._keeps = 255 - opacity

    def press(self, frame: NDArray[np.uint8], top: int, left: int) -> None:
        """Lay it over an (height, width, 3) RGB frame; what is outside is cut off."""
        down, across = (
            slice(max(0, -top), max(0, len(frame) - top)),
            slice(max(0, -left), max(0, frame.shape[1] - left)),
        )
        ink, keeps = self._ink[down, across], self._keeps[down, across]
        under = frame[max(0, top) :, max(0, left) :][: len(ink), : ink.shape[1]]
        under[...] = (under * keeps + ink) // 255


def label(text: str, size: int, dot: Rgb) -> Sprite:
    """A caption: a coloured dot and a text ``size`` pixels high, on dark paper with round corners."""
    font = ImageFont.load_default(size)
    inset, width, height = size // 2, round(font.getlength(text)), round(size * 1.7)
    image = Image.new("RGBA", (width + 2 * inset + size, height))
    pen = ImageDraw.Draw(image)
    pen.rounded_rectangle((0, 0, image.width - 1, height - 1), height // 3, PAPER)
    middle, radius = height / 2, size * 0.28
    pen.ellipse((inset, middle - radius, inset + 2 * radius, middle + radius), dot)
    pen.text((inset + size, middle), text, INK, font=font, anchor="lm")
    return Sprite(np.array(image))


def glyphs(characters: str, size: int) -> dict[str, Sprite]:
    """Each character by itself, in a field of its own advance and equal height."""
    font = ImageFont.load_default(size)
    stamps = {}
    for character in characters:
        image = Image.new("RGBA", (max(1, round(font.getlength(character))), round(size * 1.4)), (*INK, 0))
        ImageDraw.Draw(image).text((0, image.height / 2), character, INK, font=font, anchor="lm")
        stamps[character] = Sprite(np.array(image))
    return stamps


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
        self._papers = [Sprite(self._drawn(size, theme)) for theme in THEMES]

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
