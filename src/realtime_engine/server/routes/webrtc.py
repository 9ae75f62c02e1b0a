"""Video by WebRTC: WHEP for viewers (draft-ietf-wish-whep) and WHIP for publishers (RFC 9725)."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from ...infra.webrtc import BadCandidateError, BadOfferError, NoCandidatesError, PeerClosedError, RemotePeer
from ..bodies import read_text
from ..config import ServerConfig
from ..problems import Problem, session_over
from ..runtime import runtime_of
from ..sessions.peers import Publishers, TooManyViewers
from .sessions import Owned, OwnedIfAlive, Visible, VisibleIfAlive, member_of

router = APIRouter(tags=["video"])

SDP = "application/sdp"
FRAGMENT = "application/trickle-ice-sdpfrag"

_MAX_SDP_BYTES = 256 * 1024


@router.post("/sessions/{session_id}/whep", status_code=201)
async def whep_offer(request: Request, session: Visible) -> Response:
    """Answer a viewer's SDP offer. ``Location`` takes its trickled candidates and ends the connection."""
    member = member_of(request, session)
    add_viewer = functools.partial(session.media.viewers.add, on_text=session.receiver_for(member), member=member)
    return await _answer_offer(request, add_viewer)


@router.patch("/sessions/{session_id}/whep/{viewer_id}", status_code=204)
async def whep_trickle(request: Request, session: Visible, viewer_id: str) -> Response:
    """Add ICE candidates that the viewer gathered after its offer (RFC 8840)."""
    return await _add_candidates(request, session.media.viewers.get(viewer_id), viewer_id)


@router.delete("/sessions/{session_id}/whep/{viewer_id}", status_code=204)
async def whep_close(session: VisibleIfAlive, viewer_id: str) -> Response:
    """Close the viewer's connection. Idempotent."""
    await _close(None if session is None else session.media.viewers.get(viewer_id))
    return Response(status_code=204)


def publishers_of(session: Owned) -> Publishers:
    """The publishers of the session.

    Raises:
        Problem: the demo takes no video (404).
    """
    if session.publishers is None:
        raise Problem("no-video-input", "This demo does not take video.")
    return session.publishers


OwnedPublishers = Annotated[Publishers, Depends(publishers_of)]


@router.options("/sessions/{session_id}/whip", include_in_schema=False)
async def whip_options() -> Response:
    """The methods of the WHIP endpoint."""
    return Response(headers={"Allow": "OPTIONS, POST", "Accept-Post": SDP})


@router.post("/sessions/{session_id}/whip", status_code=201)
async def whip_offer(request: Request, publishers: OwnedPublishers) -> Response:
    """Answer a publisher's SDP offer; it replaces the current publisher. ``Location`` is as for WHEP."""
    return await _answer_offer(request, publishers.add)


@router.options("/sessions/{session_id}/whip/{publisher_id}", include_in_schema=False)
async def whip_publisher_options() -> Response:
    """The methods of a publisher's address."""
    return Response(headers={"Allow": "OPTIONS, PATCH, DELETE", "Accept-Patch": FRAGMENT})


@router.patch("/sessions/{session_id}/whip/{publisher_id}", status_code=204)
async def whip_trickle(request: Request, publishers: OwnedPublishers, publisher_id: str) -> Response:
    """Add ICE candidates that the publisher gathered after its offer (RFC 8840)."""
    return await _add_candidates(request, publishers.get(publisher_id), publisher_id)


@router.delete("/sessions/{session_id}/whip/{publisher_id}")
async def whip_close(session: OwnedIfAlive, publisher_id: str) -> Response:
    """Close the publisher's connection. Idempotent."""
    publishers = None if session is None else session.publishers
    await _close(None if publishers is None else publishers.get(publisher_id))
    return Response(status_code=200)


async def _answer_offer(
    request: Request, add_peer: Callable[[str], Awaitable[tuple[str, RemotePeer[Any]]]]
) -> Response:
    """Answer the request's offer with the peer that ``add_peer`` makes of it; it also returns the peer's id."""
    sdp = await read_text(request, _MAX_SDP_BYTES, SDP)
    try:
        peer_id, peer = await add_peer(sdp)
    except BadOfferError as error:
        raise Problem("bad-offer", str(error)) from error
    except (NoCandidatesError, TooManyViewers) as error:
        raise Problem("no-webrtc", str(error), headers={"Retry-After": "5"}) from error
    except PeerClosedError:
        raise session_over() from None
    endpoint = request.url.path.rpartition("/")[2]
    headers = {"Location": f"{endpoint}/{peer_id}", "ETag": _etag(peer_id), "Cache-Control": "no-store"}
    response = Response(peer.answer, 201, headers, media_type=SDP)
    for link in _ice_links(runtime_of(request).config, peer_id):
        response.headers.append("Link", link)
    return response


async def _add_candidates(request: Request, peer: RemotePeer[Any] | None, peer_id: str) -> Response:
    if peer is None:
        raise _no_peer(peer_id)
    expected = request.headers.get("if-match", "*")
    if expected not in ("*", _etag(peer_id)):
        raise Problem("precondition", f"If-Match is {expected}, the connection's ETag is {_etag(peer_id)}.")
    fragment = await read_text(request, _MAX_SDP_BYTES, FRAGMENT)
    try:
        await peer.add_candidate(fragment)
    except BadCandidateError as error:
        raise Problem("bad-candidate", str(error)) from error
    except PeerClosedError:
        raise _no_peer(peer_id) from None
    return Response(status_code=204)


async def _close(peer: RemotePeer[Any] | None) -> None:
    if peer is not None:
        await peer.close()


def _no_peer(peer_id: str) -> Problem:
    return Problem("no-viewer", f"There is no connection {peer_id!r}, or it is closed.")


def _etag(peer_id: str) -> str:
    return f'"{peer_id}"'


def _ice_links(config: ServerConfig, peer_id: str) -> list[str]:
    """``Link`` headers that name the ICE servers (RFC 9725, section 4.6), with credentials for this peer."""
    links = []
    for server in config.ice.servers_for(peer_id):
        link = f'<{server.url}>; rel="ice-server"'
        if server.username is not None:
            link += f'; username="{server.username}"; credential="{server.credential}"; credential-type="password"'
        links.append(link)
    return links
