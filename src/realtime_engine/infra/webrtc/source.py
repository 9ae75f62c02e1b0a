"""What this package needs to know of the frames that it shows."""

from __future__ import annotations

from typing import Protocol

from ..frame import Frame


class FrameSubscription(Protocol):
    """One reader of a session's frames."""

    async def next(self) -> Frame | None:
        """The newest frame that this reader has not had, waiting for one; ``None`` once the source is closed."""

    def close(self) -> None:
        """Read no more."""


class FrameSource(Protocol):
    """The frames of one session, already paced: each is meant to be shown at once."""

    def subscribe(self) -> FrameSubscription: ...
