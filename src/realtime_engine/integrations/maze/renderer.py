"""Batched renderer: columns for walls, rows for floor and ceiling, two table look-ups per pixel.

Each pixel is first assigned a texel index. The texel (material and brightness) plus the offsets of fog and light is an
index into the color table of the theme. Floating-point math is element-wise only, so a picture is bit-identical in
every batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from .grid import SIZE
from .motion import Records, cosine, sine
from .palette import ORB_COLORS, TABLE_SIZE, Theme
from .rays import Floats, Hits, Viewpoints, cast_rays
from .shading import MAX_VISIBLE, Shading
from .sprites import PROFILE, Orbs, draw_orbs, glow_table, light_on_walls, project_orbs
from .textures import LEVELS, TILE_SIDE, WALL_KINDS, WALL_SIDE, Levels, halve, wall_textures
from .world import ATLAS_ROWS, LIGHT_SIDE, MIPS, STRIDE, World, mip_origin

FIELD = 0.78
"""Focal length in picture widths: a view of 65 degrees."""

_WALL_MIPS = 8
_WALL_FRACTION = 11  # fraction bits of a texel index along a column
_FLAT_FRACTION = 16  # fraction bits of a texel column along a row; a texel row has log2(STRIDE)
_ATLAS = ATLAS_ROWS * STRIDE
SIDE_SHADE = -5  # levels added to walls of constant y, to make corners visible
SHARP_WALL, SHARP_FLAT = np.float32(1.35), np.float32(1.8)  # the next mip is used from 2 / this texels per pixel
LIGHT_OFFSET = np.float32(0.13)  # cells in front of a wall, where its light is sampled
DARKEST, BRIGHTEST = -44, 22
_PADDING = 4  # output rows between two pictures that are resampled together

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class View:
    """The dynamic content of a frame: records of n visitors and of (n, ORBS) orbs."""

    visitors: Records
    orbs: Records


@dataclass(frozen=True)
class _Columns:
    """The walls of a picture; every array is (n, 1, width).

    ``half`` is half the wall height in pixels; ``start`` and ``step`` give the texel index as a fixed-point linear
    function of the row; ``shade`` is the offset of fog and light.
    """

    half: Floats
    start: Ints
    step: Ints
    shade: NDArray[np.uint16]


@dataclass(frozen=True)
class _Rows:
    """Floor and ceiling of a picture; every array is (n, height, 1).

    ``x``, ``dx``, ``y``, ``dy`` give texel column and row as fixed-point linear functions of the picture column;
    ``base`` is the first texel.
    """

    below: Floats
    x: Ints
    dx: Ints
    y: Ints
    dy: Ints
    base: Ints
    shade: NDArray[np.uint16]


class Renderer:
    """Stores worlds and themes in rows and renders any subset of rows in one batch.

    Args:
        rows: number of rows.
        width, height: size of the output in pixels; multiples of 4.
        walls: (WALL_KINDS, WALL_SIDE, WALL_SIDE) levels, indexed [kind, u, v]; default: the textures of the maze.
    """

    def __init__(self, rows: int, width: int, height: int, walls: Levels | None = None) -> None:
        self.width, self.height = width, height
        self._inner_width, self._inner_height = width * 3 // 4, (height + _PADDING) * 3 // 4
        self._focal = np.float32(FIELD * self._inner_width)
        self._middle = np.float32((height / 2 + _PADDING / 2) * 3 / 4)
        across = np.arange(self._inner_width, dtype=np.int32) - self._inner_width // 2
        self._across = across
        self._tangents = (across + np.float32(0.5)) / self._focal
        self._down = np.arange(self._inner_height, dtype=np.float32) + np.float32(0.5)
        atlas, self._wall_base = _wall_atlas(wall_textures() if walls is None else walls)
        self._flats = len(atlas)
        self._texels = np.zeros(len(atlas) + rows * 2 * _ATLAS, np.uint16)
        self._texels[: len(atlas)] = atlas
        self._kinds = np.ones((rows, SIZE * SIZE), np.uint8)
        self._light = np.zeros((rows, LIGHT_SIDE * LIGHT_SIDE), np.int16)
        self._colors = np.zeros((rows, TABLE_SIZE), np.uint32)
        self._shading = Shading(rows)
        self._glow = np.zeros((rows, 2, ORB_COLORS, PROFILE, 4), np.uint8)
        self._workspace = _Workspace()

    def set_world(self, row: int, world: World) -> None:
        """Set the world of a row."""
        start = self._flats + row * 2 * _ATLAS
        self._texels[start : start + _ATLAS] = world.floor.ravel()
        self._texels[start + _ATLAS : start + 2 * _ATLAS] = world.ceiling.ravel()
        self._kinds[row] = world.grid.kinds.ravel()
        self._light[row] = world.light.ravel()

    def set_theme(self, row: int, theme: Theme) -> None:
        """Set the theme of a row."""
        self._colors[row] = theme.lookup
        self._shading.set_density(row, theme.density)
        self._glow[row] = glow_table(theme)

    def render(self, rows: NDArray[np.int64], view: View) -> NDArray[np.uint8]:
        """Render ``rows``; return (n, height, width, 3) RGB, a view of a workspace that the next call overwrites."""
        viewpoints = _viewpoints(view.visitors)
        hits = cast_rays(viewpoints, self._tangents, self._kinds[rows] > 0)
        orbs = project_orbs(view.orbs, viewpoints)
        horizon = (self._middle + view.visitors["pitch"] * (self.height * 0.75)).astype(np.float32)
        columns = self._columns(rows, hits, orbs, horizon)
        picture = self._paint(rows, columns, self._rows(rows, viewpoints, horizon))
        clear = self._shading.clear(rows, orbs.depth)
        draw_orbs(picture, orbs, hits.distance, horizon, float(self._focal), clear, self._glow[rows])
        return self._resample(picture)

    def _columns(self, rows: NDArray[np.int64], hits: Hits, orbs: Orbs, horizon: Floats) -> _Columns:
        height = self._focal / hits.distance  # wall height in pixels
        facing = np.abs(np.where(hits.upright, hits.ray_x, hits.ray_y))
        mip = _mip(WALL_SIDE / (height * np.sqrt(facing)) * SHARP_WALL, _WALL_MIPS)
        side = WALL_SIDE >> mip
        kind = self._kinds.ravel().take(hits.cell + (rows * SIZE * SIZE)[:, None]) - np.int32(1)
        column = np.minimum((hits.along * side).astype(np.int32), side - 1)
        base = self._wall_base.take(kind * _WALL_MIPS + mip) + column * side
        one = np.float32(1 << _WALL_FRACTION)
        step = side * one / height
        start = base * float(one) + (0.5 * side * one - (horizon[:, None] - np.float32(0.5)) * step)
        lift = self._wall_light(rows, hits) + light_on_walls(orbs, hits) + np.where(hits.upright, 0, SIDE_SHADE)
        lift += self._shading.torch(hits.distance)
        shade = self._shading.fog(rows, hits.distance) + np.clip(lift, DARKEST, BRIGHTEST).astype(np.uint16)
        return _Columns(
            half=(height / 2)[:, None],
            start=start.astype(np.int32)[:, None],
            step=step.astype(np.int32)[:, None],
            shade=shade[:, None],
        )

    def _wall_light(self, rows: NDArray[np.int64], hits: Hits) -> NDArray[np.int16]:
        x = hits.x - np.where(hits.upright, np.copysign(LIGHT_OFFSET, hits.ray_x), np.float32(0))
        y = hits.y - np.where(hits.upright, np.float32(0), np.copysign(LIGHT_OFFSET, hits.ray_y))
        samples = np.float32(LIGHT_SIDE / SIZE)
        place = (y * samples).astype(np.int64) * LIGHT_SIDE + (x * samples).astype(np.int64)
        start = (rows * LIGHT_SIDE * LIGHT_SIDE)[:, None]
        light: NDArray[np.int16] = self._light.ravel().take(place + start, mode="clip")
        return light

    def _rows(self, rows: NDArray[np.int64], viewpoints: Viewpoints, horizon: Floats) -> _Rows:
        below = self._down - horizon[:, None]  # (n, height), negative on the ceiling
        flat = np.maximum(np.abs(below), self._focal * np.float32(0.5 / MAX_VISIBLE))
        distance = self._focal * np.float32(0.5) / flat
        across, deep = distance / self._focal, distance / flat
        mip = _mip(TILE_SIDE * np.sqrt(across * deep) * SHARP_FLAT, MIPS)
        texels = (TILE_SIDE >> mip) * 1.0
        zero = self._tangents[self._inner_width // 2]  # the reference column
        ray_x, ray_y = viewpoints.cos - viewpoints.sin * zero, viewpoints.sin + viewpoints.cos * zero
        one_x, one_y = texels * (1 << _FLAT_FRACTION), texels * STRIDE
        shade = self._shading.fog(rows, distance) + self._shading.torch(distance)
        atlas = self._flats + (rows[:, None] * 2 + (below < 0)) * _ATLAS
        return _Rows(
            below=below[..., None],
            x=_fixed((viewpoints.x + distance * ray_x) * one_x),
            dx=_fixed(-across * viewpoints.sin * one_x),
            y=_fixed((viewpoints.y + distance * ray_y) * one_y),
            dy=_fixed(across * viewpoints.cos * one_y),
            base=(atlas + _MIP_ORIGINS.take(mip)).astype(np.int32)[..., None],
            shade=shade[..., None],
        )

    def _paint(self, rows: NDArray[np.int64], columns: _Columns, flats: _Rows) -> NDArray[np.uint32]:
        """Return (n, height, width) colors, computed in bands of about one picture's size to stay in cache."""
        count = len(rows)
        picture = self._workspace.take("picture", (count, self._inner_height, self._inner_width), np.uint32)
        table = (rows * TABLE_SIZE)[:, None, None]
        band = -(-self._inner_height // count)
        for top in range(0, self._inner_height, band):
            here = slice(top, min(top + band, self._inner_height))
            self._paint_band(picture[:, here], table, columns, flats, here)
        return picture

    def _paint_band(
        self, picture: NDArray[np.uint32], table: NDArray[np.int64], columns: _Columns, flats: _Rows, here: slice
    ) -> None:
        shape = picture.shape
        take = self._workspace.take
        index, other = take("index", shape, np.int32), take("other", shape, np.int32)
        wall = take("wall", shape, np.bool_)
        shade, texel = take("shade", shape, np.uint16), take("texel", shape, np.uint16)
        color, entry = take("color", shape, np.uint32), take("entry", shape, np.int64)

        np.multiply(flats.dx[:, here], self._across, out=index)
        index += flats.x[:, here]
        index >>= _FLAT_FRACTION
        np.multiply(flats.dy[:, here], self._across, out=other)
        other += flats.y[:, here]
        other &= -STRIDE
        index += other
        index += flats.base[:, here]
        np.multiply(columns.step, np.arange(here.start, here.stop, dtype=np.int32)[:, None], out=other)
        other += columns.start
        other >>= _WALL_FRACTION
        np.less(np.abs(flats.below[:, here]), columns.half, out=wall)
        np.copyto(index, other, where=wall)
        np.copyto(shade, flats.shade[:, here])
        np.copyto(shade, columns.shade, where=wall)
        self._texels.take(index, out=texel, mode="clip")
        texel += shade
        np.add(texel, table, out=entry)
        self._colors.ravel().take(entry, out=color, mode="clip")
        picture[...] = color

    def _resample(self, picture: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """Enlarge all pictures bilinearly as one tall image; padding rows, which blend two pictures, are cut off."""
        count, height, width = picture.shape
        take = self._workspace.take
        small = take("small", (count * height, width, 3), np.uint8)
        tall = take("tall", (count, self.height + _PADDING, self.width, 3), np.uint8)
        stacked = tall.reshape(count * (self.height + _PADDING), self.width, 3)
        cv2.cvtColor(picture.view(np.uint8).reshape(count * height, width, 4), cv2.COLOR_RGBA2RGB, dst=small)
        cv2.resize(small, stacked.shape[1::-1], dst=stacked, interpolation=cv2.INTER_LINEAR)
        return tall[:, _PADDING // 2 : -(_PADDING // 2)]


class _Workspace:
    """Named, reusable buffers that grow with the largest batch."""

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[Any]] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        size = int(np.prod(shape))
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < size:
            buffer = self._buffers[name] = np.empty(size, dtype)
        return buffer[:size].reshape(shape)


_MIP_ORIGINS = np.array([mip_origin(mip) for mip in range(MIPS)], np.int64)


def _viewpoints(visitors: Records) -> Viewpoints:
    x, y, cos, sin = (
        values.astype(np.float32)[:, None]
        for values in (visitors["x"], visitors["y"], cosine(visitors["yaw"]), sine(visitors["yaw"]))
    )
    return Viewpoints(x, y, cos, sin)


def _mip(texels_per_pixel: Floats, mips: int) -> Ints:
    """Return the mip of a texel density: its binary exponent, which is exact."""
    exponent = np.frexp(texels_per_pixel)[1] - 1
    mip: Ints = np.clip(exponent, 0, mips - 1).astype(np.int32)
    return mip


def _fixed(values: NDArray[np.floating[Any]]) -> Ints:
    fixed: Ints = np.floor(values).astype(np.int32)[..., None]
    return fixed


def _wall_atlas(textures: Levels) -> tuple[NDArray[np.uint16], Ints]:
    """Return all wall textures with their mips as one flat array, and the start of each [kind, mip] in it."""
    parts: list[NDArray[np.uint16]] = []
    bases: list[int] = []
    end = 0
    for kind in range(WALL_KINDS):
        texture = textures[kind] + np.uint16(kind * LEVELS)
        for _ in range(_WALL_MIPS):
            parts.append(texture.ravel())
            bases.append(end)
            end += texture.size
            texture = halve(texture)
    return np.concatenate(parts), np.array(bases, np.int32)
