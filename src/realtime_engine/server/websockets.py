"""What the WebSockets of a session share: the handshake, their tasks and the closing handshake."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from .problems import Problem
from .runtime import runtime_of
from .security import bearer_or_query, refuse_handshake
from .sessions.access import Role
from .sessions.session import DemoSession

logger = logging.getLogger(__name__)

GOING_AWAY, POLICY_VIOLATION, TOO_SLOW = 1001, 1008, 1013  # RFC 6455, section 7.4.1, and its registry

_CLOSE_TIMEOUT_S = 1.0


async def open_socket(socket: WebSocket, session_id: str) -> DemoSession | None:
    """Accept the handshake of a client of the session and return it; refuse any other and return ``None``.

    The origin is not checked: the token in the address is the only credential, which no page of another site has. A
    proxy may replace ``Host``, and browsers say nothing else about the origin of their own page in a handshake.
    """
    runtime = runtime_of(socket)
    try:
        session = runtime.session(session_id, bearer_or_query(socket), Role.VIEWER)
    except Problem as problem:
        await refuse_handshake(socket, problem)
        return None
    await socket.accept()
    return session


async def run_until_first(*parts: Coroutine[Any, Any, object]) -> None:
    """Run the parts of a connection until one returns, and cancel the others. Failures are logged."""
    tasks = {asyncio.create_task(part) for part in parts}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception) and not isinstance(outcome, WebSocketDisconnect):
                logger.error("a WebSocket connection failed", exc_info=outcome)


async def close_in_time(closing: Coroutine[Any, Any, None]) -> None:
    """Run the end of a connection for at most a second; the client may have disconnected."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError, asyncio.TimeoutError):
        await asyncio.wait_for(closing, _CLOSE_TIMEOUT_S)
