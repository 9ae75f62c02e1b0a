"""A picture that arrived."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ClientFrame:
    """A picture with its identity, which is ``None`` throughout where the server has not told it.

    Attributes:
        epoch: grows with each reset of the session.
        seq: the chunk's number in its session.
        index: place in the chunk, from 0.
        action_seq: ``seq`` of the newest controls message that shaped it, ``None`` before the first.
        received_ns: when it arrived (MJPEG) or was decoded (WebRTC), in monotonic nanoseconds.
        rtp: its RTP timestamp; ``None`` with MJPEG.
        decode: makes the pixels.
    """

    epoch: int | None
    seq: int | None
    index: int | None
    action_seq: int | None
    received_ns: int
    rtp: int | None
    decode: Callable[[], NDArray[np.uint8]] = field(repr=False)

    @cached_property
    def pixels(self) -> NDArray[np.uint8]:
        """(height, width, 3) uint8 RGB; decoded when it is first asked for."""
        return self.decode()
