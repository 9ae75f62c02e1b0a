"""Converts model outputs on any device to pictures."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from .copy_stats import Copy, CopyStats
from .frame import Picture
from .frame_format import check_format, check_tensor, to_frames
from .tensors import TensorConverter, torch_of


class Converter:
    """Converts the outputs of one session. One call at a time, from any thread.

    A tensor on a CUDA device is converted to I420 there. Everything else is converted to RGB by :func:`.to_frames`.

    Args:
        layout: as for :func:`.to_frames`.
        value_range: as for :func:`.to_frames`.
        copies: counts copies.

    Raises:
        ValueError: an unknown layout or range.
    """

    def __init__(self, layout: str = "thwc", value_range: str = "uint8", copies: CopyStats | None = None) -> None:
        check_format(layout, value_range)
        self._layout = layout
        self._value_range = value_range
        self._copies = copies
        self._on_device: tuple[Any, TensorConverter] | None = None

    def __call__(self, output: Any) -> list[Picture]:
        """The pictures of one output, in display order.

        Raises:
            ValueError: as :func:`.to_frames`.
        """
        torch = torch_of(output)
        if torch is not None:
            return self._from_device(torch, output)
        begin_ns = time.perf_counter_ns()
        frames = to_frames(output, self._layout, self._value_range)
        if not self.is_free(output):
            self._count(Copy.LAYOUT, sum(pixels.nbytes for pixels in frames), begin_ns)
        return [Picture(pixels, self._copies) for pixels in frames]

    def is_free(self, output: Any) -> bool:
        """Whether an output is converted without a copy."""
        return (
            self._layout in ("hwc", "thwc")
            and isinstance(output, np.ndarray)
            and output.dtype == np.uint8
            and output.flags.c_contiguous
            and output.shape[-1:] == (3,)
        )

    def _from_device(self, torch: Any, tensor: Any) -> list[Picture]:
        check_tensor(torch, tensor, self._layout, self._value_range)
        if not tensor.numel():
            return []
        begin_ns = time.perf_counter_ns()
        convert = self._tensor_converter(torch, tensor.device)
        planes, height, width = convert(tensor, self._layout)
        self._count(Copy.DEVICE_TO_HOST, planes.nbytes, begin_ns)
        return [Picture.from_planes(frame, height, width, self._copies) for frame in planes]

    def _tensor_converter(self, torch: Any, device: Any) -> TensorConverter:
        if self._on_device is None or self._on_device[0] != device:
            self._on_device = device, TensorConverter(torch, device, self._value_range)
        return self._on_device[1]

    def _count(self, copy: Copy, size: int, begin_ns: int) -> None:
        if self._copies is not None:
            self._copies.add(copy, size, time.perf_counter_ns() - begin_ns)
