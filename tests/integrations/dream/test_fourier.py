from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from realtime_engine.integrations.dream.fourier import waves


@pytest.mark.parametrize("shape", [(3,), (5, 2), (4, 7, 2)])
def test_waves_are_sines_then_cosines_of_each_value(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(1)
    values, numbers = random.normal(size=shape), [0.5, 1.0, 3.0]
    got = waves(torch.from_numpy(values), torch.tensor(numbers, dtype=torch.float64))
    assert got.shape == (*shape[:-1], 2 * shape[-1] * 3)
    for index in np.ndindex(shape[:-1]):
        phases = [value * number for value in values[index].tolist() for number in numbers]
        expected = [math.sin(phase) for phase in phases] + [math.cos(phase) for phase in phases]
        assert np.allclose(got[index].numpy(), expected, atol=1e-12)
