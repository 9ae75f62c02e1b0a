from __future__ import annotations

import numpy as np
import pytest

from realtime_engine.infra.colour import from_i420, scale_i420, split_i420, to_i420


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def bt601(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Y, U and V in limited range, of every pixel, from the definition."""
    r, g, b = (pixels[..., i] / 255.0 for i in range(3))
    return (
        16 + 219 * (0.299 * r + 0.587 * g + 0.114 * b),
        128 + 224 * (-0.168736 * r - 0.331264 * g + 0.5 * b),
        128 + 224 * (0.5 * r - 0.418688 * g - 0.081312 * b),
    )


def test_i420_agrees_with_the_definition_of_bt601() -> None:
    pixels = noise(12, 16).repeat(2, 0).repeat(2, 1)
    planes = to_i420(pixels)
    assert planes.shape == (36, 32)
    y, u, v = bt601(pixels)
    for plane, expected, level in zip(split_i420(planes), (y, u[::2, ::2], v[::2, ::2]), (1, 2, 2), strict=True):
        assert plane.shape == expected.shape
        assert np.abs(plane - expected).max() <= level


@pytest.mark.parametrize("size", [(7, 9), (8, 9), (7, 10)])
def test_odd_sides_repeat_their_last_line(size: tuple[int, int]) -> None:
    height, width = size
    pixels = noise(*size)
    grown = np.pad(pixels, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    assert np.array_equal(to_i420(pixels), to_i420(grown))


def test_rgb_comes_back() -> None:
    pixels = np.full((6, 8, 3), (200, 90, 40), np.uint8)
    assert np.abs(from_i420(to_i420(pixels)).astype(int) - pixels).max() <= 3


@pytest.mark.parametrize("pixels", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3), np.float32)])
def test_other_pixels_are_refused_by_name(pixels: np.ndarray) -> None:
    with pytest.raises(ValueError, match=str(pixels.dtype)):
        to_i420(pixels)


@pytest.mark.parametrize(
    ("size", "factor", "expected"),
    [
        ((360, 640), 0.5, (180, 320)),
        ((361, 641), 0.5, (180, 320)),
        ((90, 160), 1.5, (136, 240)),
        ((2, 4), 0.25, (2, 2)),
    ],
)
def test_scaled_planes_have_even_sides(size: tuple[int, int], factor: float, expected: tuple[int, int]) -> None:
    scaled = scale_i420(to_i420(noise(*size)), factor)
    assert split_i420(scaled)[0].shape == expected


def test_scaling_by_half_averages_each_plane() -> None:
    planes = to_i420(noise(16, 24))
    for plane, half in zip(split_i420(planes), split_i420(scale_i420(planes, 0.5)), strict=True):
        rows, columns = half.shape
        means = plane.reshape(rows, 2, columns, 2).mean(axis=(1, 3))
        assert np.abs(half - means).max() <= 1


def test_planes_of_the_wanted_size_are_not_copied() -> None:
    planes = to_i420(noise(16, 24))
    assert scale_i420(planes, 1) is planes
    assert scale_i420(planes, 1.01) is planes


@pytest.mark.parametrize("factor", [0, -1, float("nan")])
def test_impossible_factors_are_refused(factor: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        scale_i420(to_i420(noise(4, 4)), factor)


def test_what_is_no_i420_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(4, 4\)"):
        scale_i420(np.zeros((4, 4), np.uint8), 0.5)
