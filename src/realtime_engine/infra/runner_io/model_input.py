"""Converts frames to the input of a model: the inverse of :func:`~..frame_format.to_frames`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extras import require
from ..frame_format import check_format

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def to_array(
    frames: NDArray[np.uint8],
    layout: str = "tchw",
    value_range: str = "minus_one_one",
    *,
    dtype: str = "float32",
    views: int = 1,
) -> NDArray[Any]:
    """Convert frames to a NumPy array of a layout and range of :func:`~..frame_format.to_frames`, its exact inverse.

    A value is p / 255 (``zero_one``) or p / 127.5 - 1 (``minus_one_one``), rounded once, half to even, to ``dtype``.
    With ``uint8``, the result is a view of ``frames``.

    Args:
        frames: (frames, height, width, 3), or (height, width, 3) for one frame, uint8 RGB.
        layout: one of ``hwc chw thwc tchw bcthw bvtchw``; those without ``t`` take one frame.
        value_range: one of ``uint8 zero_one minus_one_one``.
        dtype: ``float16 float32 float64``, for the floating-point ranges.
        views: for ``bvtchw``, the number of views side by side in each frame.

    Raises:
        ValueError: the arguments are invalid or incompatible.
    """
    if dtype == "bfloat16":
        raise ValueError("NumPy has no bfloat16: ask for float32, or use to_tensor()")
    pixels = _arranged(frames, layout, value_range, dtype, views)
    return pixels if value_range == "uint8" else np.take(_table(value_range, dtype), pixels)


def to_tensor(
    frames: NDArray[np.uint8],
    layout: str = "tchw",
    value_range: str = "minus_one_one",
    *,
    dtype: str = "float32",
    views: int = 1,
    device: Any = "cpu",
) -> Any:
    """Convert frames to a torch tensor; see :func:`to_array`. ``bfloat16`` is rounded by way of float32.

    Args:
        frames: see :func:`to_array`.
        layout: see :func:`to_array`.
        value_range: see :func:`to_array`.
        dtype: see :func:`to_array`; also ``bfloat16``.
        views: see :func:`to_array`.
        device: target device; other devices than the CPU need one copy.

    Raises:
        ValueError: the arguments are invalid or incompatible.
        MissingDependencyError: torch is missing.
    """
    torch = require("torch", "torch", "make tensors")
    arranged = _arranged(frames, layout, value_range, dtype, views)
    if value_range == "uint8":
        # the tensor shares the memory of the array, which must be writable
        tensor = torch.from_numpy(arranged if arranged.flags.writeable else arranged.copy())
    else:
        host = "float32" if dtype == "bfloat16" else dtype
        tensor = torch.from_numpy(np.take(_table(value_range, host), arranged)).to(getattr(torch, dtype))
    return tensor.to(device)


def _arranged(frames: NDArray[np.uint8], layout: str, value_range: str, dtype: str, views: int) -> NDArray[np.uint8]:
    """The bytes with the axes of the layout, as a view."""
    check_format(layout, value_range)
    if dtype not in _FLOATS:
        raise ValueError(f"unknown dtype {dtype!r}, expected one of {', '.join(_FLOATS)}")
    _check_frames(frames)
    stack = frames[np.newaxis] if frames.ndim == 3 else frames
    if "t" not in layout and len(stack) != 1:
        raise ValueError(f"layout {layout!r} holds one picture, got {len(stack)}: use one with t")
    times, height, width, channels = stack.shape
    if views < 1 or width % views or (views > 1 and "v" not in layout):
        raise ValueError(f"cannot split a width of {width} into {views} views in layout {layout!r}")
    axes = "bthvwc"
    parts = stack.reshape(1, times, height, views, width // views, channels)
    for axis in axes:
        if axis not in layout:
            parts = parts[(slice(None),) * axes.index(axis) + (0,)]
            axes = axes.replace(axis, "")
    shown: NDArray[np.uint8] = parts.transpose([axes.index(axis) for axis in layout])
    return shown


def _check_frames(frames: NDArray[np.uint8]) -> None:
    if frames.dtype != np.uint8 or frames.ndim not in (3, 4) or frames.shape[-1] != 3:
        raise ValueError(
            f"expected (frames, height, width, 3) or (height, width, 3) uint8, got {frames.shape} {frames.dtype}"
        )


def _table(value_range: str, dtype: str) -> NDArray[Any]:
    """The value of each of the 256 bytes."""
    levels = np.arange(256, dtype=np.float64)
    exact = levels / 255 if value_range == "zero_one" else (2 * levels - 255) / 255
    return exact.astype(dtype)
