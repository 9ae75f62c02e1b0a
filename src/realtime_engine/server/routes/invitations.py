"""Invitations to a session: make, list, revoke, and join by one."""

from __future__ import annotations

import io
from typing import Any

import segno
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from ...core.clock import MONOTONIC, NS_PER_S
from ..bodies import InvitationBody, JoinBody, QrBody, json_body, read_model
from ..problems import Problem
from ..runtime import runtime_of
from ..security import check_origin
from ..sessions.access import Invitation, InvitationOver, Member, Role
from .sessions import Owned, links_of, location_of

router = APIRouter(tags=["invitations"])

_NO_STORE = {"Cache-Control": "no-store"}


def link_of(invitation: Invitation) -> dict[str, str]:
    """The secret of an invitation, and the address of the page that joins by it, relative to the page."""
    parameter = "join" if invitation.role is Role.CONTROLLER else "watch"
    return {"token": invitation.secret, "link": f"?{parameter}={invitation.secret}"}


def invitation_over(error: InvitationOver) -> Problem:
    """The problem for an invitation that cannot be used any more."""
    return Problem("invitation-over", f"{str(error).capitalize()}.")


@router.post("/sessions/{session_id}/invitations", status_code=201, openapi_extra=json_body(InvitationBody))
async def invite(request: Request, session: Owned) -> Response:
    """Make a link by which others watch or control the session. ``link`` is relative to the address of the page."""
    body = await read_model(request, InvitationBody, runtime_of(request).config.max_body_bytes)
    try:
        invitation = session.access.invite(Role[body.role.upper()], body.expires_s, body.uses)
    except InvitationOver as error:
        raise Problem("too-many", f"{error}.") from error
    return JSONResponse({**_describe(invitation), **link_of(invitation)}, 201, _NO_STORE)


@router.get("/sessions/{session_id}/invitations")
async def show(session: Owned) -> dict[str, Any]:
    """The invitations that are valid or used up, and the clients of the session other than its owner."""
    access = session.access
    return {
        "invitations": [_describe(invitation) for invitation in access.invitations],
        "members": [_describe_member(member) for member in access.members if member is not access.owner],
    }


@router.delete("/sessions/{session_id}/invitations/{invitation_id}", status_code=204)
async def revoke(session: Owned, invitation_id: str) -> Response:
    """Revoke an invitation: those who have joined by it lose their access at once. Idempotent."""
    session.revoke(invitation_id)
    return Response(status_code=204)


@router.post("/invitations", status_code=201, openapi_extra=json_body(JoinBody))
async def join(request: Request) -> Response:
    """Join a session by the token of an invitation: 201 with a token for the client.

    404 if the invitation was revoked; 410 if it has expired, is used up or its session has ended.
    """
    runtime = runtime_of(request)
    check_origin(request, runtime.config.allowed_origins)
    body = await read_model(request, JoinBody, runtime.config.max_body_bytes)
    session, invitation = runtime.sessions.invited(body.token)
    try:
        member = session.join(invitation)
    except InvitationOver as error:
        raise invitation_over(error) from error
    links = links_of(session)
    joined = {"session_id": session.id, "token": member.token, "role": member.role.label, "links": links}
    return JSONResponse(joined, 201, {"Location": location_of(request, links["self"]), **_NO_STORE})


@router.post("/sessions/{session_id}/qr", response_class=Response, openapi_extra=json_body(QrBody))
async def draw_qr(request: Request, session: Owned) -> Response:
    """A text, such as the address of an invitation, as a QR code (ISO/IEC 18004) in SVG."""
    body = await read_model(request, QrBody, runtime_of(request).config.max_body_bytes)
    picture = io.BytesIO()
    segno.make(body.text, micro=False).save(picture, kind="svg", border=2, omitsize=True, light="#fff")
    return Response(picture.getvalue(), media_type="image/svg+xml", headers=_NO_STORE)


def _describe(invitation: Invitation) -> dict[str, Any]:
    expires_in_s = None
    if invitation.expires_ns is not None:
        expires_in_s = round(max(0, invitation.expires_ns - MONOTONIC.now_ns()) / NS_PER_S, 1)
    return {
        "id": invitation.id,
        "role": invitation.role.label,
        "expires_in_s": expires_in_s,
        "uses_left": invitation.uses_left,
    }


def _describe_member(member: Member) -> dict[str, Any]:
    return {
        "id": member.id,
        "role": member.role.label,
        "invitation": None if member.invitation is None else member.invitation.id,
        "joined_s": round((MONOTONIC.now_ns() - member.joined_ns) / NS_PER_S, 1),
        "connected": member.is_connected,
    }
