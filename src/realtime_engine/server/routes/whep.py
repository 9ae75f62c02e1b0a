"""Video by WebRTC, negotiated by WHEP (draft-ietf-wish-whep): who posts an offer becomes a viewer with an address."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from .negotiation import answer, take_candidates
from .sessions import Owned, OwnedEvenIfOver

router = APIRouter(tags=["video"])


@router.post("/sessions/{session_id}/whep", status_code=201)
async def offer(request: Request, session: Owned) -> Response:
    """Answer an SDP offer; ``Location`` is where candidates go and where the viewer hangs up."""
    return await answer(request, session.viewers.accept)


@router.patch("/sessions/{session_id}/whep/{viewer_id}", status_code=204)
async def trickle(request: Request, session: Owned, viewer_id: str) -> Response:
    """Take candidates that the viewer found later (RFC 8840)."""
    return await take_candidates(request, session.viewers.get(viewer_id), viewer_id)


@router.delete("/sessions/{session_id}/whep/{viewer_id}", status_code=204)
async def hang_up(session: OwnedEvenIfOver, viewer_id: str) -> Response:
    """End the connection; nothing happens if it has ended already."""
    peer = session.viewers.get(viewer_id) if session is not None else None
    if peer is not None:
        await peer.close()
    return Response(status_code=204)
