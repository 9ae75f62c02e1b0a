"""The stage model of the comparison, for :class:`~realtime_engine.core.composed.ComposedEngine`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ...core.contract import EngineManifest
from ...core.lanes import Lane
from ...core.stages import LaneStage, Stage, StageBatch, session_in
from ..dream.inputs import start_in, theme_in
from ..dream.level import HEIGHT, STEP_S, THEMES, WIDTH, TrueView
from ..dream.model import DreamModel
from ..maze.motion import Records, cosine, sine
from .overlay import Diptych
from .walk import TrueMotion

__all__ = ["CompareModel"]

_TRUTH = "compare_truth"


class _Truth(NamedTuple):
    """Data passed from HOT to DEFERRED.

    Attributes:
        rows: (rows,) row indices.
        themes: (rows,) theme of each row.
        visitors: (frames, rows) true poses.
        dreamt: (rows, 4) poses of the dream after the last frame.
    """

    rows: NDArray[np.int64]
    themes: NDArray[np.int64]
    visitors: Records
    dreamt: torch.Tensor


class CompareModel:
    """The true maze on the left and the dream on the right, from the same start with the same controls.

    Chunks are (frames_per_chunk, height, 2 * width, 3) uint8 RGB, with height and width of the dream. Attach context
    and conditioning are those of :class:`~..dream.model.DreamModel`, without ``picture``, which shows no true pose.
    ``meet`` (bool, heavy) is added: when it becomes true, the dream localizes itself in the true picture.

    Args:
        dream: the model to compare, owned by this model from now on.

    Raises:
        ValueError: from ``seed`` or a stage: a field of context or conditioning is invalid; the message names it.
    """

    def __init__(self, dream: DreamModel) -> None:
        self._dream = dream
        dreamt = dream.manifest()
        frames, height, width, channels = dreamt.chunk_shape
        self._manifest = EngineManifest(
            max_sessions=dreamt.max_sessions,
            chunk_shape=(frames, height, 2 * width, channels),
            rate_hz=dreamt.rate_hz,
            frames_per_chunk=frames,
        )
        self._steps = round(1 / STEP_S / (dreamt.rate_hz * frames))
        self._walk = TrueMotion(dreamt.max_sessions)
        self._themes = np.zeros(dreamt.max_sessions, np.int64)
        self._view = TrueView(*_view_size(width))
        self._dreamt_view = TrueView()  # the dream's input; separate, as ENCODE may run concurrently with DEFERRED
        self._diptych = Diptych(height, 2 * width)

    def manifest(self) -> EngineManifest:
        """Return the engine manifest."""
        return self._manifest

    def stages(self) -> list[Stage]:
        """The stages of the dream, each followed by its counterpart for the true maze."""
        own: Mapping[Lane, Callable[[StageBatch], None]] = {
            Lane.ENCODE: self._encode,
            Lane.HOT: self._go,
            Lane.DEFERRED: self._show,
        }
        return [each for stage in self._dream.stages() for each in (stage, LaneStage(stage.lane, own[stage.lane]))]

    def heavy_keys(self) -> Collection[str]:
        """Return the conditioning keys handled by the ENCODE stages."""
        return (*self._dream.heavy_keys(), "meet")

    def heavy_equal(self, previous: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
        """Whether the heavy values are equal. ``meet`` takes effect only when it becomes true."""
        meets = bool(wanted.get("meet")) and not previous.get("meet")
        return not meets and all(previous.get(key) == wanted.get(key) for key in self._dream.heavy_keys())

    def cuda_device(self) -> torch.device | None:
        """Return the CUDA device of the dream, or ``None`` on another device."""
        return self._dream.cuda_device()

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        """Start both sides at the same pose.

        Raises:
            ValueError: a context is invalid; no row is changed.
        """
        for context in rows.values():
            if context.get("picture") is not None:
                raise ValueError("picture is not supported here, as the dream starts at the pose of the maze: use seed")
        starts = {row: (start_in(context).seed, theme_in(context)) for row, context in rows.items()}
        self._dream.seed(rows)
        for row, (seed, theme) in starts.items():
            self._walk.enter(row, seed)
            self._themes[row] = THEMES.index(theme)

    def detach(self, row: int, session_id: str) -> None:
        """Detach a session from the dream."""
        self._dream.detach(row, session_id)

    def _encode(self, batch: StageBatch) -> None:
        """ENCODE: new themes, and the true pictures of the rows that localize themselves."""
        given = {row: batch.conditioning[session_in(batch, row)] for row in batch.rows_in_order()}
        themes = {row: THEMES.index(theme_in(conditioning)) for row, conditioning in given.items()}
        meeting = np.array([row for row, conditioning in given.items() if conditioning.get("meet")], np.int64)
        if meeting.size:
            ages = np.array([batch.ages[row] for row in meeting.tolist()], np.int64)
            seen = self._dreamt_view(
                self._walk.visitors(meeting, ages), np.array([themes[row] for row in meeting.tolist()])
            )
            self._dream.align(batch, dict(zip(meeting.tolist(), seen, strict=True)))
        for row, theme in themes.items():
            self._themes[row] = theme

    def _go(self, batch: StageBatch) -> None:
        """HOT: true motion of all rows that are due."""
        rows = np.array(batch.rows_in_order(), np.int64)
        ages = np.array([batch.ages[row] for row in rows.tolist()], np.int64)
        conditioning = [batch.conditioning[session_in(batch, row)] for row in rows.tolist()]
        visitors = self._walk.go(rows, ages, conditioning, self._manifest.frames_per_chunk, self._steps)
        dreamt = self._dream.places(rows.tolist(), (ages + 1).tolist())
        batch.data[_TRUTH] = _Truth(rows, self._themes[rows], visitors, dreamt)

    def _show(self, batch: StageBatch) -> None:
        """DEFERRED: compose both pictures of all attached rows. The map shows the end of the chunk."""
        truth: _Truth = batch.data[_TRUTH]
        sessions = [batch.session_at(row) for row in truth.rows.tolist()]
        present = np.flatnonzero([session is not None for session in sessions])
        if not present.size:
            return
        themes, visitors = truth.themes[present], truth.visitors[:, present]
        dreamt = truth.dreamt.cpu().numpy()[present]
        plans = list(zip(themes.tolist(), _places(visitors[-1]), dreamt, strict=True))
        shown = [sessions[index] for index in present.tolist()]
        chunks = {session: np.empty(self._manifest.chunk_shape, np.uint8) for session in shown}
        for frame, seen in enumerate(visitors):
            for session, picture, plan in zip(shown, self._view(seen, themes), plans, strict=True):
                self._diptych.compose(chunks[session][frame], picture, batch.outputs[session][frame], *plan)
        batch.outputs.update(chunks)


def _view_size(width: int) -> tuple[int, int]:
    """Render size of the true maze for a half of ``width`` pixels.

    The aspect ratio is that of the dream's pictures, so that both halves are stretched equally.
    """
    return max(16, round(width * HEIGHT / WIDTH / 4) * 4), width


def _places(visitors: Records) -> NDArray[np.float64]:
    """Poses (n, 4): x and y in cells, cosine and sine of the yaw."""
    return np.stack([visitors["x"], visitors["y"], cosine(visitors["yaw"]), sine(visitors["yaw"])], 1)
