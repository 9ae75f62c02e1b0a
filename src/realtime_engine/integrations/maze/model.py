"""The maze as a model for :class:`~realtime_engine.core.composed.ComposedEngine`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.contract import EngineManifest
from ...core.errors import brief
from ...core.lanes import Lane
from ...core.stages import LaneStage, Stage, StageBatch, session_in
from .grid import SIZE
from .motion import ORB, ORBS, VISITOR, Controls, Motion, first_orbs, first_visitor
from .palette import Theme, theme_of
from .renderer import Renderer, View
from .world import World, make_world

__all__ = ["MazeModel"]

_FRAMES = "maze_frames"
_MAX_SEEDS = 2**64
_MIN_SIDE = 16


class _Frames(NamedTuple):
    """What HOT leaves for DEFERRED: the rows that it moved, and what they see in each frame of the chunk."""

    rows: NDArray[np.int64]
    views: list[View]


class MazeModel:
    """A first-person walk through a ray-cast world, one world a session, all rendered together.

    Chunks are (frames_per_chunk, height, width, 3) uint8 RGB. The attach context may hold ``seed`` (an integer of 0 or
    more, 0 when absent), which makes the map, and ``prompt`` (text), the theme. Conditioning: ``forward``, ``strafe``
    and ``turn`` in [-1, 1], ``run`` (bool), ``prompt`` (heavy: the world takes on its colours), and in ``events``
    ``{"kind": "pointer_move", "dx": pixels, "dy": pixels}``. What is absent is 0.

    The same seed and the same conditioning give the same bytes, whatever the row and the company.

    Args:
        width, height: of a frame, in pixels; multiples of 4.
        fps: frames per second of playback.
        frames_per_chunk: frames that one step makes; conditioning holds for all of them, events act on the first.

    Raises:
        ValueError: naming the argument; later, from ``seed`` or a stage, the context or conditioning field.
    """

    def __init__(
        self, max_sessions: int = 8, width: int = 640, height: int = 360, fps: float = 30.0, frames_per_chunk: int = 1
    ) -> None:
        for name, side in (("width", width), ("height", height)):
            if isinstance(side, bool) or not isinstance(side, int) or side < _MIN_SIDE or side % 4:
                raise ValueError(f"{name} must be a multiple of 4 pixels, {_MIN_SIDE} or more, got {side!r}")
        if isinstance(fps, bool) or not isinstance(fps, (int, float)) or not 0 < fps < float("inf"):
            raise ValueError(f"fps must be a finite number of frames per second above 0, got {fps!r}")
        EngineManifest(max_sessions, frames_per_chunk=frames_per_chunk)  # says what is wrong before it is used
        self._manifest = EngineManifest(
            max_sessions=max_sessions,
            chunk_shape=(frames_per_chunk, height, width, 3),
            rate_hz=fps / frames_per_chunk,
            frames_per_chunk=frames_per_chunk,
        )
        self._motion = Motion(1 / fps)
        self._renderer = Renderer(max_sessions, width, height)
        self._solid = np.ones((max_sessions, SIZE * SIZE), bool)
        self._turns = np.zeros((max_sessions, SIZE * SIZE, 4, 4), np.uint8)
        # State at two chunk boundaries: a row of even age reads the first and writes the second, a row of odd age the
        # other way round, so a step that fails after HOT is made again from the same state.
        self._visitors = np.zeros((2, max_sessions), VISITOR)
        self._orbs = np.zeros((2, max_sessions, ORBS), ORB)

    def manifest(self) -> EngineManifest:
        return self._manifest

    def stages(self) -> list[Stage]:
        return [
            LaneStage(Lane.ENCODE, self._encode),
            LaneStage(Lane.HOT, self._move),
            LaneStage(Lane.DEFERRED, self._render),
        ]

    def heavy_keys(self) -> Collection[str]:
        return ("prompt",)

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        """Build the worlds. Raises :class:`ValueError` for a bad seed or prompt, before any row is changed."""
        prepared = {row: (_seed_in(context), _theme_in(context)) for row, context in rows.items()}
        for row, (seed, theme) in prepared.items():
            world = make_world(seed)
            self._enter(row, world, seed)
            self._renderer.set_world(row, world)
            self._renderer.set_theme(row, theme)

    def detach(self, row: int, session_id: str) -> None:
        """Nothing: the next session of the row is seeded over what is there."""

    def _enter(self, row: int, world: World, seed: int) -> None:
        self._solid[row] = world.grid.solid.ravel()
        self._turns[row] = world.turns
        self._visitors[0, row] = first_visitor(world)
        self._orbs[0, row] = first_orbs(world, seed)

    def _encode(self, batch: StageBatch) -> None:
        """ENCODE: a theme's tables into the rows whose prompt changed."""
        themes = {row: _theme_in(batch.conditioning[session_in(batch, row)]) for row in batch.rows_in_order()}
        for row, theme in themes.items():
            self._renderer.set_theme(row, theme)

    def _move(self, batch: StageBatch) -> None:
        """HOT: visitors and orbs of all rows, frame by frame."""
        rows = np.array(batch.rows_in_order(), np.int64)
        controls = Controls([batch.conditioning[session_in(batch, row)] for row in rows.tolist()])
        now = np.array([batch.ages[row] & 1 for row in rows.tolist()], np.int64)
        visitors, orbs = self._visitors[now, rows], self._orbs[now, rows]
        solid, turns = self._solid[rows], self._turns[rows]
        self._motion.look(visitors, controls)
        views = []
        for _ in range(self._manifest.frames_per_chunk):
            self._motion.walk(visitors, controls, solid)
            self._motion.drift(orbs, turns)
            views.append(View(visitors.copy(), orbs.copy()))
        self._visitors[1 - now, rows], self._orbs[1 - now, rows] = visitors, orbs
        batch.data[_FRAMES] = _Frames(rows, views)

    def _render(self, batch: StageBatch) -> None:
        """DEFERRED: the pictures of all rows that are still there."""
        frames: _Frames = batch.data[_FRAMES]
        sessions = [batch.session_at(row) for row in frames.rows.tolist()]
        present = np.flatnonzero([session is not None for session in sessions])
        chunks = [np.empty(self._manifest.chunk_shape, np.uint8) for _ in present]
        if not chunks:
            return
        for frame, view in enumerate(frames.views):
            seen = View(view.visitors[present], view.orbs[present])
            pictures = self._renderer.render(frames.rows[present], seen)
            for chunk, picture in zip(chunks, pictures, strict=True):
                chunk[frame] = picture
        batch.outputs.update((sessions[i], chunk) for i, chunk in zip(present.tolist(), chunks, strict=True))


def _seed_in(context: Mapping[str, Any]) -> int:
    seed = context.get("seed")
    if seed is None:
        return 0
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < _MAX_SEEDS:
        raise ValueError(f"seed must be an integer from 0 to 2**64 - 1, got {brief(seed)}")
    return int(seed)


def _theme_in(given: Mapping[str, Any]) -> Theme:
    prompt = given.get("prompt")
    if prompt is not None and not isinstance(prompt, str):
        raise ValueError(f"prompt must be a text, got {brief(prompt)}")
    return theme_of(prompt or "")
