from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from realtime_engine.infra.frame_format import LAYOUTS, VALUE_RANGES, guess_format, to_frames

SIZES = {"b": 1, "v": 2, "t": 3, "h": 4, "w": 5}


def reference_value(value: Any, value_range: str) -> int:
    """One component, in Python's own arithmetic where it is exact and in the value's where it is not."""
    if value_range == "uint8":
        return int(value)
    kind = np.float64 if value.dtype == np.float64 else np.float32
    scaled = kind(value) * kind(255) if value_range == "zero_one" else (kind(value) + kind(1)) * kind(127.5)
    if math.isnan(scaled):
        return 0
    return round(float(min(max(scaled, kind(0)), kind(255))))


def reference(output: np.ndarray, layout: str, value_range: str) -> list[np.ndarray]:
    """Pixel by pixel."""
    size = dict(zip(layout, output.shape, strict=True))
    views, channels = size.get("v", 1), size["c"]
    frames = []
    for t in range(size.get("t", 1)):
        frame = np.zeros((size["h"], size["w"] * views, 3), dtype=np.uint8)
        for v, y, x, channel in np.ndindex(views, size["h"], size["w"], 3):
            at = {"b": 0, "v": v, "t": t, "h": y, "w": x, "c": channel if channels >= 3 else 0}
            value = output[tuple(at[axis] for axis in layout)]
            frame[y, v * size["w"] + x, channel] = reference_value(value, value_range)
        frames.append(frame)
    return frames


def shape_of(layout: str, channels: int) -> tuple[int, ...]:
    return tuple((SIZES | {"c": channels})[axis] for axis in layout)


