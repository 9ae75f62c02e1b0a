"""The dream as a model for :class:`~realtime_engine.core.composed.ComposedEngine`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...core.contract import EngineManifest
from ...core.lanes import Lane
from ...core.stages import LaneStage, Stage, StageBatch, session_in
from ..maze.motion import Controls
from .inference import Astray, Chunks, Dreamer, PictureEncoder, Seen, State
from .inputs import Start, start_in, strength_in, theme_in
from .level import CONTROLS, STEP_S, THEMES
from .training.data import control_numbers
from .weights import Weights

__all__ = ["DreamModel"]

RowPolicy: TypeAlias = Literal["all", "occupied"]

_LATENTS = "dream_latents"


class _Latents(NamedTuple):
    """What HOT leaves for DEFERRED: the rows of its batch, and latents (frames, rows, latent, COLUMNS)."""

    rows: list[int]
    frames: Tensor


class DreamModel:
    """Walks through a level that a network has learned, all rows in one forward.

    Chunks are (frames_per_chunk, height, width, 3) uint8 RGB. The attach context may hold ``seed`` (an integer of 0 or
    more, 0 when absent), which says where the walk begins and how it goes astray, ``theme`` (a name in
    :data:`~.level.THEMES`), and ``picture`` ((HEIGHT, WIDTH, 3) uint8), what is seen at the beginning instead of the
    seed's place. Conditioning: ``forward``, ``strafe``, ``turn`` in [-1, 1], ``run`` (bool), ``astray`` (0 to 1, how
    far what is seen strays from what was learned), ``theme`` (heavy), and in ``events``
    ``{"kind": "pointer_move", "dx": pixels}``. What is absent is 0.

    Args:
        weights: where they come from.
        height, width: of a frame, in pixels.
        fps: frames per second of playback; the dynamics make ``1 / STEP_S`` steps a second.
        frames_per_chunk: frames that one step of the engine makes.
        device: torch's name of it.
        rows: ``"all"`` always runs the whole batch, so that a session's frames have the same bits in any company;
            ``"occupied"`` runs the rows that are due, which is faster when there are few, and differs in the last bits.
        compile: compile the network with the first step.

    Attributes:
        device: where it computes.
        eyes, chunks: what computes; they hold no state of any row.
        rows: as given.

    Raises:
        ValueError: naming the argument; later, from ``seed`` or a stage, the context or conditioning field.
        WeightsError: the weights are not to be had, or do not fit on the device.
    """

    def __init__(
        self,
        weights: Weights | None = None,
        max_sessions: int = 4,
        height: int = 320,
        width: int = 480,
        fps: int = 15,
        frames_per_chunk: int = 1,
        device: str = "cpu",
        rows: RowPolicy = "all",
        compile: bool = False,
    ) -> None:
        _check_counts(max_sessions=max_sessions, height=height, width=width, frames_per_chunk=frames_per_chunk)
        steps = 1 / STEP_S / fps if fps > 0 else 0.0
        if steps < 1 or abs(steps - round(steps)) > 1e-9:
            raise ValueError(f"fps must divide {1 / STEP_S:.0f}, got {fps!r}")
        if rows not in ("all", "occupied"):
            raise ValueError(f"rows must be 'all' or 'occupied', got {rows!r}")
        self._manifest = EngineManifest(
            max_sessions=max_sessions,
            chunk_shape=(frames_per_chunk, height, width, 3),
            rate_hz=fps / frames_per_chunk,
            frames_per_chunk=frames_per_chunk,
        )
        self.rows: RowPolicy = rows
        weights = Weights() if weights is None else weights
        self.device = torch_device(device)
        self._dreamer = Dreamer(weights.world(self.device), compile)
        self.eyes = PictureEncoder(weights, self._dreamer.field, self.device)
        sizes = weights.sizes
        self.chunks = Chunks(self._dreamer, sizes, (frames_per_chunk, height, width, 3), round(steps))
        # State at two chunk boundaries: a row of even age reads the first half and writes the second, a row of odd age
        # the other way round, so a step that fails after HOT is made again from the same state.
        self._places, self._hidden = self.chunks.at_rest(2 * max_sessions)
        self._codes = torch.zeros(max_sessions, sizes.code, device=self.device)
        self._seeds = np.zeros(max_sessions, np.int64)

    def first_runs(self) -> Mapping[str, Callable[[], object]]:
        """What is slow the first time: name -> a call that gets it over with. Changes no state."""
        return {"looking at pictures": lambda: self.eyes.codes_of(THEMES), "a step of all rows": self._run_all}

    def _run_all(self) -> None:
        """A step of every number of rows that may come, in the torch modes and memory layouts of a real one."""
        most = self._manifest.max_sessions
        with torch.inference_mode():
            for count in range(1 if self.rows == "occupied" else most, most + 1):
                ages, strengths = np.zeros(count, np.int64), np.zeros(count, np.float32)
                rows, controls = list(range(count)), np.zeros((count, CONTROLS), np.float32)
                self.chunks.show(self._run(rows, ages, controls, strengths)[1], {})

    def manifest(self) -> EngineManifest:
        return self._manifest

    def stages(self) -> list[Stage]:
        return [
            _DreamStage(Lane.ENCODE, self._encode),
            _DreamStage(Lane.HOT, self._step),
            _DreamStage(Lane.DEFERRED, self._decode),
        ]

    def heavy_keys(self) -> Collection[str]:
        return ("theme",)

    def cuda_device(self) -> torch.device | None:
        return self.device if self.device.type == "cuda" else None

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        """Look at each row's first picture. Raises :class:`ValueError` for a bad context, before any row is changed."""
        starts = {row: start_in(context) for row, context in rows.items()}
        seen = self.eyes.look([start.picture for start in starts.values()])
        for (row, start), look in zip(starts.items(), seen, strict=True):
            self._enter(row, start, look)

    def detach(self, row: int, session_id: str) -> None:
        """Nothing: the next session of the row is seeded over what is there."""

    def places(self, rows: Sequence[int], ages: Sequence[int]) -> Tensor:
        """(n, 4) where rows of these ages are, x, y in cells, cosine and sine of the yaw, on the device."""
        return self._places[[self._place_of(row, age) for row, age in zip(rows, ages, strict=True)]]

    def meet(self, batch: StageBatch, pictures: Mapping[int, NDArray[np.uint8]]) -> None:
        """Go where pictures, row -> (HEIGHT, WIDTH, 3), were taken, no faster or slower. For ENCODE stages.

        A row stays where it is when what it sees there fits the picture better.
        """
        with torch.inference_mode():
            seen = self.eyes.look(list(pictures.values()))
            for (row, picture), look in zip(pictures.items(), seen, strict=True):
                here = self._place_of(row, batch.ages[row])
                places = torch.stack([self._places[here], look.place.to(self.device)])
                dreamt = self._dreamer.decode(self._dreamer.see(places, look.code.to(self.device).expand(2, -1)))
                off = np.square(dreamt.astype(np.float32) - picture).mean((1, 2, 3))
                self._places[here] = places[int(off.argmin())]

    def _place_of(self, row: int, age: int) -> int:
        return row + self._manifest.max_sessions * (age & 1)

    def _enter(self, row: int, start: Start, look: Seen) -> None:
        self._places[row] = look.place
        self._hidden[row] = 0
        self._codes[row] = look.code
        self._seeds[row] = start.seed

    def _encode(self, batch: StageBatch) -> None:
        """ENCODE: the codes of the themes that rows have changed to."""
        themes = {row: theme_in(batch.conditioning[session_in(batch, row)]) for row in batch.rows_in_order()}
        codes = self.eyes.codes_of(list(themes.values()))
        for row, code in zip(themes, codes, strict=True):
            self._codes[row] = code

    def _step(self, batch: StageBatch) -> None:
        """HOT: the dynamics of all rows, and what is seen, frame by frame."""
        due = batch.rows_in_order()
        rows = list(range(self._manifest.max_sessions)) if self.rows == "all" else due
        ages = np.array([batch.ages.get(row, 0) for row in rows], np.int64)
        told = [batch.conditioning[session_in(batch, row)] for row in due]
        controls = self._controls_of(due, told)
        strengths = np.zeros(self._manifest.max_sessions, np.float32)
        strengths[due] = [strength_in(given) for given in told]
        state, frames = self._run(rows, ages, controls[rows], strengths[rows])
        kept = [rows.index(row) for row in due]
        there = self._half(rows, ages + 1)[kept]
        self._places[there] = state.places[kept]
        self._hidden[there] = state.hidden[kept]
        batch.data[_LATENTS] = _Latents(rows, frames)

    def _run(
        self,
        rows: list[int],
        ages: NDArray[np.int64],
        controls: NDArray[np.float32],
        strengths: NDArray[np.float32],
    ) -> tuple[State, Tensor]:
        """The state of rows after a chunk, and its latents (frames, rows, latent, COLUMNS); writes no state."""
        here = self._half(rows, ages)
        state = State(self._places[here], self._hidden[here])
        astray = Astray(self._seeds[rows], ages, strengths)
        return self.chunks.walk(state, self._codes[rows], controls, astray)

    def _controls_of(self, due: list[int], told: list[Mapping[str, Any]]) -> NDArray[np.float32]:
        controls = np.zeros((self._manifest.max_sessions, CONTROLS), np.float32)
        controls[due] = control_numbers(Controls(told))
        return controls

    def _half(self, rows: list[int], ages: NDArray[np.int64]) -> Tensor:
        """Where the state of ``rows`` lies at these ages."""
        return self._tensor(np.array(rows, np.int64) + self._manifest.max_sessions * (ages & 1))

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def _decode(self, batch: StageBatch) -> None:
        """DEFERRED: the pictures of all rows that are still there."""
        latents: _Latents = batch.data[_LATENTS]
        sessions = {index: batch.session_at(row) for index, row in enumerate(latents.rows)}
        present = {index: session for index, session in sessions.items() if session is not None}
        chunks = {index: np.empty(self.chunks.shape, np.uint8) for index in present}
        self.chunks.show(latents.frames, chunks)
        batch.outputs.update({present[index]: chunk for index, chunk in chunks.items()})


class _DreamStage(LaneStage):
    def __call__(self, batch: StageBatch) -> None:
        with torch.inference_mode():
            super().__call__(batch)


def torch_device(name: str) -> torch.device:
    """Raises :class:`ValueError` for a name that torch does not know."""
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device must be a device of torch, such as 'cpu' or 'cuda', got {name!r}") from error


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a whole number of 1 or more, got {value!r}")
