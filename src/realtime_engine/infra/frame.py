"""A picture, its identity, and the frame of both."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.messages import NO_STAMPS, Stamps
from .color import from_i420, i420_shape, scale_i420, to_i420
from .copy_stats import Copy, CopyStats


class Picture:
    """One picture as RGB pixels and as I420 planes.

    It is made from one of the two; the other, and each scaled form, is computed once, on first use, on any thread. The
    arrays must not be written to.

    Args:
        pixels: (height, width, 3), uint8, RGB.
        copies: counts conversions.

    Attributes:
        height, width: in pixels.
    """

    __slots__ = ("_copies", "_lock", "_pixels", "_planes", "_scaled", "height", "width")

    def __init__(self, pixels: NDArray[np.uint8], copies: CopyStats | None = None) -> None:
        self.height, self.width = int(pixels.shape[0]), int(pixels.shape[1])
        self._pixels: NDArray[np.uint8] | None = pixels
        self._planes: NDArray[np.uint8] | None = None
        self._scaled: dict[float, NDArray[np.uint8]] = {}
        self._copies = copies
        self._lock = threading.Lock()

    @classmethod
    def from_planes(
        cls, planes: NDArray[np.uint8], height: int, width: int, copies: CopyStats | None = None
    ) -> Picture:
        """A picture of ``height`` x ``width`` pixels from its I420 planes, as by :func:`.color.to_i420`.

        Raises:
            ValueError: planes of another size.
        """
        if planes.shape != i420_shape(height, width) or planes.dtype != np.uint8:
            expected = i420_shape(height, width)
            raise ValueError(f"expected planes of shape {expected} and dtype uint8, got {planes.shape} {planes.dtype}")
        picture = cls.__new__(cls)
        picture.height, picture.width = height, width
        picture._pixels, picture._planes, picture._scaled = None, planes, {}
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

    def planes(self, factor: float = 1.0) -> NDArray[np.uint8]:
        """I420 planes as by :func:`.color.to_i420`: (rows * 3 / 2, columns), uint8, odd sides padded by one.

        Args:
            factor: scale, as for :func:`.color.scale_i420`.
        """
        with self._lock:
            if factor == 1.0:
                return self._full_planes()
            if factor not in self._scaled:
                full = self._full_planes()
                with _counted(self._copies, Copy.SCALE, round(full.size * factor**2)):
                    self._scaled[factor] = scale_i420(full, factor)
            return self._scaled[factor]

    def _full_planes(self) -> NDArray[np.uint8]:
        if self._planes is None:
            assert self._pixels is not None
            rows, columns = i420_shape(self.height, self.width)
            with _counted(self._copies, Copy.RGB_TO_I420, rows * columns):
                self._planes = to_i420(self._pixels)
        return self._planes


def _counted(copies: CopyStats | None, copy: Copy, size: int) -> AbstractContextManager[None]:
    return nullcontext() if copies is None else copies.timed(copy, size)


@dataclass(frozen=True, slots=True)
class ActionSeqs:
    """The action id of a session that several clients control.

    Attributes:
        by_slot: sequence number of each controller's newest message, by the slot of the controller.
    """

    by_slot: Mapping[int, int]


def slot_zero() -> int:
    """The slot of the client that has created the session."""
    return 0


class FrameId(NamedTuple):
    """The identity of a frame from the engine to the viewer.

    Attributes:
        session_id, epoch, seq: those of its :class:`~realtime_engine.core.messages.Chunk`.
        frame_index: position in the chunk, from 0.
        action_id: the newest action that shaped it.
        stamps: the chunk's, in monotonic nanoseconds.
    """

    session_id: str
    epoch: int
    seq: int
    frame_index: int
    action_id: Any = None
    stamps: Stamps = NO_STAMPS

    def seen_by(self, slot: int) -> FrameId:
        """The identity as it is sent to the controller in this slot: ``action_id`` is that of its own newest action.

        An action id of another type than :class:`ActionSeqs` belongs to slot 0.
        """
        if isinstance(self.action_id, ActionSeqs):
            return self._replace(action_id=self.action_id.by_slot.get(slot))
        return self if slot == 0 else self._replace(action_id=None)


class Frame:
    """A picture and its identity. Immutable.

    Args:
        picture: the picture, or its pixels: (height, width, 3), uint8, RGB, which must not be written to any more.
        id: the identity.
    """

    __slots__ = ("_id", "_picture")

    def __init__(self, picture: Picture | NDArray[np.uint8], id: FrameId) -> None:
        self._picture = picture if isinstance(picture, Picture) else Picture(picture)
        self._id = id

    def __repr__(self) -> str:
        return f"Frame({self.width}x{self.height}, {self.id})"

    @property
    def id(self) -> FrameId:
        """The identity."""
        return self._id

    @property
    def height(self) -> int:
        """Height in pixels."""
        return self._picture.height

    @property
    def width(self) -> int:
        """Width in pixels."""
        return self._picture.width

    @property
    def pixels(self) -> NDArray[np.uint8]:
        """(height, width, 3), uint8, RGB; see :class:`Picture`."""
        return self._picture.pixels

    def planes(self, factor: float = 1.0) -> NDArray[np.uint8]:
        """I420 planes at ``factor`` times the size; see :meth:`Picture.planes`. Encoders share them."""
        return self._picture.planes(factor)
