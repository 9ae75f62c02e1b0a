"""Whether the engine steps a session: the reasons for which it is paused, and whether its rollout has ended."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable

from ..problems import stalled


class PauseReason(enum.Enum):
    """Why a session is paused."""

    CLIENT = "a client paused it"
    UNWATCHED = "it has no viewer"
    AHEAD = "the engine runs ahead of playback"


class RunState:
    """The pause reasons of one session. The engine is informed when the first one appears or the last one goes.

    Args:
        send: sends the engine whether to step the session; :meth:`on_reply` follows each call.
        timeout_s: how long to wait for replies, in seconds.

    Attributes:
        finished: whether the rollout of this epoch has ended.
    """

    def __init__(self, send: Callable[[bool], None], timeout_s: float) -> None:
        self.finished = False
        self._send = send
        self._timeout_s = timeout_s
        self._reasons: set[PauseReason] = set()
        self._pending = 0
        self._settled = asyncio.Event()
        self._settled.set()

    @property
    def active(self) -> bool:
        """Whether there is no reason to pause."""
        return not self._reasons

    @property
    def is_stepped(self) -> bool:
        """Whether the engine should produce chunks."""
        return self.active and not self.finished

    @property
    def is_settled(self) -> bool:
        """Whether the engine has replied to everything sent to it."""
        return self._settled.is_set()

    @property
    def name(self) -> str:
        """``running``, ``paused`` or ``finished``."""
        if self.finished:
            return "finished"
        return "running" if self.active else "paused"

    def is_paused_by(self, reason: PauseReason) -> bool:
        """Whether this is one of the reasons."""
        return reason in self._reasons

    def set_paused(self, reason: PauseReason, paused: bool) -> None:
        """Add a reason, or remove it."""
        before = self.active
        (self._reasons.add if paused else self._reasons.discard)(reason)
        if self.active != before:
            self._pending += 1
            self._settled.clear()
            self._send(self.active)

    def on_reply(self) -> None:
        """The engine has replied to one message."""
        self._pending = max(self._pending - 1, 0)
        if not self._pending:
            self._settled.set()

    async def wait_settled(self) -> None:
        """Wait until the engine has replied to everything sent to it, or the session has ended.

        Raises:
            Problem: it does not reply in time (503).
        """
        try:
            await asyncio.wait_for(self._settled.wait(), self._timeout_s)
        except asyncio.TimeoutError:
            raise stalled() from None

    def close(self) -> None:
        """Release those who wait: no reply follows."""
        self._settled.set()
