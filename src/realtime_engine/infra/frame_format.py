"""Tensor layouts and value ranges of model outputs, and their conversion to RGB pictures."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]

LAYOUTS = ("hwc", "chw", "thwc", "tchw", "bcthw", "bvtchw")
VALUE_RANGES = ("uint8", "zero_one", "minus_one_one")

_CHANNELS = (1, 3, 4)


def to_frames(output: Any, layout: str = "thwc", value_range: str = "uint8") -> list[Pixels]:
    """Convert one session's output of one step to pictures, in display order.

    Axes of a layout: ``b`` batch (must be 1: one session), ``v`` views (placed side by side, left to right), ``t``
    time, ``c`` channels, ``h`` height, ``w`` width. Gray (one channel) is repeated into R, G and B; alpha (a fourth
    channel) is dropped.

    Value ranges: ``uint8`` is used unchanged; ``zero_one`` and ``minus_one_one`` are floating point, scaled to 0..255,
    rounded half to even and clipped, with NaN as 0. Scaling is done in float32, for float64 in float64.

    Contiguous ``uint8`` pictures in ``hwc`` or ``thwc`` with three channels are not copied: the caller must not write
    to ``output`` any more.

    Args:
        output: array, nested sequence, or a tensor with ``detach()``, ``cpu()`` and ``numpy()``, which is copied to the
            host if needed; bfloat16 is converted by way of float32.
        layout: one of ``hwc chw thwc tchw bcthw bvtchw``.
        value_range: one of ``uint8 zero_one minus_one_one``.

    Returns:
        C-contiguous arrays of shape (height, width, 3), uint8, RGB; none for zero frames.

    Raises:
        ValueError: unknown layout or range, or an output whose rank, channels or dtype do not fit them.
    """
    check_format(layout, value_range)
    array = _as_array(output)
    _check_fit(
        _Given(array.shape, str(array.dtype), array.dtype == np.uint8, array.dtype.kind == "f"), layout, value_range
    )
    pixels = array if value_range == "uint8" else _quantize(array, value_range)
    return [_to_rgb(picture) for picture in _to_thwc(pixels, layout)]


def guess_format(output: Any) -> tuple[str, str]:
    """Determine the layout and value range of an output of unknown origin.

    The batch axis is recognized by its size, 1, and the channel axis by its size, 3 or 4; gray is not recognized.

    Raises:
        ValueError: more than one layout fits (for example with a width of 3), or none; or values other than uint8,
            whose range could be ``zero_one`` or ``minus_one_one``.
    """
    shape, dtype = tuple(output.shape), str(output.dtype).removeprefix("torch.")
    given = _Given(shape, dtype, dtype == "uint8", "float" in dtype)
    fitting = _fitting(shape)
    if len(fitting) != 1:
        found = f"both {' and '.join(fitting)} fit" if fitting else "none fits"
        raise given.mismatch(f"a shape of one layout among {', '.join(LAYOUTS)}, but {found}; declare the layout")
    if not given.is_bytes:
        raise given.mismatch(f"a value range beside the layout {fitting[0]!r}; {_hint(given)}")
    return fitting[0], "uint8"


def _fitting(shape: tuple[int, ...]) -> list[str]:
    return [layout for layout in LAYOUTS if _may_be(shape, layout)]


def _may_be(shape: tuple[int, ...], layout: str) -> bool:
    if len(shape) != len(layout):
        return False
    size = dict(zip(layout, shape, strict=True))
    return size["c"] in (3, 4) and size.get("b", 1) == 1 and 0 not in shape


def check_tensor(torch: Any, tensor: Any, layout: str, value_range: str) -> None:
    """Validate a tensor of ``torch``.

    Raises:
        ValueError: as :func:`to_frames`.
    """
    dtype = tensor.dtype
    name = str(dtype).removeprefix("torch.")
    _check_fit(_Given(tuple(tensor.shape), name, dtype is torch.uint8, dtype.is_floating_point), layout, value_range)


def check_format(layout: str, value_range: str) -> None:
    """Validate the names of a layout and a value range.

    Raises:
        ValueError: an unknown name.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"unknown layout {layout!r}, expected one of {', '.join(LAYOUTS)}")
    if value_range not in VALUE_RANGES:
        raise ValueError(f"unknown value range {value_range!r}, expected one of {', '.join(VALUE_RANGES)}")


