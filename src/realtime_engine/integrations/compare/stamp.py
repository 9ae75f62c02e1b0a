"""Small pictures that lie over a frame, drawn once and pressed into every frame."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Rgb: TypeAlias = tuple[int, int, int]

PAPER = (12, 12, 18, 175)
"""What texts lie on: red, green, blue, opacity."""
INK: Rgb = (255, 255, 255)


class Stamp:
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


def label(text: str, size: int, dot: Rgb) -> Stamp:
    """A caption: a coloured dot and a text ``size`` pixels high, on dark paper with round corners."""
    font = ImageFont.load_default(size)
    inset, width, height = size // 2, round(font.getlength(text)), round(size * 1.7)
    image = Image.new("RGBA", (width + 2 * inset + size, height))
    pen = ImageDraw.Draw(image)
    pen.rounded_rectangle((0, 0, image.width - 1, height - 1), height // 3, PAPER)
    middle, radius = height / 2, size * 0.28
    pen.ellipse((inset, middle - radius, inset + 2 * radius, middle + radius), dot)
    pen.text((inset + size, middle), text, INK, font=font, anchor="lm")
    return Stamp(np.array(image))


def glyphs(characters: str, size: int) -> dict[str, Stamp]:
    """Each character by itself, in a field of its own advance and equal height."""
    font = ImageFont.load_default(size)
    stamps = {}
    for character in characters:
        image = Image.new("RGBA", (max(1, round(font.getlength(character))), round(size * 1.4)), (*INK, 0))
        ImageDraw.Draw(image).text((0, image.height / 2), character, INK, font=font, anchor="lm")
        stamps[character] = Stamp(np.array(image))
    return stamps
