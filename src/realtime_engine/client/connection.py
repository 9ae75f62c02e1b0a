"""The contract of a client's connection: frames and messages of one session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ClientFrame:
    """A received frame. Its identity (the first four attributes) is ``None`` if the server did not send it.

    Attributes:
        epoch: epoch of the session, incremented by each reset.
        seq: number of the chunk in its session.
        index: position in the chunk, from 0.
        action_seq: ``seq`` of the newest controls message applied to the frame; ``None`` before the first.
        received_ns: time of arrival (MJPEG) or decoding (WebRTC), in monotonic nanoseconds.
        rtp: RTP timestamp; ``None`` with MJPEG.
        decode: returns the pixels.
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
        """Pixels (height, width, 3), uint8, RGB; decoded at the first access."""
        return self.decode()


UNREAD_FRAMES = 8


class ConnectionLost(Exception):
    """The connection was closed or lost; the message says why."""


class ServerConnection(Protocol):
    """A connection to one session. After it ends, waiting methods first return buffered items, then raise."""

    async def open(self) -> None:
        """Connect.

        Raises:
            ClientError: the connection failed.
        """

    def send(self, text: str) -> None:
        """Queue a message. Messages are sent in order.

        Raises:
            ConnectionLost: the connection has ended.
        """

    async def next_message(self) -> str:
        """Wait for the oldest unread message of the server.

        Raises:
            ConnectionLost: the connection has ended.
        """

    async def next_frame(self) -> ClientFrame:
        """Wait for the oldest of at most 8 unread frames.

        Raises:
            ConnectionLost: the connection has ended.
        """

    async def close(self) -> None:
        """Close the connection. Idempotent, and valid in any state."""
