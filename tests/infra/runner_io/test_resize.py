from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realtime_engine.infra.runner_io import INTERPOLATIONS, centre_crop, cover, resize

SIDES = st.integers(1, 14)


def cubic(x: float) -> float:
    a, x = -0.5, abs(x)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def sinc(x: float) -> float:
    return math.sin(math.pi * x) / (math.pi * x) if x else 1.0


FILTERS = {
    "box": (0.5, lambda x: 1.0 if -0.5 < x <= 0.5 else 0.0),
    "bilinear": (1.0, lambda x: max(1 - abs(x), 0.0)),
    "bicubic": (2.0, cubic),
    "lanczos": (3.0, lambda x: sinc(x) * sinc(x / 3) if abs(x) < 3 else 0.0),
}


def weights(old: int, new: int, name: str) -> np.ndarray:
    """(new, old): how much of each old row is in each new one."""
    table = np.zeros((new, old))
    scale = old / new
    for row in range(new):
        centre = (row + 0.5) * scale
        if name == "nearest":
            table[row, math.floor(Fraction(2 * row + 1, 2) * Fraction(old, new))] = 1
            continue
        support, weight = FILTERS[name]
        widened = max(scale, 1.0)
        for at in range(old):
            if abs(at + 0.5 - centre) < support * widened + 1:
                table[row, at] = weight((at + 0.5 - centre) / widened)
        table[row] /= table[row].sum()
    return table


def reference(pixels: np.ndarray, height: int, width: int, name: str) -> list[np.ndarray]:
    """One direction, then the other, with bytes in between, whose clipping may show: in both orders."""
    rows, columns = weights(pixels.shape[0], height, name), weights(pixels.shape[1], width, name)
    across = np.einsum("yh,hxc->yxc", rows, to_bytes(np.einsum("xw,hwc->hxc", columns, pixels.astype(float))))
    down = np.einsum("xw,ywc->yxc", columns, to_bytes(np.einsum("yh,hwc->ywc", rows, pixels.astype(float))))
    return [to_bytes(across), to_bytes(down)]


def to_bytes(values: np.ndarray) -> np.ndarray:
    return np.floor(values.clip(0, 255) + 0.5)


@settings(max_examples=120, deadline=None)
@given(SIDES, SIDES, SIDES, SIDES, st.sampled_from(INTERPOLATIONS), st.integers(0, 2**32 - 1))
def test_every_filter_agrees_with_the_reference(h: int, w: int, height: int, width: int, name: str, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (h, w, 3)).astype(np.uint8)
    resized = resize(pixels, height, width, name)
    errors = [np.abs(resized - wanted).max() for wanted in reference(pixels, height, width, name)]
    assert min(errors) <= (0 if name == "nearest" else 1)


def test_films_are_resized_picture_by_picture() -> None:
    film = np.random.default_rng(0).integers(0, 256, (3, 6, 8, 3)).astype(np.uint8)
    resized = resize(film, 4, 10, "bicubic")
    assert resized.shape == (3, 4, 10, 3)
    for picture, whole in zip(resized, film, strict=True):
        np.testing.assert_array_equal(picture, resize(whole, 4, 10, "bicubic"))


def test_the_same_size_is_no_copy() -> None:
    pixels = np.zeros((4, 5, 3), np.uint8)
    assert resize(pixels, 4, 5) is pixels


@given(SIDES, SIDES, st.data())
def test_the_middle_is_cut_out(height: int, width: int, data: st.DataObject) -> None:
    h, w = data.draw(st.integers(1, height)), data.draw(st.integers(1, width))
    pixels = np.arange(height * width * 3).reshape(height, width, 3).astype(np.uint8)
    cropped = centre_crop(pixels, h, w)
    top, left = (height - h) // 2, (width - w) // 2
    np.testing.assert_array_equal(cropped, [row[left : left + w] for row in pixels[top : top + h]])
    assert np.shares_memory(cropped, pixels)


@given(SIDES, SIDES, SIDES, SIDES)
@settings(deadline=None)
def test_cover_keeps_the_shape_and_cuts_off_the_rest(h: int, w: int, height: int, width: int) -> None:
    y, x = np.mgrid[0:h, 0:w]
    pixels = np.stack([y * 10, x * 10, y * 0], -1).astype(np.uint8)
    covered = cover(pixels, height, width, "nearest")
    assert covered.shape == (height, width, 3)
    assert covered.flags.c_contiguous
    scale = max(height / h, width / w)
    for axis, (old, new) in enumerate(((h, height), (w, width))):
        line = covered[:, 0, 0] if axis == 0 else covered[0, :, 1]
        shown = (int(line[-1]) - int(line[0])) / 10 + 1
        assert abs(shown - (new - 1) / scale - 1) <= 2  # steps of whole pixels
        assert abs((int(line[0]) + int(line[-1])) / 20 - (old - 1) / 2) <= max(1, 1 / scale) + 0.5


@pytest.mark.parametrize(
    "pixels",
    [np.zeros((4, 5), np.uint8), np.zeros((4, 5, 4), np.uint8), np.zeros((4, 5, 3)), np.zeros((0, 5, 3), np.uint8)],
)
def test_only_rgb_is_resized(pixels: np.ndarray) -> None:
    for change in (resize, centre_crop, cover):
        with pytest.raises(ValueError, match="expected .* uint8"):
            change(pixels, 2, 2)


def test_sizes_and_names_are_checked() -> None:
    pixels = np.zeros((4, 5, 3), np.uint8)
    with pytest.raises(ValueError, match="'cubic', expected one of nearest"):
        resize(pixels, 2, 2, "cubic")
    for change in (resize, centre_crop, cover):
        with pytest.raises(ValueError, match="at least one row"):
            change(pixels, 0, 2)
    with pytest.raises(ValueError, match=r"cannot crop 5 x 5 out of 4 x 5"):
        centre_crop(pixels, 5, 5)
