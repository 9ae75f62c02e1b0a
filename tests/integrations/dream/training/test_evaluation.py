from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from realtime_engine.integrations.dream import inputs as attaching
from realtime_engine.integrations.dream.inference import as_input
from realtime_engine.integrations.dream.level import HEIGHT, STEP_S, THEMES, WIDTH, TrueView, level
from realtime_engine.integrations.dream.training import evaluation
from realtime_engine.integrations.dream.training.data import places_as_tensor
from realtime_engine.integrations.dream.training.evaluation import (
    PARTS,
    Evaluation,
    _edge_energy,
    _mean_psnr,
    _moves_right,
    _psnr,
    grid_frames,
)
from realtime_engine.integrations.maze.motion import VISITOR, Motion, MotionControls

pytestmark = pytest.mark.usefixtures("one_thread")

COLUMNS, LATENT = WIDTH // 2, 5
Known = dict[bytes, tuple[list[float], int]]
known: Known = {}
"""Every true picture so far: from where, in which theme."""


class Remembering(TrueView):
    def __call__(self, visitors: np.ndarray, themes: np.ndarray) -> np.ndarray:
        pictures = super().__call__(visitors, themes)
        for picture, visitor, theme in zip(pictures, visitors, themes.tolist(), strict=True):
            known[picture.tobytes()] = ([float(visitor[name]) for name in ("x", "y", "yaw")], theme)
        return pictures


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))


class TrueEncoder(Part):
    """Knows every true picture; ``off`` moves where it thinks that it is, in cells."""

    def __init__(self, off: float) -> None:
        super().__init__()
        self.off = off

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        pixels = ((pictures + 1) * 127.5).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
        found = [known[picture.tobytes()] for picture in pixels]
        places = places_as_tensor(np.array([place for place, _ in found]))
        places[:, 0] += self.off
        codes = torch.tensor([[float(theme)] for _, theme in found])
        return TrueField()(places, codes)[0], places, codes


