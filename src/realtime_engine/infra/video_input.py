"""Video that clients send into a session: what a demo declares, and the frames that its model sees.

Frames reach the model as part of the conditioning, of which the engine takes a snapshot with each message. An
:class:`InputFrame` is immutable (its pixels are read-only), so snapshots share it without a copy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ..core.clock import MONOTONIC, NS_PER_S

Mode: TypeAlias = Literal["newest", "ring"]

_MAX_CAPACITY = 256
_MIN_SIDE, _MAX_SIDE = 16, 4096


@dataclass(frozen=True)
class VideoInput:
    """What a demo accepts of a client's video.

    Attributes:
        mode: ``newest``: the model sees the newest frame alone. ``ring``: the newest ``capacity`` frames, in order.
        capacity: size of the ring in frames, 1 to 256.
        max_side: longer side in pixels, 16 to 4096; larger frames are scaled down.

    Raises:
        ValueError: a field out of range.
    """

    mode: Mode = "newest"
    capacity: int = 8
    max_side: int = 640

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ValueError(f"mode must be one of {', '.join(get_args(Mode))}, got {self.mode!r}")
        _check_integer("capacity", self.capacity, 1, _MAX_CAPACITY)
        _check_integer("max_side", self.max_side, _MIN_SIDE, _MAX_SIDE)

    @property
    def max_frames(self) -> int:
        """The maximum number of frames in the buffer."""
        return 1 if self.mode == "newest" else self.capacity


@dataclass(frozen=True, slots=True, eq=False)
class InputFrame:
    """A picture sent by a client.

    Attributes:
        pixels: (height, width, 3) uint8 RGB, read-only.
        seq: number of the frame in its session, from 0.
        publisher: number of the publisher in its session, from 1.
        media_ns: capture time in nanoseconds since the publisher's first frame, by the publisher's clock (from RTP
            timestamps).
        arrived_ns: when it was decoded, in monotonic nanoseconds of this machine.
    """

    pixels: NDArray[np.uint8]
    seq: int
    publisher: int
    media_ns: int
    arrived_ns: int

    def __post_init__(self) -> None:
        self.pixels.flags.writeable = False

    def __deepcopy__(self, memo: dict[int, Any]) -> InputFrame:
        return self


@dataclass(frozen=True, slots=True, eq=False)
class VideoWindow:
    """What a session's model sees of its client's video at one moment.

    When a client stops sending, its last frame stays and ``live`` becomes false.

    Attributes:
        frames: oldest first; one with the mode ``newest``, empty before the first.
        live: whether a publisher is connected.
    """

    frames: tuple[InputFrame, ...] = ()
    live: bool = False

    @property
    def newest(self) -> InputFrame | None:
        """The newest frame; ``None`` before the first."""
        return self.frames[-1] if self.frames else None

    @property
    def age_s(self) -> float:
        """Seconds since the newest frame arrived; infinite without one."""
        newest = self.newest
        return float("inf") if newest is None else (MONOTONIC.now_ns() - newest.arrived_ns) / NS_PER_S

    def after(self, seq: int) -> tuple[InputFrame, ...]:
        """The frames with a greater ``seq``, for a model that uses each once; start with -1."""
        return tuple(frame for frame in self.frames if frame.seq > seq)

    def __deepcopy__(self, memo: dict[int, Any]) -> VideoWindow:
        return self


class VideoStatistics(NamedTuple):
    """Totals of one session: frames that the model could see, and decoded frames that were dropped."""

    received: int
    dropped: int


class VideoBuffer:
    """The newest video frames of one session. Not thread-safe.

    Args:
        declared: what the demo accepts.
        on_change: called after each change of :attr:`window`.

    Attributes:
        declared: see above.
    """

    def __init__(self, declared: VideoInput, on_change: Callable[[], None]) -> None:
        self.declared = declared
        self._on_change = on_change
        self._frames: deque[InputFrame] = deque(maxlen=declared.max_frames)
        self._publisher = 0
        self._received = 0
        self._dropped = 0
        self._window = VideoWindow()

    @property
    def window(self) -> VideoWindow:
        """What the model sees now."""
        return self._window

    def statistics(self) -> VideoStatistics:
        """The totals so far."""
        return VideoStatistics(self._received, self._dropped)

    def start_publisher(self) -> int:
        """Start a publisher, which replaces the one before; returns its number."""
        self._publisher += 1
        self._change(live=True)
        return self._publisher

    def put(self, publisher: int, pixels: NDArray[np.uint8], *, media_ns: int, arrived_ns: int) -> None:
        """Add a frame and take over ``pixels``; a frame of a replaced publisher is dropped."""
        if publisher != self._publisher or not self._window.live:
            self._dropped += 1
            return
        self._frames.append(InputFrame(pixels, self._received, publisher, media_ns, arrived_ns))
        self._received += 1
        self._change(live=True)

    def drop(self) -> None:
        """Count a decoded frame that was dropped because newer ones had arrived."""
        self._dropped += 1

    def end_publisher(self, publisher: int) -> None:
        """End a publisher; no effect for one that was replaced."""
        if publisher == self._publisher and self._window.live:
            self._change(live=False)

    def _change(self, *, live: bool) -> None:
        self._window = VideoWindow(tuple(self._frames), live)
        self._on_change()


def _check_integer(name: str, value: object, minimum: int, maximum: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        raise ValueError(f"{name} must be an integer from {minimum} to {maximum}, got {value!r}")
