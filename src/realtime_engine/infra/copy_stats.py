"""What is copied and converted between a model's output and an encoder."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Copy(str, enum.Enum):
    """The ways in which pixels are written again. The value is the name in metrics."""

    DEVICE_TO_HOST = "device_to_host"
    """Planes off a GPU; the time includes making them there."""
    LAYOUT = "layout"
    """Axes, channels or value range on the host."""
    RGB_TO_I420 = "rgb_to_i420"
    I420_TO_RGB = "i420_to_rgb"
    SCALE = "scale"
    ENCODER_INPUT = "encoder_input"
    """Into a buffer of the encoder's own, where it cannot read ours."""


class Tally(NamedTuple):
    """Totals of one way: how often, how many bytes were written, and how long it took in nanoseconds."""

    times: int = 0
    bytes: int = 0
    ns: int = 0


class CopyStats:
    """Counts copies. May be used from any thread."""

    def __init__(self) -> None:
        self._tallies = dict.fromkeys(Copy, Tally())
        self._lock = threading.Lock()

    def add(self, copy: Copy, size: int, ns: int) -> None:
        """Count one of ``size`` bytes that took ``ns`` nanoseconds."""
        with self._lock:
            before = self._tallies[copy]
            self._tallies[copy] = Tally(before.times + 1, before.bytes + size, before.ns + ns)

    @contextmanager
    def timed(self, copy: Copy, size: int) -> Iterator[None]:
        """Count what is done within as one of ``size`` bytes; not if it fails."""
        begin_ns = time.perf_counter_ns()
        yield
        self.add(copy, size, time.perf_counter_ns() - begin_ns)

    def snapshot(self) -> dict[Copy, Tally]:
        """The totals so far, of every way."""
        with self._lock:
            return dict(self._tallies)
