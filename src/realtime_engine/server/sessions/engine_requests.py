"""What one session asks of the engine, and the wait for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...core.clock import MONOTONIC
from ...core.errors import RealtimeEngineError
from ...core.messages import Attach, InboxMsg, Reset
from ..problems import stalled


class Refused(RealtimeEngineError):
    """The engine would not do it; the text is its reason."""


class SessionOver(RealtimeEngineError):
    """The session ended meanwhile; ``reason`` says why if that is known."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(f"the session is over{': ' if reason else ''}{reason}")
        self.reason = reason


class EngineRequests:
    """Belongs to one event loop.

    Args:
        put: takes a message for the engine.
        patience_s: seconds that an answer is waited for.

    Attributes:
        attached, reset: answers to the newest message of that kind; ``None`` before it.
        asked_ns: when the engine was last asked for something, on the monotonic clock.
    """

    def __init__(self, put: Callable[[InboxMsg], None], patience_s: float) -> None:
        self.attached: asyncio.Future[None] | None = None
        self.reset: asyncio.Future[None] | None = None
        self.asked_ns = MONOTONIC.now_ns()
        self._put = put
        self._patience_s = patience_s

    @property
    def is_waiting(self) -> bool:
        """Whether a place or a reset is not answered yet."""
        return any(answer is not None and not answer.done() for answer in (self.attached, self.reset))

    def ask(self, message: InboxMsg) -> None:
        if isinstance(message, Attach):
            self.attached = asyncio.get_running_loop().create_future()
        elif isinstance(message, Reset):
            self.reset = asyncio.get_running_loop().create_future()
        self.asked_ns = MONOTONIC.now_ns()
        self._put(message)

    async def answer(self, answer: asyncio.Future[None] | None) -> None:
        """Return when it is there. Errors: what the answer is; :class:`Problem` (503) without one."""
        if answer is not None:
            await self.settled(answer)
            answer.result()

    async def settled(self, answer: asyncio.Future[None] | None) -> None:
        """As :meth:`answer`, whatever it is; the engine goes on with it however long this waits."""
        if answer is not None and not (await asyncio.wait({answer}, timeout=self._patience_s))[0]:
            raise stalled()

    def give_up(self) -> None:
        """No answer will come any more."""
        for answer in (self.attached, self.reset):
            resolve(answer, SessionOver())


def resolve(future: asyncio.Future[None] | None, error: Exception | None) -> bool:
    """Let whoever waits go on; false when nobody does."""
    if future is None or future.done():
        return False
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
        future.exception()  # nobody may be waiting any more
    return True