class TrueField(Part):
    """Latents that tell the place and the theme, in the first column."""

    def forward(self, places: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
        latents = torch.zeros(len(places), LATENT, COLUMNS)
        latents[:, :4, 0], latents[:, 4:, 0] = places, codes
        return latents, torch.zeros_like(latents)


class TrueDecoder(Part):
    """Renders; ``noise`` is a standard deviation in grey levels."""

    def __init__(self, noise: float) -> None:
        super().__init__()
        self.noise, self.view = noise, TrueView()

    def forward(self, latents: Tensor) -> Tensor:
        x, y, cos, sin, theme = latents[:, :, 0].double().numpy().T
        places = np.stack([x, y, np.arctan2(sin, cos) / (2 * math.pi)], 1)
        pictures = self.view.at(places, np.rint(theme).astype(np.int64))
        noise = torch.randn(pictures.shape, generator=torch.Generator().manual_seed(len(pictures)))
        return as_input(pictures) + (noise * self.noise / 127.5).permute(0, 3, 1, 2)


class TrueDynamics(Part):
    """The maze's motion, told as the network is; ``slip`` is the share of the way that is lost."""

    hidden = 3

    def __init__(self, slip: float) -> None:
        super().__init__()
        self.slip, self.motion = slip, Motion(STEP_S)

    def forward(self, place: Tensor, hidden: Tensor, told: Tensor) -> tuple[Tensor, Tensor]:
        x, y, cos, sin = place.double().numpy().T
        visitors = np.zeros(len(place), VISITOR)
        visitors["x"], visitors["y"], visitors["yaw"] = x, y, np.arctan2(sin, cos) / (2 * math.pi)
        visitors["ahead"], visitors["aside"], visitors["spin"] = hidden.double().numpy().T
        before = visitors.copy()
        forward, strafe, running, aside, turn, pointer = told.double().numpy().T
        controls = MotionControls.of(
            forward, strafe, turn, (running != 0) | (aside != 0), np.stack([pointer * 100, 0 * pointer], 1)
        )
        self.motion.look(visitors, controls)
        self.motion.walk(visitors, controls, np.tile(level().grid.solid.ravel(), (len(place), 1)))
        for name in ("x", "y"):
            visitors[name] -= (visitors[name] - before[name]) * self.slip
        places = np.stack([visitors[name] for name in ("x", "y", "yaw")], 1)
        hidden = torch.from_numpy(np.stack([visitors[name] for name in ("ahead", "aside", "spin")], 1)).float()
        after = places_as_tensor(places)
        still = torch.from_numpy((places == np.stack([before[name] for name in ("x", "y", "yaw")], 1)).all(1))
        return torch.where(still[:, None], place, after), hidden


class TrueWorld(Part):
    def __init__(self, noise: float, slip: float) -> None:
        super().__init__()
        self.dynamics, self.field, self.decoder = TrueDynamics(slip), TrueField(), TrueDecoder(noise)


class TrueNetwork(nn.Module):
    """What a network would be that had learned everything, but for what is wanted otherwise."""

    def __init__(self, noise: float = 0.0, slip: float = 0.0, off: float = 0.0) -> None:
        super().__init__()
        self.encoder, self.world = TrueEncoder(off), TrueWorld(noise, slip)


@pytest.fixture(autouse=True)
def remembering(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (evaluation, attaching):
        monkeypatch.setattr(module, "TrueView", Remembering)
    attaching._true_view.cache_clear()  # somebody may have looked before
    yield
    attaching._true_view.cache_clear()
    known.clear()


def evaluation_of(**faults: float) -> Evaluation:
    network: Any = TrueNetwork(**faults)
    return Evaluation(network.eval(), walks=6, frames=20, pictures=9)


def test_the_truth_is_measured_as_true() -> None:
    parts: list[str] = []
    report = evaluation_of().run(parts.append)
    assert tuple(parts) == PARTS
    assert (report.walks, report.frames, report.pictures) == (6, 20, 9)
    assert report.autoencoder_db > 40 and report.rendering_db > 40
    assert report.place_cells < 1e-5 and report.heading_degrees < 1e-3
    assert report.one_step_db > report.repeat_db + 10
    assert set(report.drift_db) == set(report.drift_cells) == {1, 10}
    assert min(report.drift_db.values()) > 35 and max(report.drift_cells.values()) < 1e-3
    assert report.in_walls == 0
    assert report.turns_right == pytest.approx(report.turns_right_true, abs=0.02) and report.turns_right_true > 0.8
    assert report.edge_ratio == pytest.approx(1, abs=0.02)
    assert math.isinf(report.standing_db)


def test_noise_lowers_what_pictures_are_worth() -> None:
    still, steps, edges, repeats = [], [], [], set()
    for noise in (2.0, 8.0, 32.0):
        measured = evaluation_of(noise=noise)
        still.append(measured._measure_pictures())
        step, repeat = measured._measure_single_steps()
        steps.append(step)
        repeats.add(repeat)
        edges.append(measured._measure_turning()[1])
    for values in ([one["autoencoder_db"] for one in still], [one["rendering_db"] for one in still], steps):
        assert values == sorted(values, reverse=True) and values[0] > values[2] + 10
    assert still[0]["rendering_db"] == pytest.approx(10 * math.log10(255**2 / (2.0**2 + 1 / 12)), abs=0.7)
    assert still[2]["place_cells"] < 1e-5
    assert edges == sorted(edges) and edges[2] > 1.5
    assert len(repeats) == 1


def test_slipping_lowers_what_walks_are_worth() -> None:
    drifts = [evaluation_of(slip=slip)._measure_drift() for slip in (0.0, 0.1, 0.4)]
    psnr, away = [drift[0][10] for drift in drifts], [drift[1][10] for drift in drifts]
    assert psnr == sorted(psnr, reverse=True) and psnr[0] > psnr[2] + 5
    assert away == sorted(away) and away[0] < 1e-3 and away[2] > 0.05


def test_places_beside_the_true_ones_are_counted() -> None:
    measured = evaluation_of(off=0.3)
    still = measured._measure_pictures()
    assert still["place_cells"] == pytest.approx(0.3, abs=1e-5) and still["heading_degrees"] < 1e-3
    assert still["rendering_db"] > still["autoencoder_db"] + 10
    assert measured._measure_drift()[1][1] == pytest.approx(0.3, abs=0.1)


def test_places_in_a_wall_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = evaluation_of()
    roam = measured._free_run

    def astray(walk: Any, themes: Any) -> tuple[list[Tensor], list[np.ndarray]]:
        places, pictures = roam(walk, themes)
        places[4] = places[4].clone()
        places[4][:3, :2] = torch.tensor([[0.5, 3.5], [40.0, -7.0], [1.5, 7.5]])
        return places, pictures

    monkeypatch.setattr(measured, "_free_run", astray)
    assert measured._measure_drift()[2] == pytest.approx(2 / (21 * 6))


def test_the_grid_shows_the_truth_above_the_dream() -> None:
    grid = evaluation_of().grid(walks=3)
    assert grid_frames(200) == (0, 25, 50, 100, 200)
    assert grid.shape == (2 * 3 * HEIGHT, len(grid_frames(20)) * WIDTH, 3) and grid.dtype == np.uint8
    rows = grid.reshape(3, 2, HEIGHT, -1, WIDTH, 3)
    assert np.abs(rows[:, 0].astype(int) - rows[:, 1]).mean() < 2
    assert all(rows[walk, 0, :, 0].tobytes() in known for walk in range(3))
    assert known[rows[1, 0, :, 4].tobytes()][1] == 1
    noisy = evaluation_of(noise=40.0).grid(walks=1)
    assert np.array_equal(noisy[:HEIGHT], grid[:HEIGHT]) or noisy[:HEIGHT, :WIDTH].tobytes() in known
    assert noisy[HEIGHT:, :WIDTH].tobytes() not in known


def test_psnr() -> None:
    random = np.random.default_rng(1)
    pictures, others = random.integers(0, 256, (2, 3, 4, 5, 3), dtype=np.uint8)
    squares = [(int(a) - int(b)) ** 2 for a, b in zip(pictures.ravel(), others.ravel(), strict=True)]
    each = np.array(squares).reshape(3, -1).mean(1)
    assert _psnr(pictures, others) == pytest.approx(10 * math.log10(255**2 / np.mean(squares)))
    assert _mean_psnr(pictures, others) == pytest.approx(np.mean([10 * math.log10(255**2 / one) for one in each]))
    assert _psnr(pictures, pictures) == math.inf


def test_edge_energy_is_that_of_sobels_operator() -> None:
    grey = np.random.default_rng(1).integers(0, 256, (7, 9)).astype(np.uint8)
    padded = np.pad(grey.astype(int), 1, mode="reflect")
    total = 0
    for y in range(7):
        for x in range(9):
            (a, b, c), (d, _, f), (g, h, i) = padded[y : y + 3, x : x + 3].tolist()
            total += (c + 2 * f + i - a - 2 * d - g) ** 2 + (g + 2 * h + i - a - 2 * b - c) ** 2
    assert _edge_energy(np.stack([grey] * 3, 2)) == pytest.approx(total / 63, rel=1e-5)
    assert _edge_energy(cv2.blur(np.stack([grey] * 3, 2), (3, 3))) < _edge_energy(np.stack([grey] * 3, 2))


@pytest.mark.parametrize("shift", [1, 2, 5, 10])
def test_a_shifted_picture_moves_the_way_that_it_was_shifted(shift: int) -> None:
    random = np.random.default_rng(shift)
    wide = cv2.GaussianBlur(random.integers(0, 256, (HEIGHT, WIDTH + 2 * shift, 3)).astype(np.uint8), (5, 5), 0)
    left, middle, right = (wide[:, at : at + WIDTH] for at in (2 * shift, shift, 0))
    assert _moves_right(middle, right) and _moves_right(left, middle)
    assert not _moves_right(middle, left) and not _moves_right(middle, middle)


def test_turning_left_moves_true_pictures_right() -> None:
    view, turns = TrueView(), 0.3 * 2 * STEP_S
    places = np.array([[1.5, 7.5, 0.0], [5.2, 5.7, 0.62], [7.5, 2.4, 0.9], [2.6, 7.3, 0.13]])
    for theme in range(len(THEMES)):
        before, left, right = (
            view.at(places + [0, 0, turn], np.full(len(places), theme)) for turn in (0, -turns, turns)
        )
        assert all(_moves_right(a, b) for a, b in zip(before, left, strict=True))
        assert not any(_moves_right(a, b) for a, b in zip(before, right, strict=True))


def test_standing_is_measured_by_the_worst_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """One picture in which something flickers counts, though the others are the same for ever."""
    measured = evaluation_of()

    def roam(walk: Any, themes: Any) -> tuple[list[Tensor], list[np.ndarray]]:
        pictures = [np.zeros((8, HEIGHT, WIDTH, 3), np.uint8) for _ in range(5)]
        pictures[3][5, :, :, :] = 10
        return [], pictures

    monkeypatch.setattr(measured, "_free_run", roam)
    assert measured._measure_standing() == pytest.approx(10 * math.log10(255**2 / (100 / 8)))
