"""The lobby: what runs on the server, with pictures, and links to watch it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from ...core.clock import MONOTONIC, NS_PER_S
from ..problems import Problem
from ..runtime import Runtime, runtime_of
from ..security import check_access, check_origin
from ..sessions.access import InvitationOver
from ..sessions.session import DemoSession
from .invitations import invitation_over, link_of

router = APIRouter(tags=["lobby"])

_NO_STORE = {"Cache-Control": "no-store"}


@router.get("/lobby")
async def show(request: Request) -> dict[str, Any]:
    """The number of places, of waiting clients, and the running sessions; none if the lobby is closed."""
    runtime = runtime_of(request)
    check_access(request, runtime.config.token)
    sessions = runtime.sessions
    shown = sessions.all() if runtime.has_lobby else []
    return {
        "capacity": sessions.capacity,
        "occupied": sessions.occupied,
        "waiting": runtime.admission.waiting,
        "sessions": [_describe(session) for session in shown],
    }


@router.get("/lobby/{session_id}/thumbnail.jpg", response_class=Response)
async def thumbnail(request: Request, session_id: str) -> Response:
    """A small picture of the session, made at most once a second; 404 before the first frame."""
    picture = await _session_in_lobby(request, session_id).media.thumbnails.get()
    if picture is None:
        raise Problem("no-frame", "The session has published no frame yet.")
    return Response(picture, headers=_NO_STORE, media_type="image/jpeg")


@router.post("/lobby/{session_id}/invitations", status_code=201)
async def invite(request: Request, session_id: str) -> Response:
    """A link to watch the session, as its owner could make one; 410 if the owner has revoked it."""
    check_origin(request, runtime_of(request).config.allowed_origins)
    session = _session_in_lobby(request, session_id)
    try:
        invitation = session.access.public_invitation()
    except InvitationOver as error:
        raise invitation_over(error) from error
    return JSONResponse(link_of(invitation), 201, _NO_STORE)


def _session_in_lobby(request: Request, session_id: str) -> DemoSession:
    runtime = runtime_of(request)
    check_access(request, runtime.config.token)
    session = _find(runtime, session_id) if runtime.has_lobby else None
    if session is None:
        raise Problem("no-session", f"There is no session {session_id!r} in the lobby.")
    return session


def _find(runtime: Runtime, session_id: str) -> DemoSession | None:
    return next((session for session in runtime.sessions.all() if session.id == session_id), None)


def _describe(session: DemoSession) -> dict[str, Any]:
    started_ns = session.started_ns or MONOTONIC.now_ns()
    return {
        "session_id": session.id,
        "age_s": round((MONOTONIC.now_ns() - started_ns) / NS_PER_S, 1),
        "viewers": session.media.watching,
        "links": {
            "thumbnail": f"api/lobby/{session.id}/thumbnail.jpg",
            "invitations": f"api/lobby/{session.id}/invitations",
        },
    }
