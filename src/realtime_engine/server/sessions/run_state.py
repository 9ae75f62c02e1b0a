"""Whether a session is stepped: derived from all the reasons that may hold it."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable


class PauseReason(enum.Enum):
    """A reason not to step a session."""

    PLAYER = "paused by its player"
    UNWATCHED = "nobody watches"
    AHEAD = "it runs ahead of its playback"


class RunState:
    """The reasons that hold one session; the engine is told when the sum of them changes.

    Args:
        tell: called with whether the session is to be stepped; each call is answered by :meth:`answered`.
    """

    def __init__(self, tell: Callable[[bool], None]) -> None:
        self._tell = tell
        self._holds: set[PauseReason] = set()
        self._unanswered = 0
        self._settled = asyncio.Event()
        self._settled.set()

    @property
    def active(self) -> bool:
        return not self._holds

    @property
    def is_settled(self) -> bool:
        """Whether the engine has done all that it was told."""
        return self._settled.is_set()

    def is_held(self, reason: PauseReason) -> bool:
        return reason in self._holds

    def hold(self, reason: PauseReason, held: bool) -> None:
        """PauseReason the session for ``reason``, or no longer."""
        before = self.active
        (self._holds.add if held else self._holds.discard)(reason)
        if self.active != before:
            self._unanswered += 1
            self._settled.clear()
            self._tell(self.active)

    def answered(self) -> None:
        """The engine has done what it was told."""
        self._unanswered = max(self._unanswered - 1, 0)
        if not self._unanswered:
            self._settled.set()

    async def settled(self) -> None:
        """Return when the engine has done all that it was told."""
        await self._settled.wait()

    def close(self) -> None:
        """No answer will come any more."""
        self._settled.set()
