"""Video as JPEGs: a stream of them, and the newest one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ...infra.mjpeg import HEADERS, format_frame_id
from ..problems import Problem
from ..runtime import runtime_of
from ..security import bearer_or_query
from ..session import DemoSession

router = APIRouter(tags=["video"])


class MjpegResponse(StreamingResponse):
    """Leaves the session when its viewer does, also in the middle of a picture."""

    def __init__(self, parts: AsyncGenerator[bytes, None]) -> None:
        super().__init__(parts, headers=HEADERS)
        self._parts = parts

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
