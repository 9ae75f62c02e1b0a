"""Sessions: create, list, show, pause, reset and delete."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response
from starlette.requests import HTTPConnection

from ..admission.clients import client_of, remember
from ..admission.waiting_line import Ticket
from ..bodies import ActiveBody, ContextBody, CreateBody, json_body, read_model
from ..prefix import path_below_prefix
from ..problems import Problem, session_over, stalled
from ..runtime import runtime_of
from ..security import bearer, bearer_or_query, check_access, check_origin
from ..sessions.access import Member, Role
from ..sessions.engine_requests import RequestRefused, SessionOver
from ..sessions.registry import refusal
from ..sessions.run_state import PauseReason
from ..sessions.session import DemoSession
from .tickets import describe_ticket

router = APIRouter(tags=["sessions"])


def owned_session(request: Request, session_id: str) -> DemoSession:
    """The session of the path, if the client sends its token."""
    return runtime_of(request).session(session_id, bearer(request))


def controlled_session(request: Request, session_id: str) -> DemoSession:
    """The session of the path, if the client sends the token of its owner or of a controller."""
    return runtime_of(request).session(session_id, bearer(request), Role.CONTROLLER)


def member_of(connection: HTTPConnection, session: DemoSession) -> Member:
    """The client of the session whose token an authorized request sends."""
    member = session.access.member_of(bearer_or_query(connection))
    assert member is not None
    return member


def visible_session(request: Request, session_id: str) -> DemoSession:
    """The session of the path, if the client sends a token of any role."""
    return runtime_of(request).session(session_id, bearer(request), Role.VIEWER)


def visible_session_if_alive(request: Request, session_id: str) -> DemoSession | None:
    """As :func:`visible_session`; ``None`` if it has ended, for routes that must be idempotent."""
    return _if_alive(visible_session, request, session_id)


def owned_session_if_alive(request: Request, session_id: str) -> DemoSession | None:
    """As :func:`owned_session`; ``None`` if it has ended, for routes that must be idempotent."""
    return _if_alive(owned_session, request, session_id)


def _if_alive(find: Callable[[Request, str], DemoSession], request: Request, session_id: str) -> DemoSession | None:
    try:
        return find(request, session_id)
    except Problem as problem:
        if problem.kind not in ("session-over", "turn-over"):
            raise
        return None


Controlled = Annotated[DemoSession, Depends(controlled_session)]
Owned = Annotated[DemoSession, Depends(owned_session)]
Visible = Annotated[DemoSession, Depends(visible_session)]
VisibleIfAlive = Annotated[DemoSession | None, Depends(visible_session_if_alive)]
OwnedIfAlive = Annotated[DemoSession | None, Depends(owned_session_if_alive)]


@router.post("/sessions", status_code=201, openapi_extra=json_body(CreateBody))
async def create(request: Request) -> Response:
    """Create a session: 201 with its id, token and links.

    202 with a ticket if all sessions are in use: follow its links, and repeat the request with the ticket once a place
    is reserved. 422 if the fields are invalid, 429 if the client has too many sessions, 503 if the line is full, the
    model loads or does not respond, or the server shuts down.
    """
    runtime = runtime_of(request)
    check_access(request, runtime.config.token)
    check_origin(request, runtime.config.allowed_origins)
    if runtime.is_stalled:  # a ticket would say that the sessions are in use, and for how long
        raise stalled()
    body = await read_model(request, CreateBody, runtime.config.max_body_bytes)
    client = client_of(request)
    admitted = await runtime.admission.enter(body.context, client, body.ticket)
    if isinstance(admitted, Ticket):
        response = JSONResponse(describe_ticket(runtime, admitted), 202, {"Cache-Control": "no-store"})
    else:
        links = links_of(admitted)
        created = {"session_id": admitted.id, "token": admitted.token, "links": links}
        location = location_of(request, links["self"])
        response = JSONResponse(created, 201, {"Location": location, "Cache-Control": "no-store"})
    remember(response, request, client)
    return response


@router.get("/sessions")
async def list_sessions(request: Request) -> dict[str, Any]:
    """All active sessions, without their tokens."""
    runtime = runtime_of(request)
    check_access(request, runtime.config.token)
    sessions = runtime.sessions
    return {"capacity": sessions.capacity, "sessions": [_describe(session) for session in sessions.all()]}


@router.get("/sessions/{session_id}")
async def show(request: Request, session: Visible) -> dict[str, Any]:
    """The state of the session, and the role of the client; 410 once the session has ended."""
    publisher = None if session.publishers is None else session.publishers.current
    fields = session.controls.plain_fields()
    role = member_of(request, session).role.label
    return {**_describe(session), "role": role, "fields": fields, "publisher": publisher, "links": links_of(session)}


@router.patch("/sessions/{session_id}", openapi_extra=json_body(ActiveBody))
async def pause(request: Request, session: Owned) -> dict[str, Any]:
    """Pause the session or resume it."""
    body = await read_model(request, ActiveBody, runtime_of(request).config.max_body_bytes)
    try:
        await session.set_paused(not body.active)
    except SessionOver:
        raise session_over() from None
    return _describe(session)


@router.delete("/sessions/{session_id}", status_code=204)
async def end(request: Request, session_id: str) -> Response:
    """End the session. Idempotent.

    202 if the engine has not detached it yet: the session has ended, but its slot is occupied until the engine's
    current step is done.
    """
    runtime = runtime_of(request)
    session = runtime.find_session(session_id, bearer(request))
    if session is not None:
        session.end()
        await session.wait_ended(runtime.config.shutdown_timeout_s)
        if not session.ended.is_set():
            return Response(status_code=202, headers={"Retry-After": "5"})
    return Response(status_code=204)


@router.post("/sessions/{session_id}/leave", status_code=204)
async def leave(request: Request, session: VisibleIfAlive) -> Response:
    """The client's page is closed or reloaded. Idempotent.

    If the client is the owner, the session ends in seconds unless it returns or a controller is connected.
    """
    if session is not None:
        session.leave(member_of(request, session))
    return Response(status_code=204)


@router.post("/sessions/{session_id}/reset", openapi_extra=json_body(ContextBody))
async def reset(request: Request, session: Owned) -> dict[str, Any]:
    """Start a new epoch with the fields of ``context`` changed; no older frame follows the response.

    422 if the fields are invalid, in which case nothing has changed; 410 if the model failed, which ends the session.
    """
    runtime = runtime_of(request)
    body = await read_model(request, ContextBody, runtime.config.max_body_bytes)
    try:
        await session.reset(body.context)
    except RequestRefused as refused:
        raise refusal(refused) from refused
    except SessionOver as ended:
        raise session_over(ended.reason) from None
    return {"epoch": session.epoch}


def links_of(session: DemoSession) -> dict[str, str]:
    """The addresses of the session's routes, relative to the page: the server may be below a path prefix."""
    base = f"api/sessions/{session.id}"
    whip = {} if session.publishers is None else {"whip": f"{base}/whip"}
    recording = {} if session.media.recordings is None else {"recording": f"{base}/recording"}
    return {
        "self": base,
        "leave": f"{base}/leave",
        "invitations": f"{base}/invitations",
        "qr": f"{base}/qr",
        "takeover": f"{base}/takeover",
        "reset": f"{base}/reset",
        "actions": f"{base}/actions",
        "whep": f"{base}/whep",
        "video": f"{base}/video",
        **whip,
        **recording,
        "mjpeg": f"{base}/stream.mjpeg",
        "frame": f"{base}/frame.jpg",
        "controls": f"{base}/controls",
        "trace": f"{base}/trace",
    }


def location_of(request: Request, link: str) -> str:
    """A ``Location`` header (RFC 9110, section 10.2.2) for a link that is relative to the page.

    It is relative to the address of the request, because a proxy may serve the page below a prefix without saying so.
    """
    return posixpath.relpath(f"/{link}", posixpath.dirname(path_below_prefix(request.scope)))


def _describe(session: DemoSession) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "epoch": session.epoch,
        "state": session.run_state.name,
        "active": not session.run_state.is_paused_by(PauseReason.CLIENT),
        "stepped": session.run_state.is_stepped,
        "viewers": session.media.watching,
        "idle_s": round(session.idle.idle_s, 3),
    }
