"""A picture in the form that it came in, and in the other one once somebody asks."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from numpy.typing import NDArray

from .colour import from_i420, i420_shape, to_i420
from .copies import Copies, Copy


class Picture:
    """RGB pixels and I420 planes of one picture: given as one of them, the other is computed once, when first asked
    for, by whichever thread. Neither is written to.

    Args:
        pixels: (height, width, 3), uint8, RGB.
        copies: where a conversion is counted.
    """

    __slots__ = ("_copies", "_lock", "_pixels", "_planes", "height", "width")

    def __init__(self, pixels: NDArray[np.uint8], copies: Copies | None = None) -> None:
        self.height, self.width = int(pixels.shape[0]), int(pixels.shape[1])
        self._pixels: NDArray[np.uint8] | None = pixels
        self._planes: NDArray[np.uint8] | None = None
        self._copies = copies
        self._lock = threading.Lock()

    @classmethod
    def from_planes(cls, planes: NDArray[np.uint8], height: int, width: int, copies: Copies | None = None) -> Picture:
        """A picture of ``height`` x ``width`` out of its I420 planes, as of :func:`~.colour.to_i420`.

        Raises:
            ValueError: planes of another size.
        """
        if planes.shape != i420_shape(height, width) or planes.dtype != np.uint8:
            expected = i420_shape(height, width)
            raise ValueError(f"expected planes of shape {expected} and dtype uint8, got {planes.shape} {planes.dtype}")
        picture = cls.__new__(cls)
        picture.height, picture.width = height, width
        picture._pixels, picture._planes = None, planes
        picture._copies = copies
        picture._lock = threading.Lock()
        return picture

    @property
    def pixels(self) -> NDArray[np.uint8]:
        """(height, width, 3), uint8, RGB."""
        with self._lock:
            if self._pixels is None:
                assert self._planes is not None
                with _counted(self._copies, Copy.I420_TO_RGB, self.height * self.width * 3):
                    self._pixels = from_i420(self._planes)[: self.height, : self.width]
            return self._pixels

    def planes(self) -> NDArray[np.uint8]:
        """I420 as of :func:`~.colour.to_i420`: (rows * 3 / 2, columns), uint8, odd sides grown by one."""
        with self._lock:
            if self._planes is None:
                assert self._pixels is not None
                rows, columns = i420_shape(self.height, self.width)
                with _counted(self._copies, Copy.RGB_TO_I420, rows * columns):
                    self._planes = to_i420(self._pixels)
            return self._planes


def _counted(copies: Copies | None, copy: Copy, size: int) -> AbstractContextManager[None]:
    return nullcontext() if copies is None else copies.timed(copy, size)
