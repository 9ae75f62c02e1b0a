"""Overlays of the comparison: labels and a map, rendered once and blended into each frame."""

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
"""Background of text: red, green, blue, opacity."""
INK: Rgb = (255, 255, 255)


class Sprite:
    """An image with opacity.

    Args:
        picture: (height, width, 4) uint8 RGBA.
    """

    def __init__(self, picture: NDArray[np.uint8]) -> None:
        self.height, self.width = picture.shape[:2]
        opacity = picture[..., 3:].astype(np.uint16)
        self._ink = picture[..., :3] * opacity + np.uint16(127)
        self._keeps = 255 - opacity

    def blend(self, frame: NDArray[np.uint8], top: int, left: int) -> None:
        """Blend the image into a frame (height, width, 3) RGB; parts outside the frame are clipped."""
        down, across = (
            slice(max(0, -top), max(0, len(frame) - top)),
            slice(max(0, -left), max(0, frame.shape[1] - left)),
        )
        ink, keeps = self._ink[down, across], self._keeps[down, across]
        under = frame[max(0, top) :, max(0, left) :][: len(ink), : ink.shape[1]]
        under[...] = (under * keeps + ink) // 255


def label(text: str, size: int, dot: Rgb) -> Sprite:
    """A label: a colored dot and text of ``size`` pixels on a dark rounded rectangle."""
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
    """A sprite for each character, as wide as its advance."""
    font = ImageFont.load_default(size)
    sprites = {}
    for character in characters:
        image = Image.new("RGBA", (max(1, round(font.getlength(character))), round(size * 1.4)), (*INK, 0))
        ImageDraw.Draw(image).text((0, image.height / 2), character, INK, font=font, anchor="lm")
        sprites[character] = Sprite(np.array(image))
    return sprites


Pose: TypeAlias = NDArray[np.floating[Any]]

TRUE_INK: Rgb = (255, 255, 255)
DREAM_INK: Rgb = (255, 150, 240)

_UNIT = " cells apart"
_FLOOR: Rgb = (22, 22, 30)
_ARROW = np.array(((0.62, 0), (-0.45, 0.45), (-0.22, 0), (-0.45, -0.45)))  # forward and right, in cells
_TRUE_SIZE, _DREAM_SIZE = 0.9, 1.7  # the larger arrow stays visible around the smaller one
_FRACTION = 4  # fractional bits of a coordinate


class LevelMap:
    """Draws a map of the level with both poses, and the distance between them in cells.

    Args:
        cell: side of a cell in pixels.
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
        self._backgrounds = [Sprite(self._drawn(size, theme)) for theme in THEMES]

    def blend(self, frame: NDArray[np.uint8], top: int, left: int, theme: int, true: Pose, dreamt: Pose) -> None:
        """Blend the map into a frame.

        Args:
            frame: (height, width, 3) RGB.
            top: row of the upper left corner.
            left: column of the upper left corner.
            theme: index in :data:`~..dream.level.THEMES`.
            true: true pose (4,): x and y in cells, cosine and sine of the yaw.
            dreamt: pose of the dream, likewise.
        """
        self._backgrounds[theme].blend(frame, top, left)
        corner = left + self._origin[0], top + self._origin[1]
        self._arrow(frame, corner, dreamt, _DREAM_SIZE, DREAM_INK)
        self._arrow(frame, corner, true, _TRUE_SIZE, TRUE_INK)
        distance = f"{math.hypot(true[0] - dreamt[0], true[1] - dreamt[1]):.1f}"
        at = left + self._unit_at - sum(self._digits[each].width for each in distance)
        for each in distance:
            self._digits[each].blend(frame, top + self._line, at)
            at += self._digits[each].width

    def _arrow(self, frame: NDArray[np.uint8], corner: tuple[int, int], place: Pose, size: float, ink: Rgb) -> None:
        x, y, cos, sin = (float(number) for number in place)
        middle = np.clip((x, y), 0, SIDE) * self._cell + corner
        turned = _ARROW @ np.array(((cos, sin), (-sin, cos))) * (size * self._cell)
        corners = np.rint((middle + turned - 0.5) * (1 << _FRACTION)).astype(np.int32)
        cv2.fillPoly(frame, [corners], ink, cv2.LINE_AA, _FRACTION)

    def _drawn(self, size: int, theme: str) -> NDArray[np.uint8]:
        image = Image.new("RGBA", (self.width, self.height))
        pen = ImageDraw.Draw(image)
        pen.rounded_rectangle((0, 0, self.width - 1, self.height - 1), self._cell // 2, PAPER)
        colors = [tuple(round(255 * part) for part in color) for color in theme_of(theme).materials]
        for (y, x), kind in np.ndenumerate(level().grid.kinds[:SIDE, :SIDE]):
            left, top = self._origin[0] + x * self._cell, self._origin[1] + y * self._cell
            color = colors[kind - 1] if kind else _FLOOR
            pen.rectangle((left, top, left + self._cell - 1, top + self._cell - 1), color)
        middle = self._line + self._digits["0"].height / 2
        pen.text((self._unit_at, middle), _UNIT, INK, font=ImageFont.load_default(size), anchor="lm")
        return np.array(image)


_REFERENCE_HEIGHT = 320  # pixels; all sizes scale with the height
_DIVIDER, _CAPTION, _CELL, _MARGIN = 4, 17, 9, 10


class Diptych:
    """Composes a frame: the true maze on the left, the dream on the right, a divider, labels and the map.

    Args:
        height: height of the frame in pixels.
        width: width of the frame in pixels, even.
    """

    def __init__(self, height: int, width: int) -> None:
        self._half = width // 2
        divider, caption, cell, self._margin = (
            max(1, round(pixels * height / _REFERENCE_HEIGHT)) for pixels in (_DIVIDER, _CAPTION, _CELL, _MARGIN)
        )
        self._divider = slice(self._half - (divider + 1) // 2, self._half + (divider + 1) // 2)
        self._captions = (label("maze", caption, TRUE_INK), label("dream", caption, DREAM_INK))
        self._map = LevelMap(cell)
        self._map_at = (self._margin, self._half - self._map.width // 2)

    def compose(
        self,
        frame: NDArray[np.uint8],
        true: NDArray[np.uint8],
        dreamt: NDArray[np.uint8],
        theme: int,
        true_pose: Pose,
        dreamt_pose: Pose,
    ) -> None:
        """Fill a frame.

        Args:
            frame: (height, width, 3) RGB, written.
            true: picture of the maze, RGB, of any size.
            dreamt: picture of the dream, (height, width / 2, 3) RGB.
            theme: index in :data:`~..dream.level.THEMES`.
            true_pose: (4,) x and y in cells, cosine and sine of the yaw.
            dreamt_pose: pose of the dream, likewise.
        """
        left, right = frame[:, : self._half], frame[:, self._half :]
        cv2.resize(true, left.shape[1::-1], dst=left, interpolation=cv2.INTER_AREA)
        right[...] = dreamt
        frame[:, self._divider] = 0
        maze, dream = self._captions
        maze.blend(frame, self._margin, self._margin)
        dream.blend(frame, self._margin, frame.shape[1] - self._margin - dream.width)
        self._map.blend(frame, *self._map_at, theme, true_pose, dreamt_pose)
