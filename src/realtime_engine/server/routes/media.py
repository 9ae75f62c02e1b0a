"""Video without WebRTC: MJPEG, single JPEGs, and H.264 packets or JPEGs by WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, WebSocket
from fastapi.responses import Response
from starlette.types import Message, Send

from ...infra.mjpeg import HEADERS, format_frame_id
from ...infra.publisher import PublisherClosed
from ...infra.rate_limit import MESSAGES_PER_S, TokenBucket
from ...infra.webcodecs import BadMessageError, JpegFeed, PacketFeed, parse_viewer_message
from ..closing_stream import ClosingStream
from ..problems import Problem
from ..runtime import runtime_of
from ..security import bearer_or_query
from ..sessions.access import Member, Role
from ..sessions.session import DemoSession
from ..websockets import GOING_AWAY, POLICY_VIOLATION, TOO_SLOW, close_in_time, open_socket, run_until_first
from .sessions import member_of

logger = logging.getLogger(__name__)

router = APIRouter(tags=["video"])

_BURST = 100.0
_MAX_REASON = 100  # characters; a close frame has room for 123 bytes


def watched_session(request: Request, session_id: str) -> DemoSession:
    """The session of the path; an ``<img>`` element sends its token in the URL."""
    return runtime_of(request).session(session_id, bearer_or_query(request), Role.VIEWER)


Watched = Annotated[DemoSession, Depends(watched_session)]


class MjpegResponse(ClosingStream):
    """A stream of pictures that ends when its viewer leaves or reads nothing.

    Args:
        parts: the parts of the stream.
        timeout_s: seconds after which a viewer that reads nothing is disconnected.
    """

    def __init__(self, parts: AsyncGenerator[bytes, None], timeout_s: float = 10.0) -> None:
        super().__init__(parts, HEADERS)
        self._timeout_s = timeout_s

    async def stream_response(self, send: Send) -> None:
        """Send the parts, each within the timeout."""

        async def send_in_time(message: Message) -> None:
            await asyncio.wait_for(send(message), self._timeout_s)

        try:
            await super().stream_response(send_in_time)
        except asyncio.TimeoutError:
            logger.info("an MJPEG viewer read nothing for %g s and is disconnected", self._timeout_s)


@router.get("/sessions/{session_id}/stream.mjpeg", response_class=Response)
async def stream(request: Request, session: Watched) -> Response:
    """``multipart/x-mixed-replace``: the newest frame, whenever the viewer has read the previous one."""
    return MjpegResponse(_parts(session, member_of(request, session)))


async def _parts(session: DemoSession, member: Member) -> AsyncGenerator[bytes, None]:
    parts = session.media.mjpeg.parts(lambda: member.frame_slot)
    assert isinstance(parts, AsyncGenerator)
    with member.connection() as revoked:
        async with contextlib.aclosing(parts):
            async for part in parts:
                if revoked.is_set():
                    return
                yield part


@router.get("/sessions/{session_id}/frame.jpg", response_class=Response)
async def frame(request: Request, session: Watched) -> Response:
    """The newest frame, with its identity in ``X-Frame``; 404 before the first."""
    picture = await session.media.snapshot()
    if picture is None:
        raise Problem("no-frame", "The session has published no frame yet.")
    identity = picture.id.seen_by(member_of(request, session).frame_slot)
    headers = {"Cache-Control": "no-store", "X-Frame": format_frame_id(identity)}
    return Response(picture.data, headers=headers, media_type="image/jpeg")


@router.websocket("/sessions/{session_id}/video")
async def video(
    socket: WebSocket,
    session_id: str,
    viewer: Annotated[str | None, Query(min_length=1, max_length=64)] = None,
    codec: Literal["h264", "jpeg"] = "h264",
) -> None:
    """Binary packets to the viewer, acknowledgements back.

    ``viewer`` is what it calls itself in ``presented``; viewers of JPEGs have no name.
    """
    session = await open_socket(socket, session_id)
    if session is None:
        return
    member = member_of(socket, session)
    is_jpeg = codec == "jpeg"
    feeds = session.media.open_jpeg_feed(member) if is_jpeg else session.media.feeds.open(member, viewer)
    try:
        with member.connection() as revoked, feeds as feed:
            await VideoConnection(socket, session, feed, revoked).run()
    except PublisherClosed:
        await close_in_time(socket.close(GOING_AWAY))


class VideoConnection:
    """A WebSocket that carries video packets, until the client or the session ends.

    Args:
        socket: the accepted WebSocket.
        session: the session that is watched.
        feed: its packets.
        revoked: set when the client loses its access.
    """

    def __init__(
        self, socket: WebSocket, session: DemoSession, feed: PacketFeed | JpegFeed, revoked: asyncio.Event
    ) -> None:
        self._socket = socket
        self._session = session
        self._feed = feed
        self._revoked = revoked
        self._bucket = TokenBucket(MESSAGES_PER_S, _BURST)
        self._refusal: str | None = None

    async def run(self) -> None:
        """Send packets until the connection ends."""
        await run_until_first(
            self._read(), self._write(), self._feed.run(), self._session.ended.wait(), self._revoked.wait()
        )
        await close_in_time(self._close())

    async def _read(self) -> None:
        while (message := await self._socket.receive())["type"] != "websocket.disconnect":
            try:
                self._feed.on_message(parse_viewer_message(message.get("text") or ""))
            except BadMessageError as error:
                self._refusal = str(error)
                return
            if delay_s := self._bucket.reserve():
                await asyncio.sleep(delay_s)

    async def _write(self) -> None:
        with contextlib.suppress(PublisherClosed):
            while True:
                await self._socket.send_bytes(await self._feed.next())

    async def _close(self) -> None:
        if self._refusal is not None:
            await self._socket.close(POLICY_VIOLATION, self._refusal[:_MAX_REASON])
        else:
            await self._socket.close(TOO_SLOW if self._feed.is_stuck else GOING_AWAY)
