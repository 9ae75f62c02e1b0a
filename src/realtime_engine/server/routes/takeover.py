"""Take-over: a client asks to become the owner of a session, and the owner answers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from ..bodies import ConsentBody, json_body, read_model
from ..runtime import runtime_of
from .sessions import Owned, Visible, member_of

router = APIRouter(tags=["take-over"])


@router.post("/sessions/{session_id}/takeover")
async def ask(request: Request, session: Visible) -> Response:
    """Ask to become the owner: 202 if the owner is asked; the answer is a message over the control connection.

    200 if the client is the owner from now on: a controller takes over without consent while the owner is idle for
    ``--idle-timeout``, or disconnected for ``--reconnect-grace``. 429 for 30 s after a refusal.
    """
    member = member_of(request, session)
    taken = session.takeover.ask(member)
    answer: dict[str, Any] = {"state": "granted" if taken else "asked", "role": member.role.label}
    return JSONResponse(answer, 200 if taken else 202, {"Cache-Control": "no-store"})


@router.post("/sessions/{session_id}/takeover/{member_id}", status_code=204, openapi_extra=json_body(ConsentBody))
async def answer(request: Request, session: Owned, member_id: str) -> Response:
    """The owner consents, and becomes a controller; or refuses. No effect if the client does not ask any more."""
    body = await read_model(request, ConsentBody, runtime_of(request).config.max_body_bytes)
    session.takeover.answer(member_id, accept=body.accept)
    return Response(status_code=204)