def _as_array(output: Any) -> NDArray[Any]:
    if hasattr(output, "detach"):
        tensor = output.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16":  # which NumPy does not support
            tensor = tensor.float()
        return np.asarray(tensor.numpy())
    return np.asarray(output)


class _Given(NamedTuple):
    """Shape and dtype of an output."""

    shape: tuple[int, ...]
    dtype: str
    is_bytes: bool
    is_float: bool

    def mismatch(self, expected: str) -> ValueError:
        return ValueError(f"output of shape {self.shape} and dtype {self.dtype} does not fit: expected {expected}")


def _check_fit(given: _Given, layout: str, value_range: str) -> None:
    _check_shape(given, layout)
    if value_range == "uint8":
        if not given.is_bytes:
            raise given.mismatch(f"dtype uint8 for value range 'uint8'; {_hint(given)}")
    elif not given.is_float:
        raise given.mismatch(f"a floating-point dtype for value range {value_range!r}; {_hint(given)}")


def _check_shape(given: _Given, layout: str) -> None:
    if len(given.shape) != len(layout):
        raise given.mismatch(f"{len(layout)} axes for layout {layout!r}")
    size = dict(zip(layout, given.shape, strict=True))
    if size["c"] not in _CHANNELS:
        others = "".join(f"; is it {other!r}?" for other in _fitting(given.shape))
        raise given.mismatch(
            f"3 channels (or 1 gray, or 4 with alpha) on axis {layout.index('c')} of layout {layout!r}{others}"
        )
    if size.get("b", 1) != 1:
        raise given.mismatch(f"a batch of 1 in layout {layout!r}, as an output belongs to one session")
    if not size["h"] or not size["w"] or not size.get("v", 1):
        raise given.mismatch(f"at least one pixel in layout {layout!r}")


def _hint(given: _Given) -> str:
    if given.is_bytes:
        return "declare the range 'uint8'"
    if given.is_float:
        return "declare the range 'zero_one' or 'minus_one_one'"
    return "convert the output to uint8 or float32"


def _quantize(array: NDArray[Any], value_range: str) -> Pixels:
    scaled: NDArray[np.floating[Any]] = array.astype(np.float64 if array.dtype.itemsize > 4 else np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # overflows are clipped, NaN becomes 0
        if value_range == "minus_one_one":
            scaled += 1
            scaled *= 127.5
        else:
            scaled *= 255
    np.rint(scaled, out=scaled)
    np.clip(scaled, 0, 255, out=scaled)
    not_numbers = np.isnan(scaled)
    if not_numbers.any():
        scaled[not_numbers] = 0
    return scaled.astype(np.uint8)


def _to_thwc(pixels: Pixels, layout: str) -> Pixels:
    if "v" in layout:
        _, views, times, channels, height, width = pixels.shape
        joined: Pixels = pixels[0].transpose(1, 3, 0, 4, 2).reshape(times, height, views * width, channels)
        return joined
    if "b" in layout:
        pixels, layout = pixels[0], layout[1:]
    if "t" not in layout:
        pixels, layout = pixels[np.newaxis], "t" + layout
    shown: Pixels = pixels.transpose([layout.index(axis) for axis in "thwc"])
    return shown


def _to_rgb(picture: Pixels) -> Pixels:
    channels = picture.shape[2]
    if channels == 3 and picture.flags.c_contiguous:
        return picture
    rgb = np.empty((*picture.shape[:2], 3), dtype=np.uint8)
    for channel in range(3):  # takes a third of the time of one strided copy
        rgb[..., channel] = picture[..., channel if channels > 1 else 0]
    return rgb
