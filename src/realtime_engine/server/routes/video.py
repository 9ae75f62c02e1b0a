"""Video by WebSocket: packets of the shared H.264 stream, for a browser that decodes them itself."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, WebSocket

from ...infra.rate_limit import TokenBucket
from ...infra.webcodecs import BadMessageError, PacketFeed, parse_viewer_message
from ..session import DemoSession
from ..sockets import GOING_AWAY, POLICY_VIOLATION, TOO_SLOW, admit, say_goodbye, until_first

router = APIRouter()

_MESSAGES_PER_S, _BURST = 500.0, 100.0
_MOST_REASON = 100  # a close frame holds 123 bytes of it


@router.websocket("/sessions/{session_id}/video")
async def video(
    socket: WebSocket, session_id: str, viewer: Annotated[str | None, Query(min_length=1, max_length=64)] = None
) -> None:
    """Binary messages to the viewer, acknowledgements back. ``viewer`` is what it calls itself in ``presented``."""
    session = await admit(socket, session_id)
    if session is not None:
        with session.feeds.open(viewer) as feed:
            await VideoConnection(socket, session, feed).run()


class VideoConnection:
    """One accepted WebSocket, until either side or the session ends."""

    def __init__(self, socket: WebSocket, session: DemoSession, feed: PacketFeed) -> None:
        self._socket = socket
        self._session = session
        self._feed = feed
        self._bucket = TokenBucket(_MESSAGES_PER_S, _BURST)
        self._refusal: str | None = None

    async def run(self) -> None:
        await until_first(self._read(), self._write(), self._feed.run(), self._session.over.wait())
        await say_goodbye(self._close())

    async def _read(self) -> None:
        while (message := await self._socket.receive())["type"] != "websocket.disconnect":
            try:
                self._feed.hear(parse_viewer_message(message.get("text") or ""))
            except BadMessageError as error:
                self._refusal = str(error)
                return
            if delay_s := self._bucket.take(1):
                await asyncio.sleep(delay_s)

    async def _write(self) -> None:
        while True:
            await self._socket.send_bytes(await self._feed.next())

    async def _close(self) -> None:
        if self._refusal is not None:
            await self._socket.close(POLICY_VIOLATION, self._refusal[:_MOST_REASON])
        else:
            await self._socket.close(TOO_SLOW if self._feed.is_stuck else GOING_AWAY)
