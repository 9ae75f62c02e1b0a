from __future__ import annotations

import threading
import weakref
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from realtime_engine.integrations.dream import inference
from realtime_engine.integrations.dream.inference import (
    Chunks,
    Dreamer,
    NoiseSettings,
    PictureEncoder,
    State,
    dream_noise,
    enlarge,
)
from realtime_engine.integrations.dream.inputs import seed_picture
from realtime_engine.integrations.dream.level import CONTROLS, HEIGHT, SIDE, THEMES, WIDTH, TrueView, start_pose
from realtime_engine.integrations.dream.network import DreamSizes, DreamWorld, Encoder
from realtime_engine.integrations.dream.weights import Weights, save

from .tiny import tiny_network, tiny_weights

SIZES = DreamSizes(
    latent=5, field_width=32, decoder_width=16, decoder_channels=4, hidden=4, dynamics_width=32, encoder_width=4
)
FRAMES, STEPS, ROWS = 3, 2, 3


@pytest.fixture(scope="module")
def dreamer() -> Dreamer:
    torch.manual_seed(3)
    return Dreamer(DreamWorld(SIZES).requires_grad_(False))


def some_state() -> State:
    angles = torch.tensor([0.3, 1.0, 4.0])
    at = torch.tensor([[2.0, 3.0], [4.5, 4.5], [6.1, 2.2]])
    return State(torch.cat((at, angles.cos()[:, None], angles.sin()[:, None]), 1), torch.randn(ROWS, SIZES.hidden))


