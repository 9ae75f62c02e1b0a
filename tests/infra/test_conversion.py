from __future__ import annotations

import sys

import numpy as np
import pytest

from realtime_engine.infra.color import from_i420, to_i420
from realtime_engine.infra.conversion import Converter
from realtime_engine.infra.copy_stats import Copy, CopyStats
from realtime_engine.infra.frame_format import LAYOUTS, to_frames

from .fake_tensors import FakeTensors

SIZES = {"b": 1, "v": 2, "t": 3, "c": 3, "h": 6, "w": 10}


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> FakeTensors:
    fake = FakeTensors()
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


def values(layout: str, value_range: str, **sizes: int) -> np.ndarray:
    """Numbers of the range and somewhat beyond it, with a NaN."""
    shape = [{**SIZES, **sizes}[axis] for axis in layout]
    random = np.random.default_rng(1)
    if value_range == "uint8":
        return random.integers(0, 256, shape, dtype=np.uint8)
    low = {"zero_one": 0.0, "minus_one_one": -1.0}[value_range]
    numbers = random.uniform(low - 0.2, 1.2, shape).astype(np.float32)
    numbers.flat[:1] = np.nan
    return numbers


def levels_apart(one: np.ndarray, other: np.ndarray) -> int:
    return int(np.abs(one.astype(int) - other.astype(int)).max())


@pytest.mark.parametrize("value_range", ["uint8", "zero_one", "minus_one_one"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_tensor_on_a_gpu_becomes_the_same_planes(torch: FakeTensors, layout: str, value_range: str) -> None:
    given = values(layout, value_range)
    pictures = Converter(layout, value_range)(torch.on_device(given))
    expected = to_frames(given, layout, value_range)
    assert len(pictures) == len(expected)
    for picture, pixels in zip(pictures, expected, strict=True):
        assert (picture.height, picture.width) == pixels.shape[:2]
        assert levels_apart(picture.planes(), to_i420(pixels)) <= 1


@pytest.mark.parametrize("channels", [1, 4])
def test_gray_and_alpha_on_a_gpu(torch: FakeTensors, channels: int) -> None:
    given = values("tchw", "zero_one", c=channels)
    (first, *_) = Converter("tchw", "zero_one")(torch.on_device(given))
    assert levels_apart(first.planes(), to_i420(to_frames(given, "tchw", "zero_one")[0])) <= 1


@pytest.mark.parametrize(("height", "width"), [(5, 10), (6, 9), (7, 7)])
def test_odd_sizes_on_a_gpu(torch: FakeTensors, height: int, width: int) -> None:
    given = values("tchw", "minus_one_one", h=height, w=width)
    (first, *_) = Converter("tchw", "minus_one_one")(torch.on_device(given))
    assert (first.height, first.width) == (height, width)
    assert levels_apart(first.planes(), to_i420(to_frames(given, "tchw", "minus_one_one")[0])) <= 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_other_precisions_on_a_gpu(torch: FakeTensors, dtype: str) -> None:
    given = values("tchw", "zero_one")
    tensor = torch.on_device(given, getattr(torch, dtype))
    (first, *_) = Converter("tchw", "zero_one")(tensor)
    expected = to_frames(tensor.array.astype(np.float32), "tchw", "zero_one")[0]
    assert levels_apart(first.planes(), to_i420(expected)) <= 1


def test_one_and_a_half_bytes_per_pixel_cross_to_the_host(torch: FakeTensors) -> None:
    copies = CopyStats()
    pictures = Converter("tchw", "zero_one", copies)(torch.on_device(values("tchw", "zero_one")))
    assert torch.to_host_bytes == 3 * 6 * 10 * 3 // 2
    assert copies.snapshot()[Copy.DEVICE_TO_HOST][:2] == (1, torch.to_host_bytes)
    assert copies.snapshot()[Copy.I420_TO_RGB].times == 0
    assert np.array_equal(pictures[0].pixels, from_i420(pictures[0].planes()))
    assert copies.snapshot()[Copy.I420_TO_RGB].times == 1


@pytest.mark.parametrize(
    ("array", "dtype", "value_range", "message"),
    [
        (np.zeros((2, 3, 4, 4), np.float32), "float32", "uint8", "declare the range 'zero_one' or 'minus_one_one'"),
        (np.zeros((2, 3, 4, 4), np.uint8), "uint8", "zero_one", "declare the range 'uint8'"),
        (np.zeros((2, 3, 4, 4), np.int64), "int64", "uint8", "dtype int64 does not fit"),
        (np.zeros((2, 5, 4, 4), np.float32), "bfloat16", "zero_one", r"shape \(2, 5, 4, 4\) and dtype bfloat16"),
        (np.zeros((3, 4, 4), np.float32), "float32", "zero_one", "4 axes"),
    ],
)
def test_a_tensor_that_does_not_fit_is_refused_like_an_array(
    torch: FakeTensors, array: np.ndarray, dtype: str, value_range: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Converter("tchw", value_range)(torch.on_device(array, getattr(torch, dtype)))


def test_zero_frames_on_a_gpu_are_allowed(torch: FakeTensors) -> None:
    assert Converter("tchw", "zero_one")(torch.on_device(values("tchw", "zero_one", t=0))) == []


def test_an_rgb_array_is_not_copied() -> None:
    copies = CopyStats()
    convert = Converter("thwc", "uint8", copies)
    output = values("thwc", "uint8")
    assert convert.is_free(output)
    pictures = convert(output)
    assert [picture.pixels.base is output for picture in pictures] == [True] * 3
    assert copies.snapshot()[Copy.LAYOUT].times == 0


@pytest.mark.parametrize(("layout", "value_range"), [("tchw", "uint8"), ("thwc", "zero_one")])
def test_other_arrays_are_copied_and_counted(layout: str, value_range: str) -> None:
    copies = CopyStats()
    convert = Converter(layout, value_range, copies)
    output = values(layout, value_range)
    assert not convert.is_free(output)
    pictures = convert(output)
    for picture, pixels in zip(pictures, to_frames(output, layout, value_range), strict=True):
        assert np.array_equal(picture.pixels, pixels)
    assert copies.snapshot()[Copy.LAYOUT][:2] == (1, 3 * 6 * 10 * 3)


def test_an_unknown_layout_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="unknown layout 'whc'"):
        Converter("whc")


# -- the real thing, on the host


@pytest.mark.parametrize("value_range", ["uint8", "zero_one", "minus_one_one"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_real_tensors_become_the_same_planes(layout: str, value_range: str) -> None:
    import torch

    from realtime_engine.infra.tensors import TensorConverter

    convert = TensorConverter(torch, torch.device("cpu"), value_range)
    dtypes = [torch.uint8] if value_range == "uint8" else [torch.float32, torch.float16, torch.bfloat16, torch.float64]
    for sizes in ({}, {"h": 5, "w": 7}, {"c": 1}, {"c": 4}):
        for dtype in dtypes:
            given = torch.from_numpy(values(layout, value_range, **sizes)).to(dtype)
            planes, height, width = convert(given, layout)
            expected = to_frames(given, layout, value_range)
            assert len(planes) == len(expected)
            for frame, pixels in zip(planes, expected, strict=True):
                assert (height, width) == pixels.shape[:2]
                assert levels_apart(frame, to_i420(pixels)) <= 1
