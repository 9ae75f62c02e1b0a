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
from ..maze.motion import MotionControls
from .inference import Chunks, Dreamer, NoiseSettings, PictureEncoder, PictureEncoding, State
from .inputs import Start, start_in, strength_in, theme_in
from .level import CONTROLS, STEP_S, THEMES
from .training.data import control_vectors
from .weights import Weights

__all__ = ["DreamModel"]

RowPolicy: TypeAlias = Literal["all", "occupied"]

_LATENTS = "dream_latents"


class _Latents(NamedTuple):
    """Passed from HOT to DEFERRED: the rows of the batch and their latents (frames, rows, latent, COLUMNS)."""

    rows: list[int]
    frames: Tensor


class DreamModel:
    """First-person views of a learned level; all rows run in one forward pass.

    Chunks are (frames_per_chunk, height, width, 3) uint8 RGB.

    The attach context may hold ``seed`` (an integer of 0 or more, default 0), which selects the start pose and the
    latent noise; ``theme`` (a name in :data:`~.level.THEMES`); and ``picture`` ((HEIGHT, WIDTH, 3) uint8), a first
    picture that replaces the start pose of the seed.

    Conditioning: ``forward``, ``strafe``, ``turn`` in [-1, 1], ``run`` (bool), ``astray`` (0 to 1, strength of the
    latent noise), ``theme`` (heavy), and in ``events`` ``{"kind": "pointer_move", "dx": pixels}``.
    Missing values are 0.

    Args:
        weights: the weight file; the shipped one by default.
        max_sessions: maximum number of sessions, the number of rows.
        height, width: size of a frame in pixels.
        fps: frames per second of playback; the dynamics run ``1 / STEP_S`` steps per second.
        frames_per_chunk: frames per engine step.
        device: name of a torch device.
        rows: ``"all"`` always runs the whole batch, so the frames of a session are bit-identical whatever the other
            sessions do; ``"occupied"`` runs the rows that are due, which is faster with few sessions and differs in the
            last bits.
        compile: compile the network at the first step.

    Attributes:
        device: device of the network.
        picture_encoder: encodes first pictures and themes; stateless with respect to rows.
        chunks: generates chunks; stateless with respect to rows.
        rows: the row policy.

    Raises:
        ValueError: an argument is invalid; also from ``seed`` and the stages for an invalid context or conditioning
            field.
        WeightsError: the weights are missing, damaged, or do not fit on the device.
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
        self.picture_encoder = PictureEncoder(weights, self._dreamer.field, self.device)
        sizes = weights.sizes
        self.chunks = Chunks(self._dreamer, sizes, (frames_per_chunk, height, width, 3), round(steps))
        # Double-buffered state: a row of even age reads the first half and writes the second, a row of odd age
        # reads the second and writes the first, so a step that fails after HOT restarts from an unmodified state.
        self._places, self._hidden = self.chunks.at_rest(2 * max_sessions)
        self._codes = torch.zeros(max_sessions, sizes.code, device=self.device)
        self._seeds = np.zeros(max_sessions, np.int64)

    def first_runs(self) -> Mapping[str, Callable[[], object]]:
        """Return warm-up steps: name -> function that runs a part once. They modify no state."""
        return {"encoding pictures": lambda: self.picture_encoder.codes_of(THEMES), "stepping all rows": self._run_all}

    def _run_all(self) -> None:
        """Run a step with every possible number of rows, with the torch modes and memory layouts of a real step."""
        max_rows = self._manifest.max_sessions
        with torch.inference_mode():
            for count in range(1 if self.rows == "occupied" else max_rows, max_rows + 1):
                ages, strengths = np.zeros(count, np.int64), np.zeros(count, np.float32)
                rows, controls = list(range(count)), np.zeros((count, CONTROLS), np.float32)
                self.chunks.decode(self._run(rows, ages, controls, strengths)[1], {})

    def manifest(self) -> EngineManifest:
        """Return the engine manifest."""
        return self._manifest

    def stages(self) -> list[Stage]:
        """Return the stages: theme encoding (ENCODE), dynamics and light field (HOT), decoding (DEFERRED)."""
        return [
            _DreamStage(Lane.ENCODE, self._encode),
            _DreamStage(Lane.HOT, self._step),
            _DreamStage(Lane.DEFERRED, self._decode),
        ]

    def heavy_keys(self) -> Collection[str]:
        """Return the conditioning keys handled by the ENCODE stage."""
        return ("theme",)

    def cuda_device(self) -> torch.device | None:
        """Return the CUDA device of the model, or ``None`` on another device."""
        return self.device if self.device.type == "cuda" else None

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        """Initialize rows from their first pictures.

        Raises:
            ValueError: a context is invalid; no row has been modified.
        """
        starts = {row: start_in(context) for row, context in rows.items()}
        encodings = self.picture_encoder.encode([start.picture for start in starts.values()])
        for (row, start), encoding in zip(starts.items(), encodings, strict=True):
            self._initialize_row(row, start, encoding)

    def detach(self, row: int, session_id: str) -> None:
        """Do nothing: seeding the next session of the row overwrites its state."""

    def places(self, rows: Sequence[int], ages: Sequence[int]) -> Tensor:
        """Return (n, 4) places of rows at the given ages: x, y in cells, cosine and sine of the yaw, on the device."""
        return self._places[[self._state_index(row, age) for row, age in zip(rows, ages, strict=True)]]

    def align(self, batch: StageBatch, pictures: Mapping[int, NDArray[np.uint8]]) -> None:
        """Move rows to the places at which pictures were taken, keeping their speeds. For ENCODE stages.

        A row keeps its place if the view from there fits the picture better than the view from the estimated place.

        Args:
            batch: the batch of the stage.
            pictures: row -> (HEIGHT, WIDTH, 3) picture.
        """
        with torch.inference_mode():
            encodings = self.picture_encoder.encode(list(pictures.values()))
            for (row, picture), encoding in zip(pictures.items(), encodings, strict=True):
                index = self._state_index(row, batch.ages[row])
                places = torch.stack([self._places[index], encoding.place.to(self.device)])
                codes = encoding.code.to(self.device).expand(2, -1)
                views = self._dreamer.decode(self._dreamer.predict(places, codes))
                errors = np.square(views.astype(np.float32) - picture).mean((1, 2, 3))
                self._places[index] = places[int(errors.argmin())]

    def _state_index(self, row: int, age: int) -> int:
        return row + self._manifest.max_sessions * (age & 1)

    def _initialize_row(self, row: int, start: Start, encoding: PictureEncoding) -> None:
        self._places[row] = encoding.place
        self._hidden[row] = 0
        self._codes[row] = encoding.code
        self._seeds[row] = start.seed

    def _encode(self, batch: StageBatch) -> None:
        """ENCODE: encode changed themes."""
        themes = {row: theme_in(batch.conditioning[session_in(batch, row)]) for row in batch.rows_in_order()}
        codes = self.picture_encoder.codes_of(list(themes.values()))
        for row, code in zip(themes, codes, strict=True):
            self._codes[row] = code

    def _step(self, batch: StageBatch) -> None:
        """HOT: advance the dynamics and predict the latents of each frame."""
        due = batch.rows_in_order()
        rows = list(range(self._manifest.max_sessions)) if self.rows == "all" else due
        ages = np.array([batch.ages.get(row, 0) for row in rows], np.int64)
        conditioning = [batch.conditioning[session_in(batch, row)] for row in due]
        controls = self._controls_of(due, conditioning)
        strengths = np.zeros(self._manifest.max_sessions, np.float32)
        strengths[due] = [strength_in(values) for values in conditioning]
        state, frames = self._run(rows, ages, controls[rows], strengths[rows])
        kept = [rows.index(row) for row in due]
        target = self._state_indices(rows, ages + 1)[kept]
        self._places[target] = state.places[kept]
        self._hidden[target] = state.hidden[kept]
        batch.data[_LATENTS] = _Latents(rows, frames)

    def _run(
        self,
        rows: list[int],
        ages: NDArray[np.int64],
        controls: NDArray[np.float32],
        strengths: NDArray[np.float32],
    ) -> tuple[State, Tensor]:
        """Return the state of rows after a chunk and its (frames, rows, latent, COLUMNS) latents; stores nothing."""
        source = self._state_indices(rows, ages)
        state = State(self._places[source], self._hidden[source])
        noise = NoiseSettings(self._seeds[rows], ages, strengths)
        return self.chunks.advance(state, self._codes[rows], controls, noise)

    def _controls_of(self, due: list[int], conditioning: list[Mapping[str, Any]]) -> NDArray[np.float32]:
        controls = np.zeros((self._manifest.max_sessions, CONTROLS), np.float32)
        controls[due] = control_vectors(MotionControls(conditioning))
        return controls

    def _state_indices(self, rows: list[int], ages: NDArray[np.int64]) -> Tensor:
        """Return the indices of the state of ``rows`` at the given ages."""
        return self._tensor(np.array(rows, np.int64) + self._manifest.max_sessions * (ages & 1))

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def _decode(self, batch: StageBatch) -> None:
        """DEFERRED: decode the frames of all rows whose session is still attached."""
        latents: _Latents = batch.data[_LATENTS]
        sessions = {index: batch.session_at(row) for index, row in enumerate(latents.rows)}
        present = {index: session for index, session in sessions.items() if session is not None}
        chunks = {index: np.empty(self.chunks.shape, np.uint8) for index in present}
        self.chunks.decode(latents.frames, chunks)
        batch.outputs.update({present[index]: chunk for index, chunk in chunks.items()})


class _DreamStage(LaneStage):
    def __call__(self, batch: StageBatch) -> None:
        with torch.inference_mode():
            super().__call__(batch)


def torch_device(name: str) -> torch.device:
    """Return the torch device of that name.

    Raises:
        ValueError: torch does not know the name.
    """
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device must be a torch device such as 'cpu' or 'cuda', got {name!r}") from error


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be an integer of 1 or more, got {value!r}")
