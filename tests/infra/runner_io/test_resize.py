from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from realtime_engine.infra.runner_io import INTERPOLATIONS, centre_crop, cover, resize

SIDES = st.integers(1, 14)
HALF = Fraction(1, 2)
ROUNDING = 0.005  # of weights in fixed-point numbers of 22 bits, which are summed over as many rows


def cubic(x: float) -> float:
    a, x = -0.5, abs(x)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def sinc(x: float) -> float:
    return math.sin(math.pi * x) / (math.pi * x) if x else 1.0


FILTERS = {
    "bilinear": (1.0, lambda x: max(1 - abs(x), 0.0)),
    "bicubic": (2.0, cubic),
    "lanczos": (3.0, lambda x: sinc(x) * sinc(x / 3) if abs(x) < 3 else 0.0),
}


BOXES = (
    lambda x: -HALF < x < HALF,
    lambda x: -HALF <= x < HALF,
    lambda x: -HALF < x <= HALF,
    lambda x: -HALF <= x <= HALF,
)


def weights(old: int, new: int, name: str) -> list[np.ndarray]:
    """(new, old) tables of how much of each old row is in each new one.

    ``box`` has several: floating-point rounding decides whether a row whose middle is exactly on an edge of the box
    counts.
    """
    scale = Fraction(old, new)
    middles = [Fraction(2 * at + 1, 2) for at in range(old)]
    centres = [Fraction(2 * row + 1, 2) * scale for row in range(new)]
    if name == "nearest":
        return [normalized([[at == math.floor(centre) for at in range(old)] for centre in centres])]
    widened = max(scale, Fraction(1))
    offsets = [[(middle - centre) / widened for middle in middles] for centre in centres]
    if name != "box":
        support, weight = FILTERS[name]
        table = [[weight(float(x)) if abs(x) < support else 0.0 for x in row] for row in offsets]
        return [normalized(table)]
    inside, *others = (np.array([[counts(x) for x in row] for row in offsets], float) for counts in BOXES)
    empty = inside.sum(1) == 0
    inside[empty] = others[0][empty]
    return [normalized(table) for table in (inside, *others)]


def normalized(table: Sequence[Sequence[float]] | np.ndarray) -> np.ndarray:
    array = np.array(table, float)
    return array / array.sum(1, keepdims=True)


Bounds = tuple[np.ndarray, np.ndarray]


def filtered(bounds: Bounds, tables: list[np.ndarray]) -> Bounds:
    """The least and the greatest byte that each row may become, for rows (old, ...) between ``bounds``."""
    low, high = (bound.astype(float) for bound in bounds)
    lows = [np.tensordot(table.clip(0), low, 1) + np.tensordot(table.clip(max=0), high, 1) for table in tables]
    highs = [np.tensordot(table.clip(0), high, 1) + np.tensordot(table.clip(max=0), low, 1) for table in tables]
    return to_bytes(np.min(lows, 0) - ROUNDING), to_bytes(np.max(highs, 0) + ROUNDING)


def reference(pixels: np.ndarray, height: int, width: int, name: str) -> list[Bounds]:
    """One direction, then the other, with bytes in between, whose rounding and clipping may show: in both orders."""
    rows, columns = weights(pixels.shape[0], height, name), weights(pixels.shape[1], width, name)
    turned = pixels.swapaxes(0, 1)
    across = filtered(swapped(filtered((turned, turned), columns)), rows)
    down = swapped(filtered(swapped(filtered((pixels, pixels), rows)), columns))
    return [across, down]


def swapped(bounds: Bounds) -> Bounds:
    return bounds[0].swapaxes(0, 1), bounds[1].swapaxes(0, 1)


def to_bytes(values: np.ndarray) -> np.ndarray:
    return np.floor(values.clip(0, 255) + 0.5)


@given(SIDES, SIDES, SIDES, SIDES, st.sampled_from(INTERPOLATIONS), st.integers(0, 2**32 - 1))
@example(3, 4, 11, 5, "lanczos", 11)  # a byte between the passes may be off by one, which the second pass amplifies
@example(13, 1, 6, 1, "box", 0)  # the middle of row 6 is where the boxes of two new rows meet
def test_every_filter_agrees_with_the_reference(h: int, w: int, height: int, width: int, name: str, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (h, w, 3)).astype(np.uint8)
    resized = resize(pixels, height, width, name)
    assert any(
        (low <= resized).all() and (resized <= high).all() for low, high in reference(pixels, height, width, name)
    )


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