def sample(shape: tuple[int, ...], value_range: str, dtype: str) -> np.ndarray:
    dice = np.random.default_rng(0)
    if value_range == "uint8":
        return dice.integers(0, 256, shape).astype(np.uint8)
    low = -1.5 if value_range == "minus_one_one" else -0.5
    return dice.uniform(low, 1.5, shape).astype(dtype)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("value_range", VALUE_RANGES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_and_range_agrees_with_the_reference(layout: str, value_range: str, channels: int) -> None:
    output = sample(shape_of(layout, channels), value_range, "float32")
    frames = to_frames(output, layout, value_range)
    expected = reference(output, layout, value_range)
    assert len(frames) == len(expected)
    for frame, wanted in zip(frames, expected, strict=True):
        assert frame.dtype == np.uint8
        assert frame.flags.c_contiguous
        np.testing.assert_array_equal(frame, wanted)


@given(
    output=st.sampled_from(["float16", "float32", "float64"]).flatmap(
        lambda dtype: hnp.arrays(
            dtype,
            (2, 2, 3),
            elements=st.one_of(
                st.floats(-2, 2, width=16),
                st.sampled_from([math.nan, math.inf, -math.inf, 0.5, 1.0, -1.0]),
                st.integers(-2, 600).map(lambda n: float(np.dtype(dtype).type((n + 0.5) / 255))),
            ),
        )
    ),
    value_range=st.sampled_from(["zero_one", "minus_one_one"]),
)
def test_any_number_is_scaled_rounded_and_clipped_like_the_reference(output: np.ndarray, value_range: str) -> None:
    before = output.copy()
    (frame,) = to_frames(output, "hwc", value_range)
    np.testing.assert_array_equal(frame, reference(output, "hwc", value_range)[0])
    np.testing.assert_array_equal(output, before)


@pytest.mark.parametrize("value_range", ["zero_one", "minus_one_one"])
def test_every_byte_survives_a_round_trip(value_range: str) -> None:
    values = np.arange(256, dtype=np.uint8).repeat(3).reshape(16, 16, 3)
    floats = values / np.float32(255) if value_range == "zero_one" else values / np.float32(127.5) - np.float32(1)
    np.testing.assert_array_equal(to_frames(floats, "hwc", value_range)[0], values)


def test_overflow_is_clipped_and_a_picture_of_nan_is_black() -> None:
    wild = np.array([3e38, -3e38, np.nan, np.inf, -np.inf, 1], dtype=np.float32).reshape(1, 2, 3)
    assert to_frames(wild, "hwc", "zero_one")[0].ravel().tolist() == [255, 0, 0, 255, 0, 255]
    assert to_frames(np.float16(wild.clip(-6e4, 6e4)), "hwc", "minus_one_one")[0].ravel().tolist()[:3] == [255, 0, 0]


def test_halves_are_rounded_to_even() -> None:
    halves = (np.array([0.5, 1.5, 2.5, 253.5, 254.5, 0.0]) / 255).reshape(1, 2, 3)
    assert to_frames(halves, "hwc", "zero_one")[0].ravel().tolist() == [0, 2, 2, 254, 254, 0]


@pytest.mark.parametrize("layout", ["hwc", "thwc"])
def test_finished_pictures_are_not_copied(layout: str) -> None:
    output = sample(shape_of(layout, 3), "uint8", "uint8")
    for frame in to_frames(output, layout, "uint8"):
        assert np.shares_memory(frame, output)


def test_a_mirrored_view_becomes_contiguous() -> None:
    output = sample((2, 4, 5, 3), "uint8", "uint8")[:, :, ::-1]
    frames = to_frames(output)
    assert all(frame.flags.c_contiguous for frame in frames)
    np.testing.assert_array_equal(np.stack(frames), output)


def test_zero_frames_are_allowed() -> None:
    assert to_frames(np.zeros((0, 4, 5, 3), np.uint8)) == []


class FakeTensor:
    """What of a torch tensor the converter asks for; ``numpy()`` before ``detach().cpu()`` is refused as torch does."""

    def __init__(self, array: np.ndarray, dtype: str = "torch.float32", ready: int = 0) -> None:
        self._array, self.dtype, self._ready = array, dtype, ready

    def detach(self) -> FakeTensor:
        return FakeTensor(self._array, self.dtype, self._ready + 1)

    def cpu(self) -> FakeTensor:
        return FakeTensor(self._array, self.dtype, self._ready + 1)

    def float(self) -> FakeTensor:
        return FakeTensor(self._array, "torch.float32", self._ready)

    def numpy(self) -> np.ndarray:
        if self._ready < 2 or self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType")
        return self._array


@pytest.mark.parametrize("dtype", ["torch.float32", "torch.bfloat16"])
def test_tensors_are_converted_without_importing_torch(dtype: str) -> None:
    array = sample((3, 4, 5), "zero_one", "float32")
    np.testing.assert_array_equal(
        to_frames(FakeTensor(array, dtype), "chw", "zero_one")[0], to_frames(array, "chw", "zero_one")[0]
    )


BYTES = np.zeros((2, 4, 5, 3), np.uint8)
FLOATS = np.zeros((2, 4, 5, 3), np.float32)


@pytest.mark.parametrize(
    ("output", "layout", "value_range", "words"),
    [
        (BYTES, "wxyz", "uint8", ["'wxyz'", "bvtchw"]),
        (BYTES, "thwc", "zero_two", ["'zero_two'", "minus_one_one"]),
        (BYTES, "hwc", "uint8", ["(2, 4, 5, 3)", "uint8", "3 axes", "'hwc'"]),
        (BYTES.swapaxes(1, 2), "tchw", "uint8", ["(2, 5, 4, 3)", "axis 1", "is it 'thwc'?"]),
        (np.zeros((2, 4, 5, 2), np.uint8), "thwc", "uint8", ["(2, 4, 5, 2)", "3 channels", "axis 3"]),
        (FLOATS, "thwc", "uint8", ["float32", "dtype uint8", "'zero_one'"]),
        (BYTES, "thwc", "zero_one", ["uint8", "floating-point", "declare the range 'uint8'"]),
        (FLOATS.astype(np.int64), "thwc", "minus_one_one", ["int64", "convert"]),
        (FLOATS.astype(np.int64), "thwc", "uint8", ["int64", "convert"]),
        (np.zeros((2, 3, 1, 4, 5), np.uint8), "bcthw", "uint8", ["batch of 1", "(2, 3, 1, 4, 5)"]),
        (np.zeros((0, 5, 3), np.uint8), "hwc", "uint8", ["at least one pixel"]),
        (np.zeros((1, 0, 1, 3, 4, 5), np.uint8), "bvtchw", "uint8", ["at least one pixel"]),
    ],
)
def test_errors_name_the_mismatch(output: np.ndarray, layout: str, value_range: str, words: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        to_frames(output, layout, value_range)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_unambiguous_layout_is_guessed(layout: str, channels: int) -> None:
    shape = tuple((SIZES | {"c": channels, "h": 6, "w": 8, "t": 5})[axis] for axis in layout)
    assert guess_format(np.zeros(shape, np.uint8)) == (layout, "uint8")


@pytest.mark.parametrize(
    ("shape", "dtype", "words"),
    [
        ((3, 8, 3), "uint8", ["hwc and chw fit", "declare the layout"]),
        ((2, 3, 8, 3), "uint8", ["thwc and tchw fit"]),
        ((2, 4, 8, 3), "uint8", ["thwc and tchw fit"]),
        ((8, 8), "uint8", ["none fits"]),
        ((2, 1, 8, 8), "uint8", ["none fits"]),
        ((2, 3, 5, 8, 8), "uint8", ["none fits"]),
        ((0, 8, 3), "uint8", ["none fits"]),
        ((8, 8, 3), "float32", ["value range", "'zero_one' or 'minus_one_one'"]),
        ((8, 8, 3), "float16", ["value range", "'zero_one' or 'minus_one_one'"]),
        ((8, 8, 3), "int64", ["value range", "convert"]),
    ],
)
def test_an_ambiguous_format_is_not_guessed(shape: tuple[int, ...], dtype: str, words: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        guess_format(np.zeros(shape, dtype))
    for word in words:
        assert word in str(caught.value)
