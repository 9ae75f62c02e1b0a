from __future__ import annotations

import av
import numpy as np
import pytest

from realtime_engine.infra.webrtc.picture import fit, to_rgb

from .support import picture, psnr


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
def test_the_longer_side_is_bounded_and_the_shape_kept(
    size: tuple[int, int], most: int, fitted: tuple[int, int]
) -> None:
    assert fit(*size, most) == fitted


@pytest.mark.parametrize("matrix", ["ITU601", "ITU709"])
@pytest.mark.parametrize("layout", ["yuv420p", "yuvj420p", "yuv444p"])
@pytest.mark.parametrize("most", [64, 32])
def test_colours_come_out_as_they_went_in(matrix: str, layout: str, most: int) -> None:
    rgb = to_rgb(image(flat(48, 64), matrix=matrix, layout=layout), most)
    assert rgb.shape == (most * 3 // 4, most, 3) and rgb.dtype == np.uint8
    assert np.abs(rgb.astype(int) - flat(1, 1)).max() <= 4


@pytest.mark.parametrize("size", [(47, 63), (48, 63), (1, 1), (2, 2)])
def test_odd_sizes_are_kept(size: tuple[int, int]) -> None:
    rgb = to_rgb(image(flat(*size)), 640)
    assert rgb.shape == (*size, 3)
    assert np.abs(rgb.astype(int) - flat(1, 1)).max() <= 4


def test_a_picture_of_padded_rows_is_not_sheared() -> None:
    pixels = picture(3, 326, 180)  # a width that decoders pad
    rgb = to_rgb(image(pixels), 640)
    assert psnr(rgb[..., 1], pixels[..., 1]) > 30


def test_scaling_is_the_mean_of_what_it_covers() -> None:
    pixels = picture(3, 320, 180)
    expected = pixels.reshape(90, 2, 160, 2, 3).mean((1, 3))
    assert psnr(to_rgb(image(pixels), 160), expected) > 30


def test_a_picture_that_nobody_means_is_refused() -> None:
    with pytest.raises(ValueError, match="16384x8192 is too large"):
        to_rgb(av.VideoFrame(16384, 8192, "gray"), 640)


@pytest.mark.parametrize("layout", ["yuv420p", "yuv444p"])
def test_a_picture_of_unknown_colours_is_shown_all_the_same(layout: str) -> None:
    """Whoever sends says what matrix it is; swscale takes a few, and refuses the frame otherwise."""
    pixels = flat(32, 48)
    for matrix in range(256):
        frame = image(pixels, layout=layout)
        frame.colorspace = matrix
        shown = to_rgb(frame, 640)
        assert shown.shape == (32, 48, 3)
        if matrix in (3, 8, 255):
            assert np.abs(shown.astype(int) - pixels).max() < 6
