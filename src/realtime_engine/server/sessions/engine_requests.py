"""A session's requests to the engine and their pending replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...core.clock import MONOTONIC
from ...core.errors import RealtimeEngineError
from ...core.messages import Attach, InboxMsg, RejectionCode, Reset
from ..problems import stalled


class RequestRefused(RealtimeEngineError):
    """The engine refused a request; the text is its reason.

    Attributes:
        code: the same for programs.
    """

    def __init__(self, reason: str, code: RejectionCode) -> None:
        super().__init__(reason)
        self.code = code


class SessionOver(RealtimeEngineError):
    """The session ended while a request was pending.

    Attributes:
        reason: why it ended; empty if unknown.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(f"the session has ended{': ' if reason else ''}{reason}")
        self.reason = reason


class EngineRequests:
    """Sends requests and resolves their replies. Belongs to one event loop.

    Args:
        put: puts a message into the engine's inbox.
        timeout_s: how long to wait for a reply, in seconds.

    Attributes:
        attached: the reply to the newest :class:`Attach`; ``None`` before it is sent.
        reset: the reply to the newest :class:`Reset`; ``None`` before it is sent.
        sent_ns: when the newest request was sent, in monotonic nanoseconds.
    """

    def __init__(self, put: Callable[[InboxMsg], None], timeout_s: float) -> None:
        self.attached: asyncio.Future[None] | None = None
        self.reset: asyncio.Future[None] | None = None
        self.sent_ns = MONOTONIC.now_ns()
        self._put = put
        self._timeout_s = timeout_s

    @property
    def is_pending(self) -> bool:
        """Whether an attach or a reset has no reply yet."""
        return any(reply is not None and not reply.done() for reply in (self.attached, self.reset))

    def send(self, message: InboxMsg) -> None:
        """Send a request; an attach or a reset gets a pending reply."""
        if isinstance(message, Attach):
            self.attached = asyncio.get_running_loop().create_future()
        elif isinstance(message, Reset):
            self.reset = asyncio.get_running_loop().create_future()
        self.sent_ns = MONOTONIC.now_ns()
        self._put(message)

    async def result(self, reply: asyncio.Future[None] | None) -> None:
        """Wait for a reply and raise the error in it.

        Raises:
            RequestRefused: the engine refused the request.
            SessionOver: the session ended.
            Problem: no reply came in time (503).
        """
        if reply is not None:
            await self.wait_done(reply)
            reply.result()

    async def wait_done(self, reply: asyncio.Future[None] | None) -> None:
        """Wait for a reply, whatever it is. A timeout does not withdraw the request.

        Raises:
            Problem: no reply came in time (503).
        """
        if reply is not None and not (await asyncio.wait({reply}, timeout=self._timeout_s))[0]:
            raise stalled()

    def cancel_all(self) -> None:
        """Resolve all pending replies with :class:`SessionOver`."""
        for reply in (self.attached, self.reset):
            resolve(reply, SessionOver())


def resolve(reply: asyncio.Future[None] | None, error: Exception | None) -> bool:
    """Resolve a pending reply, with ``error`` if there is one; false if none is pending."""
    if reply is None or reply.done():
        return False
    if error is None:
        reply.set_result(None)
    else:
        reply.set_exception(error)
        reply.exception()  # marks it as retrieved: the caller may have timed out
    return True
