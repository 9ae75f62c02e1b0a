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
from .motion import ORB, ORBS, VISITOR, Motion, MotionControls, first_orbs, first_visitor
from .palette import Theme, theme_of
from .renderer import Renderer, View
from .world import World, make_world

__all__ = ["MazeModel"]

_FRAMES = "maze_frames"
_MAX_SEEDS = 2**64
_MIN_SIDE = 16


class _Frames(NamedTuple):
    """Passed from HOT to DEFERRED: the rows of the step and their view in each frame of the chunk."""

    rows: NDArray[np.int64]
    views: list[View]


class MazeModel:
    """First-person views of ray-cast worlds, one world per session, rendered in one batch.

    Chunks are (frames_per_chunk, height, width, 3) uint8 RGB.

    The attach context may hold ``seed`` (an integer of 0 or more, default 0), which determines the map, and ``prompt``
    (str), which determines the theme.

    Conditioning: ``forward``, ``strafe`` and ``turn`` in [-1, 1], ``run`` (bool), ``prompt`` (heavy), and in ``events``
    ``{"kind": "pointer_move", "dx": pixels, "dy": pixels}``. Missing values are 0.

    Output depends on seed and conditioning only: it is bit-identical in every row and whatever other sessions do.

    Args:
        max_sessions: maximum number of sessions, the number of rows.
        width, height: size of a frame in pixels; multiples of 4.
        fps: frames per second of playback.
        frames_per_chunk: frames per step; conditioning applies to all of them, events to the first.

    Raises:
        ValueError: an argument is invalid; also from ``seed`` and the stages for an invalid context or conditioning
            field.
    """

    def __init__(
        self, max_sessions: int = 8, width: int = 640, height: int = 360, fps: float = 30.0, frames_per_chunk: int = 1
    ) -> None:
        for name, side in (("width", width), ("height", height)):
            if isinstance(side, bool) or not isinstance(side, int) or side < _MIN_SIDE or side % 4:
                raise ValueError(f"{name} must be a multiple of 4 pixels, {_MIN_SIDE} or more, got {side!r}")
        if isinstance(fps, bool) or not isinstance(fps, (int, float)) or not 0 < fps < float("inf"):
            raise ValueError(f"fps must be a finite number of frames per second above 0, got {fps!r}")
        EngineManifest(max_sessions, frames_per_chunk=frames_per_chunk)  # validates both before they are used
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
        # Double-buffered state: a row of even age reads the first half and writes the second, a row of odd age
        # reads the second and writes the first, so a step that fails after HOT restarts from an unmodified state.
        self._visitors = np.zeros((2, max_sessions), VISITOR)
        self._orbs = np.zeros((2, max_sessions, ORBS), ORB)

    def manifest(self) -> EngineManifest:
        """Return the engine manifest."""
        return self._manifest

    def stages(self) -> list[Stage]:
        """Return the stages: theme tables (ENCODE), motion (HOT), rendering (DEFERRED)."""
        return [
            LaneStage(Lane.ENCODE, self._encode),
            LaneStage(Lane.HOT, self._move),
            LaneStage(Lane.DEFERRED, self._render),
        ]

    def heavy_keys(self) -> Collection[str]:
        """Return the conditioning keys handled by the ENCODE stage."""
        return ("prompt",)

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        """Build the worlds of rows.

        Raises:
            ValueError: a seed or prompt is invalid; no row has been modified.
        """
        prepared = {row: (_seed_in(context), _theme_in(context)) for row, context in rows.items()}
        for row, (seed, theme) in prepared.items():
            world = make_world(seed)
            self._initialize_row(row, world, seed)
            self._renderer.set_world(row, world)
            self._renderer.set_theme(row, theme)

    def detach(self, row: int, session_id: str) -> None:
        """Do nothing: seeding the next session of the row overwrites its state."""

    def _initialize_row(self, row: int, world: World, seed: int) -> None:
        self._solid[row] = world.grid.solid.ravel()
        self._turns[row] = world.turns
        self._visitors[0, row] = first_visitor(world)
        self._orbs[0, row] = first_orbs(world, seed)

    def _encode(self, batch: StageBatch) -> None:
        """ENCODE: load the theme tables of rows whose prompt changed."""
        themes = {row: _theme_in(batch.conditioning[session_in(batch, row)]) for row in batch.rows_in_order()}
        for row, theme in themes.items():
            self._renderer.set_theme(row, theme)

    def _move(self, batch: StageBatch) -> None:
        """HOT: move visitors and orbs of all due rows, frame by frame."""
        rows = np.array(batch.rows_in_order(), np.int64)
        controls = MotionControls([batch.conditioning[session_in(batch, row)] for row in rows.tolist()])
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
        """DEFERRED: render the frames of all rows whose session is still attached."""
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
        raise ValueError(f"prompt must be a string, got {brief(prompt)}")
    return theme_of(prompt or "")
