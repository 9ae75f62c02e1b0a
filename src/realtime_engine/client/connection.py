"""The way of pictures and messages between a client and its session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

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


UNREAD_FRAMES = 8


class ConnectionLost(Exception):
    """The link is over, closed by this side or lost; the text says why."""


class ServerConnection(Protocol):
    """One way. When it is over, everything that waits raises :class:`ConnectionLost`, what has arrived first."""

    async def open(self) -> None:
        """Connect. Errors: :class:`~realtime_engine.client.ClientError`."""

    def send(self, text: str) -> None:
        """Send a message, in order and without waiting. Errors: :class:`ConnectionLost`."""

    async def next_message(self) -> str:
        """The oldest unread message of the server."""

    async def next_frame(self) -> ClientFrame:
        """The oldest of at most 8 unread pictures."""

    async def close(self) -> None:
        """End it, in any state; may be called again."""
