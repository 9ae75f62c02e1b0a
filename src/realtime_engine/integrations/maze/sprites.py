"""Orbs as glowing billboards with a depth test, and the light that they throw on floor and walls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .motion import Records, sine
from .palette import ORB_COLOURS, Theme
from .rays import Floats, Hits, PictureEncoder

PROFILE = 256
"""Steps from the middle of a glow to its rim, in squared distance."""
_GLOW, _POOL = 0, 1  # the orb itself, and its light on the floor
_RADII = np.array([0.36, 0.55], np.float32)
_NEAR = 0.45  # nearer than this an orb is not drawn; it fades out before
_FADE = np.float32(1.6)
_BOB = 0.09
_REACH = np.float32(9.0)  # fall-off of the light on walls
_BOOST = np.rint(16 * np.log2(1 + np.arange(512) / 128)).astype(np.int16)  # levels, by light in 1/128


@dataclass(frozen=True)
class Orbs:
    """The orbs of n worlds as seen by their visitors; every array is (n, orbs).

    ``depth`` along the view axis and ``aside`` to the right of it in cells, ``height`` above the eyes in cells.
    """

    x: Floats
    y: Floats
    depth: Floats
    aside: Floats
    height: Floats


def see_orbs(orbs: Records, eyes: PictureEncoder) -> Orbs:
    x, y = orbs["x"].astype(np.float32), orbs["y"].astype(np.float32)
    dx, dy = x - eyes.x, y - eyes.y
    height = (_BOB * sine(orbs["phase"])).astype(np.float32)
    return Orbs(x, y, dx * eyes.cos + dy * eyes.sin, dy * eyes.cos - dx * eyes.sin, height)


def light_on_walls(orbs: Orbs, hits: Hits) -> NDArray[np.int16]:
    """(n, columns) levels that the orbs add to the walls."""
    light = np.zeros_like(hits.distance)
    for orb in range(orbs.x.shape[1]):
        dx, dy = hits.x - orbs.x[:, orb, None], hits.y - orbs.y[:, orb, None]
        light += 1 / (np.float32(0.3) + _REACH * (dx * dx + dy * dy))
    levels: NDArray[np.int16] = _BOOST.take(np.minimum(light * 100, 511).astype(np.int32))
    return levels


def glow_table(theme: Theme) -> NDArray[np.uint8]:
    """(2, ORB_COLOURS, PROFILE, 4) colour to add and, last, how much of the background it covers (255: all of it).

    From the middle of an orb, or of its pool of light, to the rim.
    """
    squared = (np.arange(PROFILE) + 0.5) / PROFILE
    radius = np.sqrt(squared)
    rim = (1 - squared) ** 2
    core = 1 / (1 + np.exp((radius - 0.24) / 0.02))
    white = np.exp(-((radius / 0.15) ** 2))
    halo = 0.75 * np.exp(-4.2 * radius) * rim
    table = np.zeros((2, ORB_COLOURS, PROFILE, 4))
    for index, colour in enumerate(theme.orbs):
        tint = np.array(colour)
        body = core[:, None] * (0.6 * tint + 0.55 * white[:, None])
        table[_GLOW, index, :, :3] = body + halo[:, None] * tint
        table[_POOL, index, :, :3] = 0.26 * rim[:, None] * tint
    table[_GLOW, :, :, 3] = 0.9 * core + 0.35 * (1 - core) * rim * np.exp(-4.2 * radius)
    return np.rint(255 * np.clip(table, 0, 1)).astype(np.uint8)


@dataclass(frozen=True)
class _Marks:
    """Ellipses to be drawn, one entry each, those of one picture one after the other and the farthest first."""

    picture: NDArray[np.int64]
    depth: Floats
    centre_x: Floats
    centre_y: Floats
    radius_x: Floats
    radius_y: Floats
    colours: NDArray[np.uint32]  # (marks, PROFILE)


@dataclass(frozen=True)
class _Strips:
    """The columns of the ellipses that no wall hides, one entry each."""

    mark: NDArray[np.int64]
    column: NDArray[np.int64]
    across: Floats  # squared distance from the ellipse's middle column, 1 at its rim
    top: NDArray[np.int64]
    bottom: NDArray[np.int64]

    def where(self, chosen: NDArray[np.bool_]) -> _Strips:
        fields = (self.mark, self.column, self.across, self.top, self.bottom)
        return _Strips(*(values[chosen] for values in fields))  # type: ignore[arg-type]


def draw_orbs(
    picture: NDArray[np.uint32],
    orbs: Orbs,
    distance: Floats,
    horizon: Floats,
    focal: float,
    clear: Floats,
    tables: NDArray[np.uint8],
) -> None:
    """Add the orbs to the pictures.

    Args:
        picture: (n, height, width) colours as R, G, B, 255 in memory order, changed in place.
        distance: (n, width) distance of the wall in each column.
        horizon: (n,) row of the horizon.
        focal: focal length in pixels.
        clear: (n, orbs) what the fog lets through, 0 to 1.
        tables: (n, 2, ORB_COLOURS, PROFILE, 4), see :func:`glow_table`.
    """
    _, height, width = picture.shape
    marks = _marks(orbs, horizon, np.float32(focal), clear, tables, width)
    strips = _strips(marks, distance, height, width)
    seen = np.unique(strips.mark)
    rank = np.zeros(len(marks.picture), np.int64)
    rank[seen] = np.arange(len(seen)) - np.searchsorted(marks.picture[seen], marks.picture[seen])
    of_strip = rank[strips.mark]
    for layer in range(int(rank.max(initial=0)) + 1):  # ellipses of one layer lie in different pictures: no pixel twice
        _draw(picture, marks, strips.where(of_strip == layer))


def _marks(
    orbs: Orbs, horizon: Floats, focal: np.float32, clear: Floats, tables: NDArray[np.uint8], width: int
) -> _Marks:
    depth = np.maximum(orbs.depth, _NEAR)
    scale = focal / depth
    centre_x = width / np.float32(2) + orbs.aside * scale
    inside = np.abs(orbs.aside * scale) < width / np.float32(2) + _RADII[_POOL] * scale
    fade = np.clip((orbs.depth - _NEAR) * _FADE, 0, 1) * clear
    picture, orb = np.nonzero(inside & (fade > 0.02))
    far_first = np.lexsort((-depth[picture, orb], picture))
    picture, orb = picture[far_first], orb[far_first]
    kind = np.tile([_POOL, _GLOW], len(picture))
    picture, orb = np.repeat(picture, 2), np.repeat(orb, 2)
    at = (picture, orb)
    floor = kind == _POOL
    height = np.where(floor, np.float32(-0.5), orbs.height[at])
    radius_x = _RADII[kind] * scale[at]
    strength = (fade[at] * 256).astype(np.uint16)[:, None, None]
    colours = ((tables[picture, kind, orb % ORB_COLOURS] * strength) >> 8).astype(np.uint8)
    return _Marks(
        picture=picture,
        depth=depth[at],
        centre_x=centre_x[at],
        centre_y=horizon[picture] - height * scale[at],
        radius_x=radius_x,
        radius_y=np.where(floor, radius_x * np.minimum(np.float32(0.5) / depth[at], 1), radius_x),
        colours=colours.view(np.uint32)[..., 0],
    )


def _strips(marks: _Marks, distance: Floats, height: int, width: int) -> _Strips:
    left = np.clip(np.ceil(marks.centre_x - marks.radius_x), 0, width).astype(np.int64)
    right = np.clip(np.ceil(marks.centre_x + marks.radius_x), 0, width).astype(np.int64)
    counts = np.maximum(right - left, 0)
    mark = np.repeat(np.arange(len(counts)), counts)
    column = _ranges(left, counts)
    near = marks.depth[mark] < distance[marks.picture[mark], column]
    mark, column = mark[near], column[near]
    across = (column.astype(np.float32) - marks.centre_x[mark]) / marks.radius_x[mark]
    across = across * across
    chord = marks.radius_y[mark] * np.sqrt(np.maximum(1 - across, 0))
    center = marks.centre_y[mark]
    top = np.clip(np.ceil(center - chord), 0, height).astype(np.int64)
    bottom = np.clip(np.ceil(center + chord), 0, height).astype(np.int64)
    return _Strips(mark, column, across, top, np.maximum(bottom, top))


def _draw(picture: NDArray[np.uint32], marks: _Marks, strips: _Strips) -> None:
    _, height, width = picture.shape
    counts = strips.bottom - strips.top
    row = _ranges(strips.top, counts)
    mark = strips.mark
    down = (row.astype(np.float32) - np.repeat(marks.centre_y[mark], counts)) / np.repeat(marks.radius_y[mark], counts)
    down *= down
    down += np.repeat(strips.across, counts)
    down *= np.float32(PROFILE)
    step = np.minimum(down, np.float32(PROFILE - 1)).astype(np.int64)
    step += np.repeat(mark * PROFILE, counts)
    light = marks.colours.ravel().take(step).view(np.uint8).reshape(-1, 4)
    where = row * width
    where += np.repeat(marks.picture[mark] * (height * width) + strips.column, counts)
    pixels = picture.reshape(-1)
    behind = pixels.take(where).view(np.uint8).reshape(-1, 4)
    sums = ((behind * (np.uint16(256) - light[:, 3:])) >> 8).astype(np.uint8)
    sums += light
    sums |= np.negative((sums < light).view(np.uint8))  # what overflowed is 255
    pixels[where] = sums.view(np.uint32)[:, 0]


def _ranges(first: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """``first[i], first[i] + 1, ...``, ``counts[i]`` numbers each, one range after the other."""
    before = np.cumsum(counts) - counts
    numbers: NDArray[np.int64] = np.arange(int(counts.sum())) + np.repeat(first - before, counts)
    return numbers
