from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch

from realtime_engine.integrations.dream.chunks import Astray, Chunks, enlarge
from realtime_engine.integrations.dream.dreamer import Dreamer, State
from realtime_engine.integrations.dream.level import HEIGHT, WIDTH
from realtime_engine.integrations.dream.network import DreamSizes, DreamWorld
from realtime_engine.integrations.dream.noise import dream_noise
from realtime_engine.integrations.dream.walks import CONTROLS

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


def test_a_chunk_is_steps_and_looks_in_turn(dreamer: Dreamer) -> None:
    chunks = Chunks(dreamer, SIZES, (FRAMES, 64, 96, 3), STEPS)
    state, codes = some_state(), torch.randn(ROWS, SIZES.code)
    controls = np.random.default_rng(1).uniform(-1, 1, (ROWS, CONTROLS)).astype(np.float32)
    astray = Astray(np.array([7, 8, 9]), np.array([0, 4, 11]), np.array([0.5, 0.0, 1.0], np.float32))
    kept, given = [part.clone() for part in state], controls.copy()
    after, latents = chunks.walk(state, codes, controls, astray)
    assert all(torch.equal(part, copy) for part, copy in zip(state, kept, strict=True))
    assert np.array_equal(controls, given)
    for row in range(ROWS):
        one = State(state.places[row : row + 1], state.hidden[row : row + 1])
        told = torch.from_numpy(given[row : row + 1].copy())
        for frame in range(FRAMES):
            for _ in range(STEPS):
                one = dreamer.step(one, told)
                told = torch.cat((told[:, :-1], torch.zeros(1, 1)), 1)
            step = int(astray.ages[row]) * FRAMES + frame
            noise = 6 * astray.strengths[row] * dream_noise(int(astray.seeds[row]), step, chunks.seen_shape)
            seen = dreamer.see(one.places, codes[row : row + 1], torch.from_numpy(noise)[None])
            torch.testing.assert_close(latents[frame, row], seen[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(after.places[row], one.places[0])
        torch.testing.assert_close(after.hidden[row], one.hidden[0])


def test_pictures_of_some_rows_are_drawn_in_their_size(dreamer: Dreamer) -> None:
    chunks = Chunks(dreamer, SIZES, (FRAMES, 128, 192, 3), STEPS)
    latents = torch.randn(FRAMES, ROWS, *chunks.seen_shape)
    drawn = {row: np.zeros(chunks.shape, np.uint8) for row in (0, 2)}
    chunks.show(latents, drawn)
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
    nothing = Astray(np.zeros(2, np.int64), np.zeros(2, np.int64), np.zeros(2, np.float32))
    state = chunks.at_rest(2)
    for _ in range(5):
        state, latents = chunks.walk(state, torch.zeros(2, SIZES.code), np.zeros((2, CONTROLS), np.float32), nothing)
    assert torch.isfinite(latents).all() and torch.isfinite(state.places).all()
    assert torch.equal(state.hidden, torch.zeros_like(state.hidden))
