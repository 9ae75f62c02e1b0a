"""Controls by plain requests."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import JsonValue, RootModel

from ..bodies import json_body, read_model
from ..runtime import runtime_of
from .sessions import Owned

router = APIRouter(tags=["controls"])


class Messages(RootModel[dict[str, JsonValue] | list[dict[str, JsonValue]]]):
    """One message of the controls protocol, or several, oldest first."""


@router.post("/sessions/{session_id}/actions", openapi_extra=json_body(Messages))
async def act(request: Request, session: Owned) -> list[dict[str, Any]]:
    """The same messages as over the WebSocket; the answer lists the replies to them."""
    limit = runtime_of(request).config.max_body_bytes
    body = await read_model(request, Messages, limit)
    messages = body.root if isinstance(body.root, list) else [body.root]
    return [reply for message in messages for reply in session.receive(message)]
