"""Orbs: glowing billboards with a depth test, and their light on floor and walls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .motion import Records, sine
from .palette import ORB_COLORS, Theme
from .rays import Floats, Hits, Viewpoints

PROFILE = 256
"""Steps from the center of a glow to its rim, in squared distance."""
_GLOW, _POOL = 0, 1  # the orb itself, and its light on the floor
_RADII = np.array([0.36, 0.55], np.float32)
_NEAR = 0.45  # cells; nearer orbs are not drawn and fade out before
_FADE = np.float32(1.6)
_BOB = 0.09
_REACH = np.float32(9.0)  # falloff of the light on walls
_BOOST = np.rint(16 * np.log2(1 + np.arange(512) / 128)).astype(np.int16)  # levels, by light in 1/128


@dataclass(frozen=True)
class Orbs:
    """Orbs of n worlds in camera coordinates; every array is (n, orbs), in cells.

    Attributes:
        x, y: position in the world.
        depth: distance along the view axis.
        aside: distance to the right of the view axis.
        height: height above the camera.
    """

    x: Floats
    y: Floats
    depth: Floats
    aside: Floats
    height: Floats


def project_orbs(orbs: Records, viewpoints: Viewpoints) -> Orbs:
    """Transform orbs to camera coordinates."""
    x, y = orbs["x"].astype(np.float32), orbs["y"].astype(np.float32)
    dx, dy = x - viewpoints.x, y - viewpoints.y
    height = (_BOB * sine(orbs["phase"])).astype(np.float32)
    return Orbs(x, y, dx * viewpoints.cos + dy * viewpoints.sin, dy * viewpoints.cos - dx * viewpoints.sin, height)


def light_on_walls(orbs: Orbs, hits: Hits) -> NDArray[np.int16]:
    """Return the (n, columns) levels that the orbs add to the walls."""
    light = np.zeros_like(hits.distance)
    for orb in range(orbs.x.shape[1]):
        dx, dy = hits.x - orbs.x[:, orb, None], hits.y - orbs.y[:, orb, None]
        light += 1 / (np.float32(0.3) + _REACH * (dx * dx + dy * dy))
    levels: NDArray[np.int16] = _BOOST.take(np.minimum(light * 100, 511).astype(np.int32))
    return levels


def glow_table(theme: Theme) -> NDArray[np.uint8]:
    """Return (2, ORB_COLORS, PROFILE, 4): the color to add and, last, the opacity, from center to rim.

    The first axis selects the orb or its light on the floor. An opacity of 255 hides the background.
    """
    squared = (np.arange(PROFILE) + 0.5) / PROFILE
    radius = np.sqrt(squared)
    rim = (1 - squared) ** 2
    core = 1 / (1 + np.exp((radius - 0.24) / 0.02))
    white = np.exp(-((radius / 0.15) ** 2))
    halo = 0.75 * np.exp(-4.2 * radius) * rim
    table = np.zeros((2, ORB_COLORS, PROFILE, 4))
    for index, color in enumerate(theme.orbs):
        tint = np.array(color)
        body = core[:, None] * (0.6 * tint + 0.55 * white[:, None])
        table[_GLOW, index, :, :3] = body + halo[:, None] * tint
        table[_POOL, index, :, :3] = 0.26 * rim[:, None] * tint
    table[_GLOW, :, :, 3] = 0.9 * core + 0.35 * (1 - core) * rim * np.exp(-4.2 * radius)
    return np.rint(255 * np.clip(table, 0, 1)).astype(np.uint8)


@dataclass(frozen=True)
class _Marks:
    """Ellipses to draw, sorted by picture, then from far to near."""

    picture: NDArray[np.int64]
    depth: Floats
    center_x: Floats
    center_y: Floats
    radius_x: Floats
    radius_y: Floats
    colors: NDArray[np.uint32]  # (marks, PROFILE)


@dataclass(frozen=True)
class _Strips:
    """Visible columns of the ellipses, one entry each."""

    mark: NDArray[np.int64]
    column: NDArray[np.int64]
    across: Floats  # squared distance from the center column of the ellipse, 1 at its rim
    top: NDArray[np.int64]
    bottom: NDArray[np.int64]

    def where(self, chosen: NDArray[np.bool_]) -> _Strips:
        """Return the selected strips."""
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
    """Draw the orbs into the pictures.

    Args:
        picture: (n, height, width) colors as R, G, B, 255 in memory order, modified in place.
        orbs: orbs in camera coordinates.
        distance: (n, width) distance of the wall in each column.
        horizon: (n,) row of the horizon.
        focal: focal length in pixels.
        clear: (n, orbs) transmittance of the fog, 0 to 1.
        tables: (n, 2, ORB_COLORS, PROFILE, 4), see :func:`glow_table`.
    """
    _, height, width = picture.shape
    marks = _marks(orbs, horizon, np.float32(focal), clear, tables, width)
    strips = _strips(marks, distance, height, width)
    seen = np.unique(strips.mark)
    rank = np.zeros(len(marks.picture), np.int64)
    rank[seen] = np.arange(len(seen)) - np.searchsorted(marks.picture[seen], marks.picture[seen])
    of_strip = rank[strips.mark]
    for layer in range(
        int(rank.max(initial=0)) + 1
    ):  # ellipses of a layer are in different pictures, so no pixel repeats
        _draw(picture, marks, strips.where(of_strip == layer))


def _marks(
    orbs: Orbs, horizon: Floats, focal: np.float32, clear: Floats, tables: NDArray[np.uint8], width: int
) -> _Marks:
    depth = np.maximum(orbs.depth, _NEAR)
    scale = focal / depth
    center_x = width / np.float32(2) + orbs.aside * scale
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
    colors = ((tables[picture, kind, orb % ORB_COLORS] * strength) >> 8).astype(np.uint8)
    return _Marks(
        picture=picture,
        depth=depth[at],
        center_x=center_x[at],
        center_y=horizon[picture] - height * scale[at],
        radius_x=radius_x,
        radius_y=np.where(floor, radius_x * np.minimum(np.float32(0.5) / depth[at], 1), radius_x),
        colors=colors.view(np.uint32)[..., 0],
    )


def _strips(marks: _Marks, distance: Floats, height: int, width: int) -> _Strips:
    left = np.clip(np.ceil(marks.center_x - marks.radius_x), 0, width).astype(np.int64)
    right = np.clip(np.ceil(marks.center_x + marks.radius_x), 0, width).astype(np.int64)
    counts = np.maximum(right - left, 0)
    mark = np.repeat(np.arange(len(counts)), counts)
    column = _ranges(left, counts)
    near = marks.depth[mark] < distance[marks.picture[mark], column]
    mark, column = mark[near], column[near]
    across = (column.astype(np.float32) - marks.center_x[mark]) / marks.radius_x[mark]
    across = across * across
    chord = marks.radius_y[mark] * np.sqrt(np.maximum(1 - across, 0))
    center = marks.center_y[mark]
    top = np.clip(np.ceil(center - chord), 0, height).astype(np.int64)
    bottom = np.clip(np.ceil(center + chord), 0, height).astype(np.int64)
    return _Strips(mark, column, across, top, np.maximum(bottom, top))


def _draw(picture: NDArray[np.uint32], marks: _Marks, strips: _Strips) -> None:
    _, height, width = picture.shape
    counts = strips.bottom - strips.top
    row = _ranges(strips.top, counts)
    mark = strips.mark
    down = (row.astype(np.float32) - np.repeat(marks.center_y[mark], counts)) / np.repeat(marks.radius_y[mark], counts)
    down *= down
    down += np.repeat(strips.across, counts)
    down *= np.float32(PROFILE)
    step = np.minimum(down, np.float32(PROFILE - 1)).astype(np.int64)
    step += np.repeat(mark * PROFILE, counts)
    light = marks.colors.ravel().take(step).view(np.uint8).reshape(-1, 4)
    where = row * width
    where += np.repeat(marks.picture[mark] * (height * width) + strips.column, counts)
    pixels = picture.reshape(-1)
    behind = pixels.take(where).view(np.uint8).reshape(-1, 4)
    sums = ((behind * (np.uint16(256) - light[:, 3:])) >> 8).astype(np.uint8)
    sums += light
    sums |= np.negative((sums < light).view(np.uint8))  # saturate on overflow
    pixels[where] = sums.view(np.uint32)[:, 0]


def _ranges(first: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the concatenated ranges ``first[i], first[i] + 1, ...`` of ``counts[i]`` numbers each."""
    before = np.cumsum(counts) - counts
    numbers: NDArray[np.int64] = np.arange(int(counts.sum())) + np.repeat(first - before, counts)
    return numbers
