"""Orbs as glowing billboards with a depth test, and the light that they throw on floor and walls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .motion import Records, sine
from .palette import ORB_COLOURS, Theme
from .rays import Eyes, Floats, Hits

PROFILE = 256
"""Steps from the middle of a glow to its rim, in squared distance."""
_GLOW, _POOL = 0, 1  # the orb itself, and its light on the floor
_RADII = np.array([0.4, 0.62], np.float32)
_NEAR = 0.3  # nearer than this an orb is not drawn; it fades out before
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


def see_orbs(orbs: Records, eyes: Eyes) -> Orbs:
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
    return _BOOST.take(np.minimum(light * 100, 511).astype(np.int32))


def glow_table(theme: Theme) -> NDArray[np.uint8]:
    """(2, ORB_COLOURS, PROFILE, 4) colours to add, from the middle of an orb, or of its pool of light, to the rim."""
    squared = (np.arange(PROFILE) + 0.5) / PROFILE
    radius = np.sqrt(squared)
    rim = (1 - squared) ** 2
    core = np.clip((0.3 - radius) / 0.045, 0, 1)
    halo = 0.62 * np.exp(-5.0 * radius) * rim + 0.12 * np.exp(-(((radius - 0.42) / 0.05) ** 2))
    table = np.zeros((2, ORB_COLOURS, PROFILE, 4))
    for index, colour in enumerate(theme.orbs):
        tint = np.array(colour)
        body = core[:, None] * (0.35 + 0.65 * tint) * (1.0 - 0.25 * (radius[:, None] / 0.3))
        table[_GLOW, index, :, :3] = body + halo[:, None] * tint
        table[_POOL, index, :, :3] = 0.3 * rim[:, None] * tint
    return np.rint(255 * np.clip(table, 0, 1)).astype(np.uint8)


@dataclass(frozen=True)
class _Marks:
    """Ellipses to be drawn, one entry each, ordered so that those of one picture lie together."""

    picture: NDArray[np.int64]
    rank: NDArray[np.int64]
    kind: NDArray[np.int64]
    colour: NDArray[np.int64]
    depth: Floats
    centre_x: Floats
    centre_y: Floats
    radius_x: Floats
    radius_y: Floats

    def of_rank(self, rank: int) -> _Marks:
        chosen = self.rank == rank
        return _Marks(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


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
    marks, strength = _visible(orbs, horizon, np.float32(focal), clear, picture.shape[2])
    if not len(marks.picture):
        return
    pixels = picture.reshape(-1).view(np.uint8).reshape(-1, 4)
    for rank in range(int(marks.rank.max()) + 1):  # ellipses of one rank lie in different pictures: no pixel twice
        _draw(pixels, picture.shape, marks.of_rank(rank), strength[marks.rank == rank], distance, tables)


def _visible(
    orbs: Orbs, horizon: Floats, focal: np.float32, clear: Floats, width: int
) -> tuple[_Marks, NDArray[np.uint16]]:
    depth = np.maximum(orbs.depth, _NEAR)
    scale = focal / depth
    centre_x = width / np.float32(2) + orbs.aside * scale
    seen = (orbs.depth > _NEAR) & (np.abs(orbs.aside * scale) < width / np.float32(2) + _RADII[_POOL] * scale)
    fade = np.clip((depth - _NEAR) * np.float32(2.5), 0, 1) * clear
    picture, orb = np.nonzero(seen & (fade > 0.02))
    picture, orb, kind = np.repeat(picture, 2), np.repeat(orb, 2), np.tile([_POOL, _GLOW], len(picture))
    at = (picture, orb)
    floor = kind == _POOL
    height = np.where(floor, np.float32(-0.5), orbs.height[at])
    radius_x = _RADII[kind] * scale[at]
    radius_y = np.where(floor, radius_x * np.minimum(np.float32(0.5) / depth[at], 1), radius_x)
    first = np.searchsorted(picture, picture)
    marks = _Marks(
        picture=picture,
        rank=np.arange(len(picture)) - first,
        kind=kind,
        colour=orb % ORB_COLOURS,
        depth=depth[at],
        centre_x=centre_x[at],
        centre_y=horizon[picture] - height * scale[at],
        radius_x=radius_x,
        radius_y=radius_y,
    )
    return marks, (fade[at] * 256).astype(np.uint16)


def _draw(
    pixels: NDArray[np.uint8],
    shape: tuple[int, ...],
    marks: _Marks,
    strength: NDArray[np.uint16],
    distance: Floats,
    tables: NDArray[np.uint8],
) -> None:
    _, height, width = shape
    left = np.clip(np.ceil(marks.centre_x - marks.radius_x), 0, width).astype(np.int64)
    right = np.clip(np.ceil(marks.centre_x + marks.radius_x), 0, width).astype(np.int64)
    mark, column = _ragged(left, right)
    near = marks.depth[mark] < distance[marks.picture[mark], column]
    mark, column = mark[near], column[near]
    across = (column - marks.centre_x[mark]) / marks.radius_x[mark]
    across = across * across
    chord = marks.radius_y[mark] * np.sqrt(np.maximum(1 - across, 0))
    top = np.clip(np.ceil(marks.centre_y[mark] - chord), 0, height).astype(np.int64)
    bottom = np.clip(np.ceil(marks.centre_y[mark] + chord), 0, height).astype(np.int64)
    span, row = _ragged(top, bottom)
    owner = mark[span]
    down = (row - marks.centre_y[owner]) / marks.radius_y[owner]
    step = np.minimum((across[span] + down * down) * PROFILE, PROFILE - 1).astype(np.int64)
    table = (marks.picture * 2 + marks.kind) * ORB_COLOURS + marks.colour
    light = tables.reshape(-1, 4).view(np.uint32)[:, 0].take(table[owner] * PROFILE + step)
    added = (light.view(np.uint8).reshape(-1, 4) * strength[owner, None]) >> 8
    where = (marks.picture[owner] * height + row) * width + column[span]
    pixels[where] = np.minimum(pixels[where] + added, 255)


def _ragged(first: NDArray[np.int64], end: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For ranges ``first[i]`` to ``end[i]``, one after the other: each number, and the ``i`` that it comes from."""
    counts = np.maximum(end - first, 0)
    owner = np.repeat(np.arange(len(counts)), counts)
    offset = np.cumsum(counts) - counts
    return owner, np.arange(len(owner)) - (offset - first)[owner]
