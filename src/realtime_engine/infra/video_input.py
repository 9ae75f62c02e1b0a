"""Video that clients send into a session: what a demo declares, and the frames that its model sees.

Frames reach the model as part of the conditioning, which the engine snapshots with each message. An
:class:`InputFrame` cannot be changed (its pixels are read-only), so a snapshot shares it: a camera costs no copy a
message, however many messages come between two of its frames.
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
    """What a demo takes of a client's video.

    Attributes:
        mode: ``newest``: the model sees the newest frame alone. ``ring``: the newest ``capacity`` frames, in order.
        capacity: frames that a ring holds, 1 to 256.
        max_side: pixels of the longer side, 16 to 4096; larger frames are scaled down before the model sees them.

    Raises:
        ValueError: naming the field.
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
        """Frames that are held at most."""
        return 1 if self.mode == "newest" else self.capacity


@dataclass(frozen=True, slots=True, eq=False)
class InputFrame:
    """A picture that a client has sent.

    Attributes:
        pixels: (height, width, 3) uint8 RGB, read-only.
        seq: counts the frames that a session was given, from 0.
        publisher: which of the session's publishers sent it: 1 is the first.
        media_ns: when it was taken by the publisher's clock, in nanoseconds since that publisher's first frame (from
            the RTP timestamps).
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
    """What a session's model can see of its client's video at one moment.

    When a client stops sending, its last frame stays and ``live`` turns false.

    Attributes:
        frames: oldest first; one with the mode ``newest``, empty before the first.
        live: whether a publisher is connected.
    """

    frames: tuple[InputFrame, ...] = ()
    live: bool = False

    @property
    def newest(self) -> InputFrame | None:
        return self.frames[-1] if self.frames else None

    @property
    def age_s(self) -> float:
        """Seconds since the newest frame arrived, now; infinite without one."""
        newest = self.newest
        return float("inf") if newest is None else (MONOTONIC.now_ns() - newest.arrived_ns) / NS_PER_S

    def after(self, seq: int) -> tuple[InputFrame, ...]:
        """The frames with a ``seq`` greater than this, for a model that takes each once; begin with -1."""
        return tuple(frame for frame in self.frames if frame.seq > seq)

    def __deepcopy__(self, memo: dict[int, Any]) -> VideoWindow:
        return self


class VideoStatistics(NamedTuple):
    """Totals of one session: frames that the model could see, and decoded frames that it was not shown."""

    received: int
    dropped: int


class VideoBuffer:
    """The frames that one session was sent, the oldest of which go first. For one thread at a time.

    Args:
        declared: what the demo takes.
        on_change: called after each change of what :attr:`window` holds.
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
        return self._window

    def statistics(self) -> VideoStatistics:
        return VideoStatistics(self._received, self._dropped)

    def start_publisher(self) -> int:
        """A publisher sends from now on, and whoever sent before is not heard any more; returns its number."""
        self._publisher += 1
        self._change(live=True)
        return self._publisher

    def put(self, publisher: int, pixels: NDArray[np.uint8], *, media_ns: int, arrived_ns: int) -> None:
        """Take a frame; ``pixels`` belong to the buffer from now on. One of a replaced publisher is dropped."""
        if publisher != self._publisher or not self._window.live:
            self._dropped += 1
            return
        self._frames.append(InputFrame(pixels, self._received, publisher, media_ns, arrived_ns))
        self._received += 1
        self._change(live=True)

    def drop(self) -> None:
        """A decoded frame was left out because newer ones were there before it could be taken."""
        self._dropped += 1

    def end_publisher(self, publisher: int) -> None:
        """The publisher has gone; nothing happens for one that was replaced."""
        if publisher == self._publisher and self._window.live:
            self._change(live=False)

    def _change(self, *, live: bool) -> None:
        self._window = VideoWindow(tuple(self._frames), live)
        self._on_change()


def _check_integer(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} must be an integer from {least} to {most}, got {value!r}")
