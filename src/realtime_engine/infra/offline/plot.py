"""Plots a capacity measurement."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from .capacity import CapacityPoint

_WIDTH, _HEIGHT = 900, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 84, 64, 70
_INK, _FAINT, _PAPER = (40, 44, 52), (222, 226, 232), (255, 255, 255)
_TIME, _MISS, _LIMIT = (36, 99, 190), (200, 60, 50), (120, 126, 136)
_ROWS = 5
_STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


def draw_capacity(points: Sequence[CapacityPoint], title: str) -> bytes:
    """Draw the 95th percentile of the chunk period and the fraction of missed chunks over the number of sessions.

    Args:
        points: at least one point, in order of sessions.
        title: title of the plot.

    Returns:
        A PNG file.
    """
    image = Image.new("RGB", (_WIDTH, _HEIGHT), _PAPER)
    chart = _Chart(ImageDraw.Draw(image), points)
    chart.draw(title)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _round_step(least: float) -> float:
    """The smallest round number that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(float(f"{step * power:.3g}") for step in _STEPS if step * power >= least * (1 - 1e-9))


class _Chart:
    def __init__(self, pen: ImageDraw.ImageDraw, points: Sequence[CapacityPoint]) -> None:
        self._pen = pen
        self._points = points
        self._period_ms = points[0].period_ms
        times = [self._period_ms, *(point.p95_ms for point in points if math.isfinite(point.p95_ms))]
        self._most_ms = _ROWS * _round_step(max(times) / _ROWS)
        self._fonts: dict[int, Any] = {size: ImageFont.load_default(size) for size in (14, 20)}

    def draw(self, title: str) -> None:
        self._text(_WIDTH / 2, 18, title, anchor="mt", size=20)
        self._grid()
        self._limit()
        self._curve([(point, point.miss_share) for point in self._points], _MISS, dashed=True)
        self._curve([(point, min(point.p95_ms / self._most_ms, 1.0)) for point in self._points], _TIME)
        self._text(12, _TOP - 8, "p95 of the time between chunks, ms", anchor="ls", ink=_TIME)
        self._text(_WIDTH - 12, _TOP - 8, "chunks missed", anchor="rs", ink=_MISS)
        self._text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 14, "sessions at once", anchor="ms")

    def _grid(self) -> None:
        for step in range(_ROWS + 1):
            y = self._y(step / _ROWS)
            self._pen.line((_LEFT, y, _WIDTH - _RIGHT, y), _FAINT)
            self._text(_LEFT - 10, y, f"{self._most_ms * step / _ROWS:g}", anchor="rm", ink=_TIME)
            self._text(_WIDTH - _RIGHT + 10, y, f"{100 * step // _ROWS} %", anchor="lm", ink=_MISS)
        for number, point in enumerate(self._points):
            x = self._x(number)
            self._pen.line((x, self._y(0), x, self._y(0) + 5), _INK)
            self._text(x, self._y(0) + 10, str(point.sessions), anchor="mt")

    def _limit(self) -> None:
        y = self._y(self._period_ms / self._most_ms)
        self._dashes((_LEFT, y), (_WIDTH - _RIGHT, y), _LIMIT)
        text = f"a chunk plays {self._period_ms:.1f} ms"
        self._text(_LEFT + 10, y + 7, text, anchor="lt", ink=_LIMIT)

    def _curve(
        self, values: Sequence[tuple[CapacityPoint, float]], ink: tuple[int, int, int], *, dashed: bool = False
    ) -> None:
        places = [(self._x(number), self._y(value)) for number, (_, value) in enumerate(values)]
        for begin, end in zip(places, places[1:], strict=False):
            if dashed:
                self._dashes(begin, end, ink)
            else:
                self._pen.line((*begin, *end), ink, width=3)
        for x, y in places:
            self._pen.ellipse((x - 4, y - 4, x + 4, y + 4), fill=ink)

    def _dashes(self, begin: tuple[float, float], end: tuple[float, float], ink: tuple[int, int, int]) -> None:
        pieces = max(int(max(abs(end[0] - begin[0]), abs(end[1] - begin[1])) / 6), 1)
        for piece in range(0, pieces, 2):
            shares = piece / pieces, min((piece + 1) / pieces, 1.0)
            line = [tuple(b + (e - b) * share for b, e in zip(begin, end, strict=True)) for share in shares]
            self._pen.line((*line[0], *line[1]), ink, width=2)

    def _x(self, number: int) -> float:
        """Session counts double from point to point, so the points are equidistant."""
        return _LEFT + (number + 0.5) * (_WIDTH - _LEFT - _RIGHT) / len(self._points)

    def _y(self, share: float) -> float:
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def _text(
        self, x: float, y: float, text: str, *, anchor: str, size: int = 14, ink: tuple[int, int, int] = _INK
    ) -> None:
        self._pen.text((x, y), text, ink, font=self._fonts[size], anchor=anchor)
