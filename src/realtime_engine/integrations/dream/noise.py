"""Noise that wanders: it follows from a session's seed and its step alone."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_PERIOD = 10  # steps from one draw to the next; the way between is turned, which keeps the variance at 1


def dream_noise(seed: int, step: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Standard normal numbers of a step; those of the next one are close to them.

    Args:
        seed: of the session, 0 or more.
        step: from 0.
    """
    before, part = divmod(step, _PERIOD)
    angle = math.pi / 2 * part / _PERIOD
    noise: NDArray[np.float32] = math.cos(angle) * _draw(seed, before, shape)
    if part:
        noise += math.sin(angle) * _draw(seed, before + 1, shape)
    return noise


def _draw(seed: int, number: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.random.default_rng([seed, number]).standard_normal(shape, np.float32)
