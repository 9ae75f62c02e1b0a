"""Counts the copies and conversions between a model's output and an encoder."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Copy(str, enum.Enum):
    """A kind of copy. The value is its name in metrics."""

    DEVICE_TO_HOST = "device_to_host"
    """I420 planes from a GPU; the time includes the conversion there."""
    LAYOUT = "layout"
    """Conversion of axes, channels or value range on the host."""
    RGB_TO_I420 = "rgb_to_i420"
    I420_TO_RGB = "i420_to_rgb"
    SCALE = "scale"
    ENCODER_INPUT = "encoder_input"
    """Into a buffer of the encoder, where it cannot use ours."""


class Tally(NamedTuple):
    """Totals of one kind: count, bytes written, and nanoseconds."""

    times: int = 0
    bytes: int = 0
    ns: int = 0


class CopyStats:
    """Totals of all kinds of copies. Thread-safe."""

    def __init__(self) -> None:
        self._tallies = dict.fromkeys(Copy, Tally())
        self._lock = threading.Lock()

    def add(self, copy: Copy, size: int, ns: int) -> None:
        """Count a copy of ``size`` bytes that took ``ns`` nanoseconds."""
        with self._lock:
            before = self._tallies[copy]
            self._tallies[copy] = Tally(before.times + 1, before.bytes + size, before.ns + ns)

    @contextmanager
    def timed(self, copy: Copy, size: int) -> Iterator[None]:
        """Time the block as a copy of ``size`` bytes; not counted if it raises."""
        begin_ns = time.perf_counter_ns()
        yield
        self.add(copy, size, time.perf_counter_ns() - begin_ns)

    def snapshot(self) -> dict[Copy, Tally]:
        """The totals so far, by kind."""
        with self._lock:
            return dict(self._tallies)
