"""Video by WebRTC, negotiated by WHEP (draft-ietf-wish-whep): who posts an offer becomes a viewer with an address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from ...infra.webrtc import BadCandidateError, BadOfferError, NoCandidatesError, PeerClosedError, RemotePeer
from ..bodies import read_text
from ..config import ServerConfig
from ..problems import Problem
from ..runtime import runtime_of
from ..sessions.peers import Publishers, TooManyViewers
from ..sessions.registry import over
from .sessions import Owned, OwnedEvenIfOver

SDP = "application/sdp"
FRAGMENT = "application/trickle-ice-sdpfrag"

_MAX_SDP = 256 * 1024


async def answer(request: Request, accept: Callable[[str], Awaitable[tuple[str, RemotePeer[Any]]]]) -> Response:
    """Answer the request's offer; ``Location`` is where candidates go and where the connection is ended.

    Args:
        accept: makes a connection of an offer; returns its id too.
    """
    sdp = await read_text(request, _MAX_SDP, SDP)
    try:
        peer_id, peer = await accept(sdp)
    except BadOfferError as error:
        raise Problem("bad-offer", str(error)) from error
    except (NoCandidatesError, TooManyViewers) as error:
        raise Problem("no-webrtc", str(error), headers={"Retry-After": "5"}) from error
    except PeerClosedError:
        raise over() from None
    headers = {"Location": f"{request.url.path}/{peer_id}", "ETag": _etag(peer_id), "Cache-Control": "no-store"}
    response = Response(peer.answer, 201, headers, media_type=SDP)
    for link in _ice_links(runtime_of(request).config, peer_id):
        response.headers.append("Link", link)
    return response


async def take_candidates(request: Request, peer: RemotePeer[Any] | None, peer_id: str) -> Response:
    """Give the request's candidates, which the other side found later (RFC 8840), to its connection."""
    if peer is None:
        raise _no_peer(peer_id)
    expected = request.headers.get("if-match", "*")
    if expected not in ("*", _etag(peer_id)):
        raise Problem("precondition", f"If-Match is {expected}, this connection is {_etag(peer_id)}")
    fragment = await read_text(request, _MAX_SDP, FRAGMENT)
    try:
        await peer.add_candidate(fragment)
    except BadCandidateError as error:
        raise Problem("bad-candidate", str(error)) from error
    except PeerClosedError:
        raise _no_peer(peer_id) from None
    return Response(status_code=204)


def _no_peer(peer_id: str) -> Problem:
    return Problem("no-viewer", f"There is no connection {peer_id!r}, or it has ended.")


def _etag(peer_id: str) -> str:
    return f'"{peer_id}"'


def _ice_links(config: ServerConfig, peer_id: str) -> list[str]:
    """``Link`` headers that name the ICE servers (RFC 9725 section 4.6), with credentials for this peer."""
    links = []
    for server in config.ice.servers_for(peer_id):
        link = f'<{server.url}>; rel="ice-server"'
        if server.username is not None:
            link += f'; username="{server.username}"; credential="{server.credential}"; credential-type="password"'
        links.append(link)
    return links


router = APIRouter(tags=["video"])


@router.post("/sessions/{session_id}/whep", status_code=201)
async def offer(request: Request, session: Owned) -> Response:
    """Answer an SDP offer; ``Location`` is where candidates go and where the viewer hangs up."""
    return await answer(request, session.viewers.accept)


@router.patch("/sessions/{session_id}/whep/{viewer_id}", status_code=204)
async def whep_trickle(request: Request, session: Owned, viewer_id: str) -> Response:
    """Take candidates that the viewer found later (RFC 8840)."""
    return await take_candidates(request, session.viewers.get(viewer_id), viewer_id)


@router.delete("/sessions/{session_id}/whep/{viewer_id}", status_code=204)
async def close_all(session: OwnedEvenIfOver, viewer_id: str) -> Response:
    """End the connection; nothing happens if it has ended already."""
    peer = session.viewers.get(viewer_id) if session is not None else None
    if peer is not None:
        await peer.close()
    return Response(status_code=204)


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
async def whip_trickle(request: Request, publishers: Taking, publisher_id: str) -> Response:
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
