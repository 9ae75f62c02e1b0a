"""Controls by plain requests."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field, JsonValue, RootModel

from ..bodies import json_body, read_model
from ..runtime import runtime_of
from .sessions import Owned

router = APIRouter(tags=["controls"])

_MOST_MESSAGES = 64


class Messages(
    RootModel[dict[str, JsonValue] | Annotated[list[dict[str, JsonValue]], Field(max_length=_MOST_MESSAGES)]]
):
    """One message of the controls protocol, or several, oldest first."""


@router.post("/sessions/{session_id}/actions", openapi_extra=json_body(Messages))
async def act(request: Request, session: Owned) -> list[dict[str, Any]]:
    """The same messages as over the WebSocket; the answer lists the replies to them."""
    limit = runtime_of(request).config.max_body_bytes
    body = await read_model(request, Messages, limit)
    replies: list[dict[str, Any]] = []
    for message in body.root if isinstance(body.root, list) else [body.root]:
        replies += session.receive(message)
        await asyncio.sleep(0)  # others have their turn
    return replies
