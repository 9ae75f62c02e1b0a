"""Tickets of the waiting line: show, follow and leave."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..admission.admission import TicketStatus
from ..admission.waiting_line import Ticket
from ..closing_stream import ClosingStream
from ..runtime import Runtime, runtime_of

router = APIRouter(tags=["waiting line"])

_STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@router.get("/tickets/{ticket_id}")
async def show(request: Request, ticket_id: str) -> dict[str, Any]:
    """The state of a ticket; 410 once it has left the line. The client counts as present for another 30 s."""
    runtime = runtime_of(request)
    return describe_ticket(runtime, runtime.admission.find(ticket_id))


@router.get("/tickets/{ticket_id}/events", response_class=Response)
async def follow(request: Request, ticket_id: str) -> Response:
    """Server-sent events named ``ticket``: its state now and after each change, until it leaves the line."""
    runtime = runtime_of(request)
    ticket = runtime.admission.find(ticket_id)
    return ClosingStream(_events(runtime, ticket), _STREAM_HEADERS, "text/event-stream")


@router.delete("/tickets/{ticket_id}", status_code=204)
async def leave(request: Request, ticket_id: str) -> Response:
    """Leave the line. Idempotent."""
    admission = runtime_of(request).admission
    ticket = admission.find_if_waiting(ticket_id)
    if ticket is not None:
        admission.leave(ticket)
    return Response(status_code=204)


def describe_ticket(runtime: Runtime, ticket: Ticket) -> dict[str, Any]:
    """A ticket as its client is shown it."""
    path = f"api/tickets/{ticket.id}"
    status = _describe(runtime.admission.status(ticket))
    return {"ticket": ticket.id, **status, "links": {"self": path, "events": f"{path}/events"}}


def _describe(status: TicketStatus) -> dict[str, Any]:
    described: dict[str, Any] = {
        "state": status.state.value,
        "position": status.position,
        "estimated_wait_s": round(status.estimated_wait_s, 1),
    }
    if status.claim_within_s is not None:
        described["claim_within_s"] = round(status.claim_within_s, 1)
    return described


async def _events(runtime: Runtime, ticket: Ticket) -> AsyncGenerator[str, None]:
    yield "retry: 1000\n\n"
    updates = runtime.admission.updates(ticket)
    try:
        async for status in updates:
            yield f"event: ticket\ndata: {json.dumps(_describe(status))}\n\n"
    finally:
        await updates.aclose()
