from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine.infra.frame_format import LAYOUTS, VALUE_RANGES, to_frames
from realtime_engine.infra.runner_io import to_array, to_tensor

TORCH = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-24, "float64": 2**-53}


def random_film(seed: int, times: int = 2, height: int = 3, width: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (times, height, width, 3)).astype(np.uint8)


def exact(byte: int, value_range: str) -> Fraction:
    if value_range == "uint8":
        return Fraction(byte)
    return Fraction(byte, 255) if value_range == "zero_one" else Fraction(2 * byte, 255) - 1


def reference(frames: np.ndarray, layout: str, value_range: str, dtype: str, views: int) -> np.ndarray:
    """Element by element."""
    times, height, width, _ = frames.shape
    part = width // views
    size = {"b": 1, "v": views, "t": times, "c": 3, "h": height, "w": part}
    result = np.empty([size[axis] for axis in layout], "uint8" if value_range == "uint8" else dtype)
    for at in np.ndindex(result.shape):
        place = {"t": 0, "v": 0} | dict(zip(layout, at, strict=True))
        byte = frames[place["t"], place["h"], place["v"] * part + place["w"], place["c"]]
        result[at] = float(exact(int(byte), value_range))
    return result


@given(
    st.sampled_from(LAYOUTS),
    st.sampled_from(VALUE_RANGES),
    st.sampled_from(["float16", "float32", "float64"]),
    st.sampled_from([1, 2]),
    st.integers(0, 2**32 - 1),
)
def test_arrays_agree_with_the_reference(layout: str, value_range: str, dtype: str, views: int, seed: int) -> None:
    views = views if "v" in layout else 1
    film = random_film(seed, times=2 if "t" in layout else 1)
    array = to_array(film, layout, value_range, dtype=dtype, views=views)
    wanted = reference(film, layout, value_range, dtype, views)
    assert array.dtype == wanted.dtype
    np.testing.assert_array_equal(array, wanted)
    np.testing.assert_array_equal(to_tensor(film, layout, value_range, dtype=dtype, views=views).numpy(), wanted)


@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("value_range", ["zero_one", "minus_one_one"])
def test_every_byte_is_rounded_once_and_comes_back(value_range: str, dtype: str) -> None:
    values = np.arange(256, dtype=np.uint8).repeat(3).reshape(16, 16, 3)
    tensor = to_tensor(values, "chw", value_range, dtype=dtype)
    assert tensor.dtype is getattr(torch, dtype)
    for byte, value in zip(range(256), tensor[0].double().ravel().tolist(), strict=True):
        wanted = exact(byte, value_range)
        assert abs(Fraction(value) - wanted) <= abs(wanted) * Fraction(TORCH[dtype]) * Fraction(101, 100)
    np.testing.assert_array_equal(to_frames(tensor, "chw", value_range)[0], values)


@pytest.mark.parametrize("value_range", VALUE_RANGES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_to_frames_is_the_way_back(layout: str, value_range: str) -> None:
    film = random_film(0, times=3 if "t" in layout else 1)
    views = 2 if "v" in layout else 1
    np.testing.assert_array_equal(
        to_frames(to_array(film, layout, value_range, views=views), layout, value_range), film
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bytes_are_not_copied(layout: str) -> None:
    film = random_film(0, times=1)
    assert np.shares_memory(to_array(film, layout, "uint8"), film)
    assert np.shares_memory(to_tensor(film, layout, "uint8").numpy(), film)


def test_what_is_read_only_is_copied_for_torch() -> None:
    film = random_film(0)
    film.flags.writeable = False
    tensor = to_tensor(film, "thwc", "uint8")
    tensor += 1
    np.testing.assert_array_equal(film, random_film(0))


def test_one_picture_needs_no_axis_of_time() -> None:
    film = random_film(0, times=1)
    np.testing.assert_array_equal(to_array(film[0], "thwc", "uint8"), film)
    np.testing.assert_array_equal(to_array(film[0], "hwc", "uint8"), film[0])


def test_a_device_is_asked_for() -> None:
    assert to_tensor(random_film(0), "thwc", "uint8").device.type == "cpu"
    assert to_tensor(random_film(0), device="meta").device.type == "meta"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": "hwc"}, "layout 'hwc' holds one picture, got 2"),
        ({"layout": "cthw"}, "unknown layout 'cthw'"),
        ({"value_range": "zero_two"}, "unknown value range"),
        ({"dtype": "int8"}, "unknown dtype 'int8', expected one of float16"),
        ({"views": 2}, "cannot split a width of 4 into 2 views in layout 'tchw'"),
        ({"layout": "bvtchw", "views": 3}, "cannot split a width of 4 into 3 views"),
        ({"layout": "bvtchw", "views": 0}, "cannot split"),
    ],
)
def test_what_does_not_fit_is_named(options: dict, message: str) -> None:
    for make in (to_array, to_tensor):
        with pytest.raises(ValueError, match=message):
            make(random_film(0), **options)


def test_numpy_has_no_bfloat16() -> None:
    with pytest.raises(ValueError, match=r"use to_tensor\(\)"):
        to_array(random_film(0), dtype="bfloat16")


@pytest.mark.parametrize("frames", [np.zeros((2, 3, 4, 3)), np.zeros((3, 4), np.uint8), np.zeros((3, 4, 4), np.uint8)])
def test_only_rgb_is_taken(frames: np.ndarray) -> None:
    with pytest.raises(ValueError, match="expected .* uint8, got"):
        to_array(frames)
