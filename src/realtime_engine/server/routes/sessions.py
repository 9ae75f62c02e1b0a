"""Places in the demo: taken, looked at, paused, begun anew, given back."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from ..bodies import ActiveBody, ContextBody, json_body, read_model
from ..problems import Problem
from ..runtime import runtime_of
from ..security import bearer, check_access, is_allowed_origin
from ..sessions.engine_requests import Refused, SessionOver
from ..sessions.registry import over
from ..sessions.run_state import PauseReason
from ..sessions.session import DemoSession

router = APIRouter(tags=["sessions"])


def owned_session(request: Request, session_id: str) -> DemoSession:
    """The session of the address, whose token the client shows."""
    return runtime_of(request).session(session_id, bearer(request))


def owned_session_even_if_over(request: Request, session_id: str) -> DemoSession | None:
    """As :func:`owned_session`; ``None`` for one that is over, so that what ends something may be asked for again."""
    try:
        return owned_session(request, session_id)
    except Problem as problem:
        if problem.kind != "session-over":
            raise
        return None


Owned = Annotated[DemoSession, Depends(owned_session)]
OwnedEvenIfOver = Annotated[DemoSession | None, Depends(owned_session_even_if_over)]


@router.post("/sessions", status_code=201, openapi_extra=json_body(ContextBody))
async def create(request: Request) -> Response:
    """Take a place: 201 with its id, token and links, 422 for fields that do not do, 503 when there is no room."""
    runtime = runtime_of(request)
    check_access(request, runtime.config.token)
    if not is_allowed_origin(request, runtime.config.allowed_origins):
        raise Problem("origin", f"{request.headers['origin']} is not among the allowed origins")
    body = await read_model(request, ContextBody, runtime.config.max_body_bytes)
    session = await runtime.sessions.create(body.context)
    links = links_of(session)
    answer = {"session_id": session.id, "token": session.token, "links": links}
    return JSONResponse(answer, 201, {"Location": links["self"], "Cache-Control": "no-store"})


@router.get("/sessions")
async def list_sessions(request: Request) -> dict[str, Any]:
    """All sessions that live, without what opens them."""
    runtime = runtime_of(request)
    check_access(request, runtime.config.token)
    sessions = runtime.sessions
    return {"capacity": sessions.capacity, "sessions": [_described(session) for session in sessions.all()]}


@router.get("/sessions/{session_id}")
async def show(session: Owned) -> dict[str, Any]:
    """What the session does; 410 when it is over."""
    publisher = None if session.publishers is None else session.publishers.current
    return {**_described(session), "publisher": publisher, "links": links_of(session)}


@router.patch("/sessions/{session_id}", openapi_extra=json_body(ActiveBody))
async def pause(request: Request, session: Owned) -> dict[str, Any]:
    """Pause it, or let it run on."""
    body = await read_model(request, ActiveBody, runtime_of(request).config.max_body_bytes)
    try:
        await session.set_paused(not body.active)
    except SessionOver:
        raise over() from None
    return _described(session)


@router.delete("/sessions/{session_id}", status_code=204)
async def end(request: Request, session_id: str) -> Response:
    """Give the place back; nothing happens if it has been given back already.

    202 while the engine has not let go of it: the session is over, and the place is free when its step has ended.
    """
    runtime = runtime_of(request)
    session = runtime.find_session(session_id, bearer(request))
    if session is not None:
        session.begin_end()
        await session.ended(runtime.config.shutdown_timeout_s)
        if not session.over.is_set():
            return Response(status_code=202, headers={"Retry-After": "5"})
    return Response(status_code=204)


@router.post("/sessions/{session_id}/reset", openapi_extra=json_body(ContextBody))
async def reset(request: Request, session: Owned) -> dict[str, Any]:
    """Begin anew, with the fields of ``context`` changed; no frame of before follows the answer.

    422 when these fields do not do, and nothing has changed then; 410 when the model failed and the session is over.
    """
    runtime = runtime_of(request)
    body = await read_model(request, ContextBody, runtime.config.max_body_bytes)
    try:
        await session.reset(body.context)
    except Refused as refused:
        raise runtime.sessions.refusal(str(refused)) from refused
    except SessionOver as ended:
        raise over(ended.reason) from None
    return {"epoch": session.epoch}


def links_of(session: DemoSession) -> dict[str, str]:
    """Where the session is."""
    at = f"/api/sessions/{session.id}"
    whip = {} if session.publishers is None else {"whip": f"{at}/whip"}
    recording = {} if session.recordings is None else {"recording": f"{at}/recording"}
    return {
        "self": at,
        "reset": f"{at}/reset",
        "actions": f"{at}/actions",
        "whep": f"{at}/whep",
        "video": f"{at}/video",
        **whip,
        **recording,
        "mjpeg": f"{at}/stream.mjpeg",
        "frame": f"{at}/frame.jpg",
        "controls": f"{at}/controls",
        "trace": f"{at}/trace",
    }


def _described(session: DemoSession) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "epoch": session.epoch,
        "active": not session.activity.is_held(PauseReason.PLAYER),
        "stepped": session.activity.active,
        "viewers": session.watching,
        "idle_s": round(session.idle_s, 3),
    }
