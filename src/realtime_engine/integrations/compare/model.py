"""The maze and the dream of it as one model for :class:`~realtime_engine.core.composed.ComposedEngine`."""

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
from .walk import Walk

__all__ = ["CompareModel"]

_TRUTH = "compare_truth"


class _Truth(NamedTuple):
    """What HOT leaves for DEFERRED: rows, the themes that they are seen in, (frames, rows) visitors, and where the
    dream is after the last frame, (rows, 4)."""

    rows: NDArray[np.int64]
    themes: NDArray[np.int64]
    visitors: Records
    dreamt: torch.Tensor


class CompareModel:
    """The true maze to the left and the dream of it to the right, led by the same hands from the same place.

    Chunks are (frames_per_chunk, height, 2 * width, 3) uint8 RGB, of the dream's height and width. The attach context
    and conditioning are those of :class:`~..dream.model.DreamModel`, but for ``picture``, which would be of no true
    place. In addition ``meet`` (bool, heavy): when it becomes true, the dream looks at the true picture and goes on
    from there.

    Args:
        dream: the model to compare with the truth. It belongs to this one from now on.

    Raises:
        ValueError: from ``seed`` or a stage, naming the context or conditioning field.
    """

    def __init__(self, dream: DreamModel) -> None:
        self._dream = dream
        dreamt = dream.manifest()
        frames, height, width, colours = dreamt.chunk_shape
        self._manifest = EngineManifest(
            max_sessions=dreamt.max_sessions,
            chunk_shape=(frames, height, 2 * width, colours),
            rate_hz=dreamt.rate_hz,
            frames_per_chunk=frames,
        )
        self._steps = round(1 / STEP_S / (dreamt.rate_hz * frames))
        self._walk = Walk(dreamt.max_sessions)
        self._themes = np.zeros(dreamt.max_sessions, np.int64)
        self._view = TrueView(*_view_size(width))
        self._dreamt_view = TrueView()  # as the dream sees the world; ENCODE may run beside DEFERRED
        self._diptych = Diptych(height, 2 * width)

    def manifest(self) -> EngineManifest:
        return self._manifest

    def stages(self) -> list[Stage]:
        """Those of the dream, and after each of them the same of the truth."""
        own: Mapping[Lane, Callable[[StageBatch], None]] = {
            Lane.ENCODE: self._encode,
            Lane.HOT: self._go,
            Lane.DEFERRED: self._show,
        }
        return [each for stage in self._dream.stages() for each in (stage, LaneStage(stage.lane, own[stage.lane]))]

    def heavy_keys(self) -> Collection[str]:
        return (*self._dream.heavy_keys(), "meet")

    def heavy_equal(self, previous: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
        """Letting go of ``meet`` changes nothing."""
        meets = bool(wanted.get("meet")) and not previous.get("meet")
        return not meets and all(previous.get(key) == wanted.get(key) for key in self._dream.heavy_keys())

    def cuda_device(self) -> torch.device | None:
        return self._dream.cuda_device()

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        """Begin in the same place. Raises :class:`ValueError` for a bad context, before any row is changed."""
        for context in rows.values():
            if context.get("picture") is not None:
                raise ValueError("picture cannot be given here: the dream begins where the maze does, give a seed")
        starts = {row: (start_in(context).seed, theme_in(context)) for row, context in rows.items()}
        self._dream.seed(rows)
        for row, (seed, theme) in starts.items():
            self._walk.enter(row, seed)
            self._themes[row] = THEMES.index(theme)

    def detach(self, row: int, session_id: str) -> None:
        self._dream.detach(row, session_id)

    def _encode(self, batch: StageBatch) -> None:
        """ENCODE: the themes that rows have changed to, and what those see who are to meet the truth again."""
        told = {row: batch.conditioning[session_in(batch, row)] for row in batch.rows_in_order()}
        themes = {row: THEMES.index(theme_in(given)) for row, given in told.items()}
        meeting = np.array([row for row, given in told.items() if given.get("meet")], np.int64)
        if meeting.size:
            ages = np.array([batch.ages[row] for row in meeting.tolist()], np.int64)
            seen = self._dreamt_view(
                self._walk.visitors(meeting, ages), np.array([themes[row] for row in meeting.tolist()])
            )
            self._dream.meet(batch, dict(zip(meeting.tolist(), seen, strict=True)))
        for row, theme in themes.items():
            self._themes[row] = theme

    def _go(self, batch: StageBatch) -> None:
        """HOT: the true walk of all rows that are due."""
        rows = np.array(batch.rows_in_order(), np.int64)
        ages = np.array([batch.ages[row] for row in rows.tolist()], np.int64)
        told = [batch.conditioning[session_in(batch, row)] for row in rows.tolist()]
        visitors = self._walk.go(rows, ages, told, self._manifest.frames_per_chunk, self._steps)
        dreamt = self._dream.places(rows.tolist(), (ages + 1).tolist())
        batch.data[_TRUTH] = _Truth(rows, self._themes[rows], visitors, dreamt)

    def _show(self, batch: StageBatch) -> None:
        """DEFERRED: both pictures of all rows that are still there, as one; the plan shows the end of the chunk."""
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
    """Height and width to render the truth in, for a half ``width`` pixels wide: in the shape of the dream's pictures,
    so that other shapes stretch both alike."""
    return max(16, round(width * HEIGHT / WIDTH / 4) * 4), width


def _places(visitors: Records) -> NDArray[np.float64]:
    """(n, 4) x, y in cells, cosine and sine of the yaw."""
    return np.stack([visitors["x"], visitors["y"], cosine(visitors["yaw"]), sine(visitors["yaw"])], 1)
