"""What the WebSockets of a session have in common: who is let in, and how they come to an end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from .problems import Problem
from .runtime import runtime_of
from .security import bearer_or_query, is_allowed_origin, refuse_handshake
from .sessions.session import DemoSession

logger = logging.getLogger(__name__)

GOING_AWAY, POLICY_VIOLATION, TOO_SLOW = 1001, 1008, 1013  # RFC 6455, section 7.4.1, and its registry

_FAREWELL_S = 1.0


async def admit(socket: WebSocket, session_id: str) -> DemoSession | None:
    """Accept the handshake of the session's owner; anybody else is refused, and ``None`` comes back."""
    runtime = runtime_of(socket)
    if not is_allowed_origin(socket, runtime.config.allowed_origins):
        origin = socket.headers.get("origin")
        await refuse_handshake(socket, Problem("origin", f"{origin} is not among the allowed origins"))
        return None
    try:
        session = runtime.session(session_id, bearer_or_query(socket))
    except Problem as problem:
        await refuse_handshake(socket, problem)
        return None
    await socket.accept()
    return session


async def until_first(*parts: Coroutine[Any, Any, object]) -> None:
    """Run the parts of a connection until one of them returns, and end the others; a failure is logged."""
    tasks = {asyncio.create_task(part) for part in parts}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception) and not isinstance(outcome, WebSocketDisconnect):
                logger.error("a WebSocket connection failed", exc_info=outcome)


async def say_goodbye(farewell: Coroutine[Any, Any, None]) -> None:
    """Run the last words of a connection, for a second at most; the client may have gone already."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError, asyncio.TimeoutError):
        await asyncio.wait_for(farewell, _FAREWELL_S)
