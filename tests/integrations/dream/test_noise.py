from __future__ import annotations

import numpy as np

from realtime_engine.integrations.dream.noise import dream_noise

SHAPE = (16, 48)


def test_it_follows_from_seed_and_step_alone() -> None:
    later = dream_noise(3, 47, SHAPE)
    dream_noise(4, 2, SHAPE)
    assert np.array_equal(dream_noise(3, 47, SHAPE), later)
    assert later.dtype == np.float32
    assert abs(np.corrcoef(later.ravel(), dream_noise(4, 47, SHAPE).ravel())[0, 1]) < 0.15


def test_its_spread_is_one_at_every_step_and_its_mean_is_none() -> None:
    for step in range(25):
        noise = dream_noise(1, step, (100, 100))
        assert abs(noise.std() - 1) < 0.03 and abs(noise.mean()) < 0.04


def test_it_wanders_without_a_jump_and_is_soon_elsewhere() -> None:
    walk = np.stack([dream_noise(9, step, SHAPE).ravel() for step in range(60)])
    near = [np.corrcoef(walk[step], walk[step + 1])[0, 1] for step in range(59)]
    far = [np.corrcoef(walk[step], walk[step + 25])[0, 1] for step in range(35)]
    assert min(near) > 0.95
    assert max(map(abs, far)) < 0.2
