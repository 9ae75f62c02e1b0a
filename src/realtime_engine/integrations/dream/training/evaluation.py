"""What a trained network is worth: measured on walks that it has not learned from, beside the truth."""

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
"""What is measured, in this order."""
GRID_CHOICE = 24
"""Walks of which some are shown in the picture grid."""
HELD_OUT_SEED = 990_000_007
"""Far from the seeds of any training."""

_STEPS_PER_FRAME = round(1 / STEP_S / FPS)
_MARKS = (1, 10, 50, 100, 200)  # frames

Pictures = NDArray[np.uint8]


@dataclass(frozen=True)
class Report:
    """What was measured; PSNR in dB as the mean over pictures, of single steps that of the mean squared error.

    Attributes:
        walks, frames: how many walks were watched, and for how long.
        pictures: how many pictures and single steps.
        autoencoder_db: pictures encoded and decoded.
        rendering_db: pictures from their true places.
        place_cells, heading_degrees: median error of the encoder.
        one_step_db: the next picture out of the present one and the controls.
        repeat_db: the present picture taken for the next one.
        drift_db, drift_cells: frame -> free-running from one picture, against the truth: PSNR, median distance.
        in_walls: share of free-running places that lie inside a wall.
        turns_right: share of steps, in the second half, in which turning left moves the picture to the right.
        turns_right_true: the same of the truth.
        edge_ratio: edge energy at the last frame over the truth's.
        standing_db: from frame to frame while nothing is pressed, the worst; infinite when they are the same.
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
    """Measures a network.

    Args:
        network: in evaluation mode, on the CPU.
        walks: that run freely.
        frames: of each.
        pictures: for the autoencoder and the single steps.
    """

    def __init__(self, network: DreamNetwork, walks: int = 50, frames: int = 200, pictures: int = 384) -> None:
        self._encoder = network.encoder
        self._dreamer = Dreamer(network.world)
        self._view = TrueView()
        self._walks, self._frames, self._pictures = walks, frames, pictures
        self._codes = self._look(np.stack([seed_picture(0, theme) for theme in THEMES]))[1]

    def run(self, on_part: Callable[[str], None] = lambda _: None) -> Report:
        """Measure everything; ``on_part`` is told which of :data:`PARTS` comes next."""
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
        """One picture: for each walk a row of true pictures above a row of dreamt ones, at :func:`grid_frames`.

        Of :data:`GRID_CHOICE` walks those are shown that truly have the most to see in the middle.
        """
        frames = grid_frames(self._frames)
        walk, themes = self._walk(GRID_CHOICE, self._frames)
        _, dreamt = self._roam(walk, themes)
        to_see = [_edge_energy(picture) for picture in self._true(walk, self._frames // 2, themes)]
        rows = []
        for walker in np.argsort(to_see)[::-1][:walks].tolist():
            true = [self._true(walk, frame, themes)[walker] for frame in frames]
            rows += [np.concatenate(true, 1), np.concatenate([dreamt[frame][walker] for frame in frames], 1)]
        return np.concatenate(rows)

    def _measure_pictures(self) -> dict[str, float]:
        walk, themes = self._walk(self._pictures, 1)
        true, places = self._true(walk, 0, themes), places_as_tensor(walk.places[0])
        seen, _ = self._look(true)
        with torch.inference_mode():
            latents = self._encoder(as_input(true))[0]
        from_places = self._see(places, themes)
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
        """From the encoder's look at the present picture, with the recurrence as the controls so far have left it."""
        walk, themes = self._walk(self._pictures, 20)
        before, after = self._true(walk, 19, themes), self._true(walk, 20, themes)
        told = torch.from_numpy(walk.controls)
        state = State(torch.zeros(self._pictures, 4) + torch.tensor([0.0, 0, 1, 0]), self._rest(self._pictures))
        for step in told[: 19 * _STEPS_PER_FRAME]:
            state = self._dreamer.step(state, step)
        state = State(self._look(before)[0], state.hidden)
        for step in told[19 * _STEPS_PER_FRAME :]:
            state = self._dreamer.step(state, step)
        return _psnr(self._see(state.places, themes), after), _psnr(before, after)

    def _measure_drift(self) -> tuple[dict[int, float], dict[int, float], float]:
        walk, themes = self._walk(self._walks, self._frames)
        places, dreamt = self._roam(walk, themes)
        marks = [mark for mark in _MARKS if mark <= self._frames]
        psnr = {mark: _mean_psnr(dreamt[mark], self._true(walk, mark, themes)) for mark in marks}
        away = {mark: _median_distance(places[mark], walk.places[mark * _STEPS_PER_FRAME]) for mark in marks}
        at = np.clip(np.stack([place[:, :2].numpy() for place in places]).astype(int), 0, SIZE - 1)
        return psnr, away, float(level().grid.solid[at[..., 1], at[..., 0]].mean())

    def _measure_turning(self) -> tuple[tuple[float, float], float]:
        """Half of the frames are walked, then everybody turns left."""
        walk, themes = self._walk(self._walks, self._frames, turn_left_from=self._frames // 2)
        _, dreamt = self._roam(walk, themes)
        shifts, true_shifts = [], []
        previous = self._true(walk, self._frames // 2, themes)
        for frame in range(self._frames // 2 + 1, self._frames + 1):
            true = self._true(walk, frame, themes)
            shifts += [_moves_right(a, b) for a, b in zip(dreamt[frame - 1], dreamt[frame], strict=True)]
            true_shifts += [_moves_right(a, b) for a, b in zip(previous, true, strict=True)]
            previous = true
        edges = np.mean([_edge_energy(p) for p in dreamt[-1]]) / np.mean([_edge_energy(p) for p in previous])
        return (float(np.mean(shifts)), float(np.mean(true_shifts))), float(edges)

    def _measure_standing(self) -> float:
        walk, themes = self._walk(8, 1)
        still = Walks(walk.places, np.zeros((4 * _STEPS_PER_FRAME, 8, CONTROLS), np.float32))
        _, dreamt = self._roam(still, themes)
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

    def _roam(self, walk: Walks, themes: NDArray[np.int64]) -> tuple[list[Tensor], list[Pictures]]:
        """Places and pictures at each frame, running freely from a look at the first true picture."""
        count = walk.controls.shape[1]
        state = State(self._look(self._true(walk, 0, themes))[0], self._rest(count))
        places, pictures = [state.places], [self._see(state.places, themes)]
        for index, told in enumerate(torch.from_numpy(walk.controls), 1):
            state = self._dreamer.step(state, told)
            if index % _STEPS_PER_FRAME == 0:
                places.append(state.places)
                pictures.append(self._see(state.places, themes))
        return places, pictures

    def _rest(self, count: int) -> Tensor:
        return torch.zeros(count, self._dreamer.hidden)

    def _see(self, places: Tensor, themes: NDArray[np.int64]) -> Pictures:
        return self._dreamer.decode(self._dreamer.see(places, self._codes[torch.from_numpy(themes)]))

    def _true(self, walk: Walks, frame: int, themes: NDArray[np.int64]) -> Pictures:
        return self._view.at(walk.places[frame * _STEPS_PER_FRAME], themes)

    def _look(self, pictures: Pictures) -> tuple[Tensor, Tensor]:
        """(n, 4) places and (n, code) themes of n pictures."""
        seen = [encode(self._encoder, self._dreamer.field, picture) for picture in pictures]
        return torch.stack([look.place for look in seen]), torch.stack([look.code for look in seen])


def grid_frames(frames: int) -> tuple[int, ...]:
    """Which of the frames of a walk are shown."""
    return 0, frames // 8, frames // 4, frames // 2, frames


def _mean_psnr(pictures: Pictures, others: Pictures) -> float:
    return float(np.mean([_psnr(picture, other) for picture, other in zip(pictures, others, strict=True)]))


def _psnr(pictures: Pictures, others: Pictures) -> float:
    """Of the mean squared error of all, so that pictures that do not change do not count as infinitely good."""
    off = np.square(pictures.astype(np.float64) - others).mean()
    return float(10 * np.log10(255**2 / off)) if off else float("inf")


def _median_distance(places: Tensor, true: NDArray[np.float64]) -> float:
    return float(np.median(np.hypot(*(places[:, :2].numpy() - true[:, :2]).T)))


def _moves_right(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> bool:
    """By phase correlation (Kuglin and Hines 1975) of the colours, along the rows, under a Hann window."""
    first, second = (np.fft.rfft2(_windowed(picture), axes=(0, 1)) for picture in (before, after))
    crossed = (second * first.conj()).sum(2)
    peaks = np.fft.irfft2(crossed / (np.abs(crossed) + 1e-9), s=before.shape[:2])[0]
    shift = int(peaks.argmax())
    return 0 < shift < len(peaks) / 2


def _windowed(picture: NDArray[np.uint8]) -> NDArray[np.float64]:
    windowed: NDArray[np.float64] = (picture - picture.mean((0, 1))) * np.hanning(picture.shape[1])[:, None]
    return windowed


def _edge_energy(picture: NDArray[np.uint8]) -> float:
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY).astype(np.float32)
    return float(
        np.square(cv2.Sobel(grey, cv2.CV_32F, 1, 0)).mean() + np.square(cv2.Sobel(grey, cv2.CV_32F, 0, 1)).mean()
    )
