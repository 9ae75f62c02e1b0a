"""Video by WebRTC, negotiated by WHEP (draft-ietf-wish-whep): who posts an offer becomes a viewer with an address."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ...infra.webrtc import BadCandidateError, BadOfferError, NoCandidatesError, PeerClosedError, ViewerPeer
from ..bodies import read_text
from ..config import ServerConfig
from ..problems import Problem
from ..runtime import runtime_of
from ..session import DemoSession
from ..sessions import over
from ..viewers import TooManyViewers
from .sessions import Owned, OwnedEvenIfOver

router = APIRouter(tags=["video"])

_MOST_SDP = 256 * 1024


@router.post("/sessions/{session_id}/whep", status_code=201)
async def offer(request: Request, session: Owned) -> Response:
    """Answer an SDP offer; ``Location`` is where candidates go and where the viewer hangs up."""
    sdp = await read_text(request, _MOST_SDP, "application/sdp")
    try:
        viewer_id, peer = await session.viewers.accept(sdp)
    except BadOfferError as error:
        raise Problem("bad-offer", str(error)) from error
    except (NoCandidatesError, TooManyViewers) as error:
        raise Problem("no-webrtc", str(error), headers={"Retry-After": "5"}) from error
    except PeerClosedError:
        raise over() from None
    headers = {"Location": f"{request.url.path}/{viewer_id}", "ETag": _etag(viewer_id), "Cache-Control": "no-store"}
    response = Response(peer.answer, 201, headers, media_type="application/sdp")
    for link in ice_links(runtime_of(request).config, viewer_id):
        response.headers.append("Link", link)
    return response


@router.patch("/sessions/{session_id}/whep/{viewer_id}", status_code=204)
async def trickle(request: Request, session: Owned, viewer_id: str) -> Response:
    """Take candidates that the viewer found later (RFC 8840)."""
    peer = _viewer(session, viewer_id)
    expected = request.headers.get("if-match", "*")
    if expected not in ("*", _etag(viewer_id)):
        raise Problem("precondition", f"If-Match is {expected}, this connection is {_etag(viewer_id)}")
    fragment = await read_text(request, _MOST_SDP, "application/trickle-ice-sdpfrag")
    try:
        await peer.add_candidate(fragment)
    except BadCandidateError as error:
        raise Problem("bad-candidate", str(error)) from error
    except PeerClosedError:
        raise _no_viewer(viewer_id) from None
    return Response(status_code=204)


@router.delete("/sessions/{session_id}/whep/{viewer_id}", status_code=204)
async def hang_up(session: OwnedEvenIfOver, viewer_id: str) -> Response:
    """End the connection; nothing happens if it has ended already."""
    peer = session.viewers.get(viewer_id) if session is not None else None
    if peer is not None:
        await peer.close()
    return Response(status_code=204)


def _viewer(session: DemoSession, viewer_id: str) -> ViewerPeer:
    peer = session.viewers.get(viewer_id)
    if peer is None:
        raise _no_viewer(viewer_id)
    return peer


def _no_viewer(viewer_id: str) -> Problem:
    return Problem("no-viewer", f"There is no connection {viewer_id!r}, or it has ended.")


def _etag(viewer_id: str) -> str:
    return f'"{viewer_id}"'


def ice_links(config: ServerConfig, peer_id: str) -> list[str]:
    """``Link`` headers that name the ICE servers (RFC 9725 section 4.6), with credentials for this peer."""
    links = []
    for server in config.ice.servers_for(peer_id):
        link = f'<{server.url}>; rel="ice-server"'
        if server.username is not None:
            link += f'; username="{server.username}"; credential="{server.credential}"; credential-type="password"'
        links.append(link)
    return links
