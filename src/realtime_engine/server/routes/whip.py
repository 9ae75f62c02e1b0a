"""Video into a session by WebRTC, negotiated by WHIP (RFC 9725): who posts an offer becomes its publisher."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from ...infra.webrtc import BadCandidateError, BadOfferError, NoCandidatesError, PeerClosedError
from ..bodies import read_text
from ..problems import Problem
from ..publishers import Publishers
from ..runtime import runtime_of
from ..sessions import over
from .sessions import Owned, OwnedEvenIfOver
from .whep import ice_links

router = APIRouter(tags=["video"])

_MOST_SDP = 256 * 1024
_SDP = "application/sdp"
_FRAGMENT = "application/trickle-ice-sdpfrag"


def publishers_of(session: Owned) -> Publishers:
    """Errors: :class:`Problem` (404) when the demo takes no video."""
    if session.publishers is None:
        raise Problem("no-video-input", "This demo takes no video: there is nothing to send a camera to.")
    return session.publishers


Taking = Annotated[Publishers, Depends(publishers_of)]


@router.options("/sessions/{session_id}/whip", include_in_schema=False)
async def options() -> Response:
    """What may be posted, for clients that ask first."""
    return Response(headers={"Allow": "OPTIONS, POST", "Accept-Post": _SDP})


@router.post("/sessions/{session_id}/whip", status_code=201)
async def publish(request: Request, publishers: Taking) -> Response:
    """Answer an SDP offer and hang up on whoever sent before; ``Location`` is where the publisher ends it."""
    sdp = await read_text(request, _MOST_SDP, _SDP)
    try:
        publisher_id, peer = await publishers.accept(sdp)
    except BadOfferError as error:
        raise Problem("bad-offer", str(error)) from error
    except NoCandidatesError as error:
        raise Problem("no-webrtc", str(error), headers={"Retry-After": "5"}) from error
    except PeerClosedError:
        raise over() from None
    location = f"{request.url.path}/{publisher_id}"
    headers = {"Location": location, "ETag": _etag(publisher_id), "Cache-Control": "no-store"}
    response = Response(peer.answer, 201, headers, media_type=_SDP)
    for link in ice_links(runtime_of(request).config, publisher_id):
        response.headers.append("Link", link)
    return response


@router.options("/sessions/{session_id}/whip/{publisher_id}", include_in_schema=False)
async def options_of_publisher() -> Response:
    """What may be done with a publisher."""
    return Response(headers={"Allow": "OPTIONS, PATCH, DELETE", "Accept-Patch": _FRAGMENT})


@router.patch("/sessions/{session_id}/whip/{publisher_id}", status_code=204)
async def trickle(request: Request, publishers: Taking, publisher_id: str) -> Response:
    """Take candidates that the publisher found later (RFC 8840)."""
    peer = publishers.get(publisher_id)
    if peer is None:
        raise _no_publisher(publisher_id)
    expected = request.headers.get("if-match", "*")
    if expected not in ("*", _etag(publisher_id)):
        raise Problem("precondition", f"If-Match is {expected}, this connection is {_etag(publisher_id)}")
    fragment = await read_text(request, _MOST_SDP, _FRAGMENT)
    try:
        await peer.add_candidate(fragment)
    except BadCandidateError as error:
        raise Problem("bad-candidate", str(error)) from error
    except PeerClosedError:
        raise _no_publisher(publisher_id) from None
    return Response(status_code=204)


@router.delete("/sessions/{session_id}/whip/{publisher_id}")
async def end(session: OwnedEvenIfOver, publisher_id: str) -> Response:
    """End the connection; nothing happens if it has ended already."""
    publishers = session.publishers if session is not None else None
    peer = publishers.get(publisher_id) if publishers is not None else None
    if peer is not None:
        await peer.close()
    return Response(status_code=200)


def _no_publisher(publisher_id: str) -> Problem:
    return Problem("no-viewer", f"There is no connection {publisher_id!r}, or it has ended.")


def _etag(publisher_id: str) -> str:
    return f'"{publisher_id}"'
