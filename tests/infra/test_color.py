from __future__ import annotations

import av
import numpy as np
import pytest

from realtime_engine.infra.color import fit, from_i420, scale_i420, split_i420, to_i420, to_rgb

from .webrtc.support import picture, psnr


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


def test_rgb_survives_a_round_trip() -> None:
    pixels = np.full((6, 8, 3), (200, 90, 40), np.uint8)
    assert np.abs(from_i420(to_i420(pixels)).astype(int) - pixels).max() <= 3


@pytest.mark.parametrize("pixels", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3), np.float32)])
def test_other_arrays_are_refused(pixels: np.ndarray) -> None:
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


def test_planes_of_the_target_size_are_not_copied() -> None:
    planes = to_i420(noise(16, 24))
    assert scale_i420(planes, 1) is planes
    assert scale_i420(planes, 1.01) is planes


@pytest.mark.parametrize("factor", [0, -1, float("nan")])
def test_invalid_factors_are_refused(factor: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        scale_i420(to_i420(noise(4, 4)), factor)


def test_arrays_other_than_i420_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(4, 4\)"):
        scale_i420(np.zeros((4, 4), np.uint8), 0.5)


def image(pixels: np.ndarray, *, matrix: str = "ITU601", layout: str = "yuv420p") -> av.VideoFrame:
    frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
    return frame.reformat(format=layout, dst_colorspace=matrix)


def flat(height: int, width: int) -> np.ndarray:
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[...] = (200, 40, 60)
    return pixels


@pytest.mark.parametrize(
    ("size", "most", "fitted"),
    [
        ((640, 360), 640, (640, 360)),
        ((1280, 720), 640, (640, 360)),
        ((720, 1280), 640, (360, 640)),
        ((641, 359), 640, (640, 358)),
        ((3, 3), 640, (3, 3)),
        ((4000, 10), 16, (16, 2)),
    ],
)
def test_the_longer_side_is_limited_and_the_aspect_ratio_kept(
    size: tuple[int, int], most: int, fitted: tuple[int, int]
) -> None:
    assert fit(*size, most) == fitted


@pytest.mark.parametrize("matrix", ["ITU601", "ITU709"])
@pytest.mark.parametrize("layout", ["yuv420p", "yuvj420p", "yuv444p"])
@pytest.mark.parametrize("most", [64, 32])
def test_colors_are_preserved(matrix: str, layout: str, most: int) -> None:
    rgb = to_rgb(image(flat(48, 64), matrix=matrix, layout=layout), most)
    assert rgb.shape == (most * 3 // 4, most, 3) and rgb.dtype == np.uint8
    assert np.abs(rgb.astype(int) - flat(1, 1)).max() <= 4


@pytest.mark.parametrize("size", [(47, 63), (48, 63), (1, 1), (2, 2)])
def test_odd_sizes_are_kept(size: tuple[int, int]) -> None:
    rgb = to_rgb(image(flat(*size)), 640)
    assert rgb.shape == (*size, 3)
    assert np.abs(rgb.astype(int) - flat(1, 1)).max() <= 4


def test_padded_rows_are_handled() -> None:
    pixels = picture(3, 326, 180)  # a width that decoders pad
    rgb = to_rgb(image(pixels), 640)
    assert psnr(rgb[..., 1], pixels[..., 1]) > 30


def test_scaling_averages_pixels() -> None:
    pixels = picture(3, 320, 180)
    expected = pixels.reshape(90, 2, 160, 2, 3).mean((1, 3))
    assert psnr(to_rgb(image(pixels), 160), expected) > 30


def test_a_huge_picture_is_refused() -> None:
    with pytest.raises(ValueError, match="16384x8192 is too large"):
        to_rgb(av.VideoFrame(16384, 8192, "gray"), 640)


@pytest.mark.parametrize("layout", ["yuv420p", "yuv444p"])
def test_an_unknown_color_space_is_taken_for_bt601(layout: str) -> None:
    """The sender states the matrix; swscale supports a few, and refuses a frame with another."""
    pixels = flat(32, 48)
    for matrix in range(256):
        frame = image(pixels, layout=layout)
        frame.colorspace = matrix
        shown = to_rgb(frame, 640)
        assert shown.shape == (32, 48, 3)
        if matrix in (3, 8, 255):
            assert np.abs(shown.astype(int) - pixels).max() < 6
