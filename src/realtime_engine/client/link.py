"""The way of pictures and messages between a client and its session."""

from __future__ import annotations

from typing import Protocol

from .frame import ClientFrame

UNREAD_FRAMES = 8


class LinkLost(Exception):
    """The link is over, closed by this side or lost; the text says why."""


class Link(Protocol):
    """One way. When it is over, everything that waits raises :class:`LinkLost`, what has arrived first."""

    async def open(self) -> None:
        """Connect. Errors: :class:`~realtime_engine.client.ClientError`."""

    def send(self, text: str) -> None:
        """Send a message, in order and without waiting. Errors: :class:`LinkLost`."""

    async def next_message(self) -> str:
        """The oldest unread message of the server."""

    async def next_frame(self) -> ClientFrame:
        """The oldest of at most 8 unread pictures."""

    async def close(self) -> None:
        """End it, in any state; may be called again."""