def test_a_chunk_alternates_steps_and_predictions(dreamer: Dreamer) -> None:
    chunks = Chunks(dreamer, SIZES, (FRAMES, 64, 96, 3), STEPS)
    state, codes = some_state(), torch.randn(ROWS, SIZES.code)
    controls = np.random.default_rng(1).uniform(-1, 1, (ROWS, CONTROLS)).astype(np.float32)
    noise_settings = NoiseSettings(np.array([7, 8, 9]), np.array([0, 4, 11]), np.array([0.5, 0.0, 1.0], np.float32))
    kept, given = [part.clone() for part in state], controls.copy()
    after, latents = chunks.advance(state, codes, controls, noise_settings)
    assert all(torch.equal(part, copy) for part, copy in zip(state, kept, strict=True))
    assert np.array_equal(controls, given)
    for row in range(ROWS):
        one = State(state.places[row : row + 1], state.hidden[row : row + 1])
        inputs = torch.from_numpy(given[row : row + 1].copy())
        for frame in range(FRAMES):
            for _ in range(STEPS):
                one = dreamer.step(one, inputs)
                inputs = torch.cat((inputs[:, :-1], torch.zeros(1, 1)), 1)
            step = int(noise_settings.ages[row]) * FRAMES + frame
            normal = dream_noise(int(noise_settings.seeds[row]), step, chunks.latent_shape)
            noise = 6 * noise_settings.strengths[row] * normal
            seen = dreamer.predict(one.places, codes[row : row + 1], torch.from_numpy(noise)[None])
            torch.testing.assert_close(latents[frame, row], seen[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(after.places[row], one.places[0])
        torch.testing.assert_close(after.hidden[row], one.hidden[0])


def test_selected_rows_are_decoded_at_the_size_of_a_chunk(dreamer: Dreamer) -> None:
    chunks = Chunks(dreamer, SIZES, (FRAMES, 128, 192, 3), STEPS)
    latents = torch.randn(FRAMES, ROWS, *chunks.latent_shape)
    drawn = {row: np.zeros(chunks.shape, np.uint8) for row in (0, 2)}
    chunks.decode(latents, drawn)
    for frame in range(FRAMES):
        pictures = dreamer.decode(latents[frame])
        for row, chunk in drawn.items():
            wanted = cv2.resize(pictures[row], (192, 128), interpolation=cv2.INTER_CUBIC)
            assert np.array_equal(chunk[frame], wanted)


def test_a_picture_that_is_large_enough_is_copied() -> None:
    picture = np.random.default_rng(0).integers(0, 255, (HEIGHT, WIDTH, 3), np.uint8)
    into = np.zeros_like(picture)
    enlarge(picture, into)
    assert np.array_equal(into, picture)


def test_rows_at_rest_stay_finite(dreamer: Dreamer) -> None:
    chunks = Chunks(dreamer, SIZES, (FRAMES, 64, 96, 3), STEPS)
    nothing = NoiseSettings(np.zeros(2, np.int64), np.zeros(2, np.int64), np.zeros(2, np.float32))
    state = chunks.at_rest(2)
    for _ in range(5):
        state, latents = chunks.advance(state, torch.zeros(2, SIZES.code), np.zeros((2, CONTROLS), np.float32), nothing)
    assert torch.isfinite(latents).all() and torch.isfinite(state.places).all()
    assert torch.equal(state.hidden, torch.zeros_like(state.hidden))


SHAPE = (16, 48)


def test_noise_depends_on_seed_and_step_only() -> None:
    later = dream_noise(3, 47, SHAPE)
    dream_noise(4, 2, SHAPE)
    assert np.array_equal(dream_noise(3, 47, SHAPE), later)
    assert later.dtype == np.float32
    assert abs(np.corrcoef(later.ravel(), dream_noise(4, 47, SHAPE).ravel())[0, 1]) < 0.15


def test_noise_has_unit_variance_and_zero_mean_at_every_step() -> None:
    for step in range(25):
        noise = dream_noise(1, step, (100, 100))
        assert abs(noise.std() - 1) < 0.03 and abs(noise.mean()) < 0.04


def test_noise_is_correlated_over_short_times_only() -> None:
    walk = np.stack([dream_noise(9, step, SHAPE).ravel() for step in range(60)])
    near = [np.corrcoef(walk[step], walk[step + 1])[0, 1] for step in range(59)]
    far = [np.corrcoef(walk[step], walk[step + 25])[0, 1] for step in range(35)]
    assert min(near) > 0.95
    assert max(map(abs, far)) < 0.2


CPU = torch.device("cpu")


class WatchedWeights(Weights):
    """Tracks the encoders in use by weak references."""

    encoders: weakref.WeakSet[Encoder] = weakref.WeakSet()

    def encoder(self, device: torch.device) -> Encoder:
        encoder = super().encoder(device)
        self.encoders.add(encoder)
        return encoder


@pytest.fixture
def weights(tmp_path: Path) -> WatchedWeights:
    return WatchedWeights(tiny_weights(tmp_path).path)


@pytest.fixture
def picture_encoder(weights: WatchedWeights) -> PictureEncoder:
    return PictureEncoder(weights, weights.world(CPU).field, CPU)


def test_the_encoder_is_unloaded_after_encoding(picture_encoder: PictureEncoder, weights: WatchedWeights) -> None:
    (seen,) = picture_encoder.encode([seed_picture(1, "day")])
    assert seen.place.shape == (4,) and seen.code.shape == (weights.sizes.code,)
    assert seen.place.device == CPU and not weights.encoders


def test_encodings_are_cached_within_a_bound(picture_encoder: PictureEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    picture_encoder.codes_of(THEMES)
    picture_encoder.codes_of([*THEMES, "day"])
    assert picture_encoder._lifecycle.loads == 1
    assert picture_encoder._lifecycle.cached_bytes < 200
    assert inference._CACHE_BYTES < 100_000, "every joining session may bring its own picture"


def test_seed_pictures_equal_the_reference_from_any_thread() -> None:
    wanted = {
        (seed, theme): TrueView()(start_pose(seed)[None], np.array([THEMES.index(theme)]))[0]
        for seed in range(4)
        for theme in THEMES[:2]
    }
    seen: dict[tuple[int, str], np.ndarray] = {}
    together = threading.Barrier(len(wanted))

    def render(seed: int, theme: str) -> None:
        together.wait(10)
        seen[seed, theme] = seed_picture(seed, theme)

    threads = [threading.Thread(target=render, args=key) for key in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert all(np.array_equal(seen[key], picture) for key, picture in wanted.items())


@pytest.mark.parametrize("far", [-50.0, 50.0])
def test_an_unknown_picture_is_localized_inside_the_level(tmp_path: Path, far: float) -> None:
    network = tiny_network()
    with torch.no_grad():
        network.encoder.place[2].bias[:2] = far
    save(tmp_path / "far.safetensors", network, {})
    weights = Weights(tmp_path / "far.safetensors")
    (seen,) = PictureEncoder(weights, weights.world(CPU).field, CPU).encode([seed_picture(1, "day")])
    assert ((seen.place[:2] >= 1) & (seen.place[:2] <= SIDE - 1)).all()
    assert seen.place[2:].norm() == pytest.approx(1, abs=1e-5)
