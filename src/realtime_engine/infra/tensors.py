"""Converts GPU tensors to I420 on the GPU, so that 1.5 bytes per pixel are transferred instead of RGB."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .color import i420_shape

# BT.601, limited range (ITU-R BT.601-7, 2.5.3): Y, U and V of R, G and B in 0..255
_RED, _BLUE = 0.299, 0.114
_LUMA = np.array([_RED, 1 - _RED - _BLUE, _BLUE])
_YUV = np.stack(
    [
        219 / 255 * _LUMA,
        112 / 255 / (1 - _BLUE) * (np.array([0, 0, 1]) - _LUMA),
        112 / 255 / (1 - _RED) * (np.array([1, 0, 0]) - _LUMA),
    ]
)
_HALF = 0.5  # the cast to bytes truncates

_RANGES = {"uint8": (0.0, 255.0), "zero_one": (0.0, 1.0), "minus_one_one": (-1.0, 1.0)}


def torch_of(output: Any) -> Any | None:
    """The module torch if ``output`` is a CUDA tensor, otherwise ``None``. Never imports torch."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    if tensor is None or not isinstance(output, tensor) or output.device.type != "cuda":
        return None
    return torch


class TensorConverter:
    """Converts tensors of one device, on a high-priority stream. Not thread-safe.

    The number of operations is small, as launch overhead dominates for small frames.

    Args:
        torch: the module.
        device: device of the tensors.
        value_range: value range of the tensors: ``uint8``, ``zero_one`` or ``minus_one_one``.
    """

    def __init__(self, torch: Any, device: Any, value_range: str) -> None:
        self._torch = torch
        self._device = device
        low, high = _RANGES[value_range]
        scale = 255 / (high - low)
        # tensors, not scalars, so that half precision is promoted to float32
        self._low, self._high = self._constant([low]), self._constant([high])
        self._matrix = self._constant(_YUV[None] * scale)
        bias = np.array([16, 128, 128]) - low * scale * _YUV.sum(axis=1) + _HALF
        self._bias = self._constant(bias[None, :, None])
        self._stream = torch.cuda.Stream(device, priority=-1) if device.type == "cuda" else None

    def __call__(self, output: Any, layout: str) -> tuple[NDArray[np.uint8], int, int]:
        """Convert frames to host planes (frames, rows * 3 / 2, columns), uint8; also returns height and width.

        Values are clamped to the range; NaN becomes its low end.

        Args:
            output: validated output of a model, see :func:`~.frame_format.to_frames`.
            layout: layout of the output.
        """
        with self._on_stream():
            pictures = _to_tchw(output.detach(), layout)
            height, width = int(pictures.shape[2]), int(pictures.shape[3])
            planes = self._planes(self._floats(pictures, height, width))
            host = self._torch.empty(
                planes.shape, dtype=self._torch.uint8, pin_memory=self._stream is not None
            )  # torch caches pinned memory
            host.copy_(planes, non_blocking=True)
            if self._stream is not None:
                self._stream.synchronize()
        array: NDArray[np.uint8] = host.numpy()
        return array.reshape(-1, *i420_shape(height, width)), height, width

    def _on_stream(self) -> contextlib.AbstractContextManager[Any]:
        if self._stream is None:
            return contextlib.nullcontext()
        self._stream.wait_stream(self._torch.cuda.default_stream(self._device))  # may still compute the output
        return self._torch.cuda.stream(self._stream)  # type: ignore[no-any-return]

    def _floats(self, pictures: Any, height: int, width: int) -> Any:
        """Clamped frames (frames, 3, rows, columns), float32, padded to even sides."""
        torch = self._torch
        if pictures.dtype is torch.float64:
            pictures = pictures.float()
        floats = torch.fmin(torch.fmax(pictures, self._low), self._high)
        if height % 2 or width % 2:
            floats = torch.nn.functional.pad(floats, (0, width % 2, 0, height % 2), mode="replicate")
        return floats

    def _planes(self, floats: Any) -> Any:
        """Compute Y, U and V of every pixel in one product, which is faster than separate products after a gather."""
        torch = self._torch
        frames, _, rows, columns = floats.shape
        pixels = rows * columns
        matrix = self._matrix.expand(frames, 3, 3)
        yuv = torch.baddbmm(self._bias, matrix, floats.reshape(frames, 3, pixels)).reshape(frames, 3, rows, columns)
        planes = torch.empty((frames, pixels * 3 // 2), dtype=torch.uint8, device=self._device)
        planes[:, :pixels].reshape(frames, rows, columns).copy_(yuv[:, 0])
        planes[:, pixels:].reshape(frames, 2, rows // 2, columns // 2).copy_(yuv[:, 1:, ::2, ::2])
        return planes

    def _constant(self, values: Any) -> Any:
        return self._torch.tensor(np.asarray(values).tolist(), dtype=self._torch.float32, device=self._device)


def _to_tchw(tensor: Any, layout: str) -> Any:
    """Rearrange to (frames, 3, height, width), as a view unless there are several views."""
    axes = list(layout)
    if "b" in axes:
        tensor = tensor[0]
        axes.remove("b")
    if "t" not in axes:
        tensor = tensor[None]
        axes.insert(0, "t")
    if "v" in axes:
        tensor = tensor.permute(*(axes.index(axis) for axis in "tchvw"))
        frames, channels, height, views, width = tensor.shape
        tensor = tensor.reshape(frames, channels, height, views * width)
    else:
        tensor = tensor.permute(*(axes.index(axis) for axis in "tchw"))
    if tensor.shape[1] == 1:
        return tensor.expand(-1, 3, -1, -1)
    return tensor[:, :3]
