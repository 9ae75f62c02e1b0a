from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from realtime_engine.infra.mp4 import Mp4Writer
from realtime_engine.infra.offline import compare_films, psnr, ssim


def film(path: Path, frames: int = 4, size: tuple[int, int] = (32, 48), dark: int | None = None) -> Path:
    """A ramp that moves; frame ``dark`` is black."""
    with Mp4Writer(path, 30) as writer:
        for number in range(frames):
            ramp = (np.arange(size[1]) * 4 + number * 8) % 200
            pixels = np.broadcast_to(ramp[None, :, None], (*size, 3)).astype(np.uint8)
            writer.write(np.zeros_like(pixels) if number == dark else np.ascontiguousarray(pixels))
    return path


def test_a_film_equals_itself(tmp_path: Path) -> None:
    one = film(tmp_path / "one.mp4")
    difference = compare_films(one, film(tmp_path / "other.mp4"))
    assert (difference.frames, difference.psnr_db, difference.worst_psnr_db) == (4, math.inf, math.inf)
    assert difference.ssim == pytest.approx(1.0) and difference.worst_ssim == pytest.approx(1.0)


def test_the_worst_frame_is_named(tmp_path: Path) -> None:
    difference = compare_films(film(tmp_path / "one.mp4"), film(tmp_path / "other.mp4", dark=2))
    assert difference.worst_frame == 2 and difference.worst_psnr_db < 15 < difference.psnr_db + 10
    assert difference.worst_ssim < 0.5 < difference.ssim


def test_films_that_cannot_be_compared(tmp_path: Path) -> None:
    one = film(tmp_path / "one.mp4")
    with pytest.raises(ValueError, match=r"shorter\.mp4 has 3 pictures, .*one\.mp4 has more"):
        compare_films(one, film(tmp_path / "shorter.mp4", frames=3))
    with pytest.raises(ValueError, match="is 48x32, .* is 64x32: expected the same size"):
        compare_films(one, film(tmp_path / "wide.mp4", size=(32, 64)))
    text = tmp_path / "text.mp4"
    text.write_text("no film at all")
    with pytest.raises(ValueError, match=r"text\.mp4 cannot be decoded"):
        compare_films(one, text)
    with pytest.raises(FileNotFoundError):
        compare_films(one, tmp_path / "nowhere.mp4")


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
