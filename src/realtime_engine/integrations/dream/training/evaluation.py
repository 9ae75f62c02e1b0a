"""Evaluates a trained network on held-out walks, against the reference renderer and simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...maze.grid import SIZE
from ..inference import Dreamer, State, as_input, encode
from ..inputs import seed_picture
from ..level import CONTROLS, STEP_S, THEMES, TrueView, level
from ..network import DreamNetwork
from .data import Walkers, Walks, places_as_tensor

FPS = 15
PARTS = ("pictures", "single steps", "free walks", "turning left", "standing still")
"""Parts of the evaluation, in order."""
GRID_CHOICE = 24
"""Number of walks from which those of the picture grid are selected."""
HELD_OUT_SEED = 990_000_007
"""Seed of the evaluation walks, far from the seeds of any training."""

_STEPS_PER_FRAME = round(1 / STEP_S / FPS)
_MARKS = (1, 10, 50, 100, 200)  # frames

Pictures = NDArray[np.uint8]


@dataclass(frozen=True)
class Report:
    """Results of an evaluation. PSNR in dB: mean over pictures, or of the overall MSE for single steps.

    Attributes:
        walks, frames: number of walks, and their length in frames.
        pictures: number of pictures and of single steps.
        autoencoder_db: PSNR of pictures encoded and decoded.
        rendering_db: PSNR of pictures predicted from their true places.
        place_cells, heading_degrees: median error of the encoder.
        one_step_db: PSNR of the next picture, predicted from the current picture and the controls.
        repeat_db: PSNR of the current picture as a prediction of the next.
        drift_db, drift_cells: frame -> PSNR and median distance to the reference, free-running from one picture.
        in_walls: share of free-running places inside a wall.
        turns_right: share of steps in the second half in which turning left moves the picture to the right.
        turns_right_true: the same for the reference.
        edge_ratio: edge energy at the last frame relative to the reference.
        standing_db: lowest PSNR between consecutive frames without controls; infinite if all are identical.
    """

    walks: int
    frames: int
    pictures: int
    autoencoder_db: float
    rendering_db: float
    place_cells: float
    heading_degrees: float
    one_step_db: float
    repeat_db: float
    drift_db: dict[int, float]
    drift_cells: dict[int, float]
    in_walls: float
    turns_right: float
    turns_right_true: float
    edge_ratio: float
    standing_db: float


class Evaluation:
    """Evaluates a network.

    Args:
        network: the network, in evaluation mode, on the CPU.
        walks: number of free-running walks.
        frames: frames per walk.
        pictures: number of pictures for the autoencoder and the single steps.
    """

    def __init__(self, network: DreamNetwork, walks: int = 50, frames: int = 200, pictures: int = 384) -> None:
        self._encoder = network.encoder
        self._dreamer = Dreamer(network.world)
        self._view = TrueView()
        self._walks, self._frames, self._pictures = walks, frames, pictures
        self._codes = self._encode(np.stack([seed_picture(0, theme) for theme in THEMES]))[1]

    def run(self, on_part: Callable[[str], None] = lambda _: None) -> Report:
        """Run the evaluation. Calls ``on_part`` with each of :data:`PARTS` before it starts."""
        on_part(PARTS[0])
        still = self._measure_pictures()
        on_part(PARTS[1])
        one_step, repeat = self._measure_single_steps()
        on_part(PARTS[2])
        drift_db, drift_cells, in_walls = self._measure_drift()
        on_part(PARTS[3])
        turns, edges = self._measure_turning()
        on_part(PARTS[4])
        return Report(
            walks=self._walks,
            frames=self._frames,
            pictures=self._pictures,
            **still,
            one_step_db=one_step,
            repeat_db=repeat,
            drift_db=drift_db,
            drift_cells=drift_cells,
            in_walls=in_walls,
            turns_right=turns[0],
            turns_right_true=turns[1],
            edge_ratio=edges,
            standing_db=self._measure_standing(),
        )

    def grid(self, walks: int = 4) -> Pictures:
        """Return one picture with two rows per walk, reference above dream, at :func:`grid_frames`.

        Shows those of :data:`GRID_CHOICE` walks whose middle reference picture has the highest edge energy.
        """
        frames = grid_frames(self._frames)
        walk, themes = self._walk(GRID_CHOICE, self._frames)
        _, dreamt = self._free_run(walk, themes)
        edge_energy = [_edge_energy(picture) for picture in self._reference(walk, self._frames // 2, themes)]
        rows = []
        for walker in np.argsort(edge_energy)[::-1][:walks].tolist():
            true = [self._reference(walk, frame, themes)[walker] for frame in frames]
            rows += [np.concatenate(true, 1), np.concatenate([dreamt[frame][walker] for frame in frames], 1)]
        return np.concatenate(rows)

    def _measure_pictures(self) -> dict[str, float]:
        walk, themes = self._walk(self._pictures, 1)
        true, places = self._reference(walk, 0, themes), places_as_tensor(walk.places[0])
        seen, _ = self._encode(true)
        with torch.inference_mode():
            latents = self._encoder(as_input(true))[0]
        from_places = self._predict(places, themes)
        heading = torch.atan2(
            seen[:, 3] * places[:, 2] - seen[:, 2] * places[:, 3],
            (seen[:, 2:] * places[:, 2:]).sum(1),
        )
        return {
            "autoencoder_db": _mean_psnr(self._dreamer.decode(latents), true),
            "rendering_db": _mean_psnr(from_places, true),
            "place_cells": float((seen - places)[:, :2].norm(dim=1).median()),
            "heading_degrees": float(torch.rad2deg(heading.abs().median())),
        }

    def _measure_single_steps(self) -> tuple[float, float]:
        """Predict the next picture from the encoded current one, with the recurrent state of the preceding controls."""
        walk, themes = self._walk(self._pictures, 20)
        before, after = self._reference(walk, 19, themes), self._reference(walk, 20, themes)
        controls = torch.from_numpy(walk.controls)
        state = State(torch.zeros(self._pictures, 4) + torch.tensor([0.0, 0, 1, 0]), self._zero_hidden(self._pictures))
        for step in controls[: 19 * _STEPS_PER_FRAME]:
            state = self._dreamer.step(state, step)
        state = State(self._encode(before)[0], state.hidden)
        for step in controls[19 * _STEPS_PER_FRAME :]:
            state = self._dreamer.step(state, step)
        return _psnr(self._predict(state.places, themes), after), _psnr(before, after)

    def _measure_drift(self) -> tuple[dict[int, float], dict[int, float], float]:
        walk, themes = self._walk(self._walks, self._frames)
        places, dreamt = self._free_run(walk, themes)
        marks = [mark for mark in _MARKS if mark <= self._frames]
        psnr = {mark: _mean_psnr(dreamt[mark], self._reference(walk, mark, themes)) for mark in marks}
        away = {mark: _median_distance(places[mark], walk.places[mark * _STEPS_PER_FRAME]) for mark in marks}
        at = np.clip(np.stack([place[:, :2].numpy() for place in places]).astype(int), 0, SIZE - 1)
        return psnr, away, float(level().grid.solid[at[..., 1], at[..., 0]].mean())

    def _measure_turning(self) -> tuple[tuple[float, float], float]:
        """Walk for half of the frames, then turn left."""
        walk, themes = self._walk(self._walks, self._frames, turn_left_from=self._frames // 2)
        _, dreamt = self._free_run(walk, themes)
        shifts, true_shifts = [], []
        previous = self._reference(walk, self._frames // 2, themes)
        for frame in range(self._frames // 2 + 1, self._frames + 1):
            true = self._reference(walk, frame, themes)
            shifts += [_moves_right(a, b) for a, b in zip(dreamt[frame - 1], dreamt[frame], strict=True)]
            true_shifts += [_moves_right(a, b) for a, b in zip(previous, true, strict=True)]
            previous = true
        edges = np.mean([_edge_energy(p) for p in dreamt[-1]]) / np.mean([_edge_energy(p) for p in previous])
        return (float(np.mean(shifts)), float(np.mean(true_shifts))), float(edges)

    def _measure_standing(self) -> float:
        walk, themes = self._walk(8, 1)
        still = Walks(walk.places, np.zeros((4 * _STEPS_PER_FRAME, 8, CONTROLS), np.float32))
        _, dreamt = self._free_run(still, themes)
        return min(_psnr(a, b) for a, b in zip(dreamt[:-1], dreamt[1:], strict=True))

    def _walk(self, count: int, frames: int, turn_left_from: int | None = None) -> tuple[Walks, NDArray[np.int64]]:
        walkers = Walkers(count, HELD_OUT_SEED)
        walkers.walk(120)
        walkers.rest()
        if turn_left_from is None:
            walks = walkers.walk(frames * _STEPS_PER_FRAME)
        else:
            first = walkers.walk(turn_left_from * _STEPS_PER_FRAME)
            second = walkers.turn_left((frames - turn_left_from) * _STEPS_PER_FRAME)
            walks = Walks(
                np.concatenate([first.places, second.places[1:]]), np.concatenate([first.controls, second.controls])
            )
        return walks, np.arange(count) % len(THEMES)

    def _free_run(self, walk: Walks, themes: NDArray[np.int64]) -> tuple[list[Tensor], list[Pictures]]:
        """Return places and pictures at each frame, free-running from the encoded first reference picture."""
        count = walk.controls.shape[1]
        state = State(self._encode(self._reference(walk, 0, themes))[0], self._zero_hidden(count))
        places, pictures = [state.places], [self._predict(state.places, themes)]
        for index, step in enumerate(torch.from_numpy(walk.controls), 1):
            state = self._dreamer.step(state, step)
            if index % _STEPS_PER_FRAME == 0:
                places.append(state.places)
                pictures.append(self._predict(state.places, themes))
        return places, pictures

    def _zero_hidden(self, count: int) -> Tensor:
        return torch.zeros(count, self._dreamer.hidden)

    def _predict(self, places: Tensor, themes: NDArray[np.int64]) -> Pictures:
        return self._dreamer.decode(self._dreamer.predict(places, self._codes[torch.from_numpy(themes)]))

    def _reference(self, walk: Walks, frame: int, themes: NDArray[np.int64]) -> Pictures:
        return self._view.at(walk.places[frame * _STEPS_PER_FRAME], themes)

    def _encode(self, pictures: Pictures) -> tuple[Tensor, Tensor]:
        """Return (n, 4) places and (n, code) theme codes of n pictures."""
        encodings = [encode(self._encoder, self._dreamer.field, picture) for picture in pictures]
        places = torch.stack([encoding.place for encoding in encodings])
        return places, torch.stack([encoding.code for encoding in encodings])


def grid_frames(frames: int) -> tuple[int, ...]:
    """Return the frames of a walk that are shown in the picture grid."""
    return 0, frames // 8, frames // 4, frames // 2, frames


def _mean_psnr(pictures: Pictures, others: Pictures) -> float:
    return float(np.mean([_psnr(picture, other) for picture, other in zip(pictures, others, strict=True)]))


def _psnr(pictures: Pictures, others: Pictures) -> float:
    """Return the PSNR of the overall mean square error, so identical pairs do not contribute infinity."""
    error = np.square(pictures.astype(np.float64) - others).mean()
    return float(10 * np.log10(255**2 / error)) if error else float("inf")


def _median_distance(places: Tensor, true: NDArray[np.float64]) -> float:
    return float(np.median(np.hypot(*(places[:, :2].numpy() - true[:, :2]).T)))


def _moves_right(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> bool:
    """Return whether the picture moves right, by phase correlation (Kuglin and Hines 1975) along rows, Hann window."""
    first, second = (np.fft.rfft2(_windowed(picture), axes=(0, 1)) for picture in (before, after))
    crossed = (second * first.conj()).sum(2)
    peaks = np.fft.irfft2(crossed / (np.abs(crossed) + 1e-9), s=before.shape[:2])[0]
    shift = int(peaks.argmax())
    return 0 < shift < len(peaks) / 2


def _windowed(picture: NDArray[np.uint8]) -> NDArray[np.float64]:
    windowed: NDArray[np.float64] = (picture - picture.mean((0, 1))) * np.hanning(picture.shape[1])[:, None]
    return windowed


def _edge_energy(picture: NDArray[np.uint8]) -> float:
    gray = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY).astype(np.float32)
    return float(
        np.square(cv2.Sobel(gray, cv2.CV_32F, 1, 0)).mean() + np.square(cv2.Sobel(gray, cv2.CV_32F, 0, 1)).mean()
    )
