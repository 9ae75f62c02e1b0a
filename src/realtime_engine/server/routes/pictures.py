"""Video as JPEGs: a stream of them, and the newest one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from ...infra.mjpeg import HEADERS, format_frame_id
from ..problems import Problem
from ..runtime import runtime_of
from ..security import bearer_or_query
from ..session import DemoSession

logger = logging.getLogger(__name__)

router = APIRouter(tags=["video"])


class MjpegResponse(StreamingResponse):
    """Leaves the session when its viewer does, also in the middle of a picture.

    Args:
        patience_s: seconds after which a viewer that takes nothing has gone.
    """

    def __init__(self, parts: AsyncGenerator[bytes, None], patience_s: float = 10.0) -> None:
        super().__init__(parts, headers=HEADERS)
        self._parts = parts
        self._patience_s = patience_s

    async def stream_response(self, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            await asyncio.wait_for(send(message), self._patience_s)

        try:
            await super().stream_response(send_in_time)
        except asyncio.TimeoutError:
            logger.info("a viewer by MJPEG took nothing for %g s", self._patience_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._parts.aclose()


def watched_session(request: Request, session_id: str) -> DemoSession:
    """The session of the address; an ``<img>`` shows its token in the address."""
    return runtime_of(request).session(session_id, bearer_or_query(request))


Watched = Annotated[DemoSession, Depends(watched_session)]


@router.get("/sessions/{session_id}/stream.mjpeg", response_class=Response)
async def stream(session: Watched) -> Response:
    """``multipart/x-mixed-replace``: the newest frame whenever the viewer has taken the last one."""
    parts = session.mjpeg.parts()
    assert isinstance(parts, AsyncGenerator)
    return MjpegResponse(parts)


@router.get("/sessions/{session_id}/frame.jpg", response_class=Response)
async def frame(session: Watched) -> Response:
    """The newest frame, its identity in ``X-Frame``; 404 before the first."""
    picture = await session.picture()
    if picture is None:
        raise Problem("no-frame", "The session has shown no frame yet.")
    headers = {"Cache-Control": "no-store", "X-Frame": format_frame_id(picture.id)}
    return Response(picture.data, headers=headers, media_type="image/jpeg")
