"""PSNR and SSIM against slow, obvious references."""

from __future__ import annotations

import math

import numpy as np
import pytest

from realtime_engine.infra.offline import psnr, ssim


def slow_ssim(one: np.ndarray, other: np.ndarray) -> float:
    """Wang et al. 2004, window by window."""
    place = np.arange(11) - 5
    bell = np.exp(-(place**2) / (2 * 1.5**2))
    weights = np.outer(bell, bell) / np.outer(bell, bell).sum()
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    values = []
    for channel in range(one.shape[2]):
        for y in range(one.shape[0] - 10):
            for x in range(one.shape[1] - 10):
                a = one[y : y + 11, x : x + 11, channel].astype(float)
                b = other[y : y + 11, x : x + 11, channel].astype(float)
                mean_a, mean_b = (weights * a).sum(), (weights * b).sum()
                var_a = (weights * (a - mean_a) ** 2).sum()
                var_b = (weights * (b - mean_b) ** 2).sum()
                both = (weights * (a - mean_a) * (b - mean_b)).sum()
                likeness = (2 * mean_a * mean_b + c1) * (2 * both + c2)
                values.append(likeness / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2)))
    return float(np.mean(values))


def pictures(seed: int, spread: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    one = random.integers(0, 256, (17, 23, 3), np.uint8)
    noise = random.integers(-spread, spread + 1, one.shape)
    return one, np.clip(one.astype(int) + noise, 0, 255).astype(np.uint8)


@pytest.mark.parametrize(("seed", "spread"), [(0, 1), (1, 20), (2, 255)])
def test_ssim_is_that_of_the_paper(seed: int, spread: int) -> None:
    one, other = pictures(seed, spread)
    assert ssim(one, other) == pytest.approx(slow_ssim(one, other), abs=1e-9)
    assert ssim(one, other) == ssim(other, one)


def test_psnr_is_that_of_the_definition() -> None:
    one, other = pictures(3, 9)
    error = sum((int(a) - int(b)) ** 2 for a, b in zip(one.ravel(), other.ravel(), strict=True)) / one.size
    assert psnr(one, other) == pytest.approx(10 * math.log10(255**2 / error), rel=1e-6)


def test_a_picture_equals_itself() -> None:
    one, _ = pictures(4, 0)
    assert psnr(one, one) == math.inf and ssim(one, one) == pytest.approx(1.0)


def test_pictures_that_cannot_be_compared() -> None:
    one, _ = pictures(5, 0)
    for measure in (psnr, ssim):
        with pytest.raises(ValueError, match=r"one shape, got \(17, 23, 3\) and \(16, 23, 3\)"):
            measure(one, one[1:])
        with pytest.raises(ValueError, match="uint8"):
            measure(one, one.astype(np.float32))
    with pytest.raises(ValueError, match="11x11 pixels or more, got 23x10"):
        ssim(one[:10], one[:10])
