"""What this package needs to know of the frames that it shows."""

from __future__ import annotations

from typing import Protocol

from ..frame import Frame


class FrameSubscription(Protocol):
    """One reader of a session's frames: an async iterator over the newest ones, which ends with the session."""

    def __aiter__(self) -> FrameSubscription: ...

    async def __anext__(self) -> Frame:
        """The newest frame that this reader has not had, waiting for one."""

    def close(self) -> None:
        """Read no more."""


class FrameSource(Protocol):
    """The frames of one session, already paced: each is meant to be shown at once."""

    @property
    def epoch(self) -> int:
        """The newest epoch: frames of older ones are not shown any more, not even encoded ones."""

    def subscribe(self) -> FrameSubscription:
        """A new reader, whose first frame is the newest one if there is one.

        Errors: a ``RealtimeEngineError`` when the session is over.
        """
