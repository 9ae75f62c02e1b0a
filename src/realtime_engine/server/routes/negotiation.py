"""What WHEP and WHIP have in common: an SDP offer is answered with a resource, to which candidates go (RFC 9725)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from ...infra.webrtc import BadCandidateError, BadOfferError, NoCandidatesError, PeerClosedError, RemotePeer
from ..bodies import read_text
from ..config import ServerConfig
from ..problems import Problem
from ..runtime import runtime_of
from ..sessions import over
from ..viewers import TooManyViewers

SDP = "application/sdp"
FRAGMENT = "application/trickle-ice-sdpfrag"

_MOST_SDP = 256 * 1024


async def answer(request: Request, accept: Callable[[str], Awaitable[tuple[str, RemotePeer[Any]]]]) -> Response:
    """Answer the request's offer; ``Location`` is where candidates go and where the connection is ended.

    Args:
        accept: makes a connection of an offer; returns its id too.
    """
    sdp = await read_text(request, _MOST_SDP, SDP)
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
    fragment = await read_text(request, _MOST_SDP, FRAGMENT)
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
