"""Video into a session by WebRTC, negotiated by WHIP (RFC 9725): who posts an offer becomes its publisher."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from ..problems import Problem
from ..publishers import Publishers
from .negotiation import FRAGMENT, SDP, answer, take_candidates
from .sessions import Owned, OwnedEvenIfOver

router = APIRouter(tags=["video"])


def publishers_of(session: Owned) -> Publishers:
    """Errors: :class:`Problem` (404) when the demo takes no video."""
    if session.publishers is None:
        raise Problem("no-video-input", "This demo takes no video: there is nothing to send a camera to.")
    return session.publishers


Taking = Annotated[Publishers, Depends(publishers_of)]


@router.options("/sessions/{session_id}/whip", include_in_schema=False)
async def options() -> Response:
    """What may be posted, for clients that ask first."""
    return Response(headers={"Allow": "OPTIONS, POST", "Accept-Post": SDP})


@router.post("/sessions/{session_id}/whip", status_code=201)
async def publish(request: Request, publishers: Taking) -> Response:
    """Answer an SDP offer and hang up on whoever sent before; ``Location`` is where the publisher ends it."""
    return await answer(request, publishers.accept)


@router.options("/sessions/{session_id}/whip/{publisher_id}", include_in_schema=False)
async def options_of_publisher() -> Response:
    """What may be done with a publisher."""
    return Response(headers={"Allow": "OPTIONS, PATCH, DELETE", "Accept-Patch": FRAGMENT})


@router.patch("/sessions/{session_id}/whip/{publisher_id}", status_code=204)
async def trickle(request: Request, publishers: Taking, publisher_id: str) -> Response:
    """Take candidates that the publisher found later (RFC 8840)."""
    return await take_candidates(request, publishers.get(publisher_id), publisher_id)


@router.delete("/sessions/{session_id}/whip/{publisher_id}")
async def end(session: OwnedEvenIfOver, publisher_id: str) -> Response:
    """End the connection; nothing happens if it has ended already."""
    publishers = session.publishers if session is not None else None
    peer = publishers.get(publisher_id) if publishers is not None else None
    if peer is not None:
        await peer.close()
    return Response(status_code=200)
