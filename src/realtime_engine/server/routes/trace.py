"""Traces: the time of each frame, by stage."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from ...core.clock import MONOTONIC, NS_PER_S
from ...infra.telemetry.perfetto import chrome_traces
from ...infra.telemetry.timing import FrameRecord
from ..runtime import runtime_of
from ..security import check_access
from .sessions import Owned

router = APIRouter(tags=["sessions"])

MAX_S = 60.0

Seconds = Annotated[float, Query(gt=0, le=MAX_S)]


@router.get("/sessions/{session_id}/trace", response_class=Response)
async def trace(session: Owned, seconds: Seconds = 10.0) -> Response:
    """The frames sent to viewers in the last seconds, as a Chrome trace (JSON) for ui.perfetto.dev."""
    return await _respond({f"session {session.id}": session.media.latency.records(_since_ns(seconds))}, session.id)


@router.get("/trace", response_class=Response)
async def trace_of_all(request: Request, seconds: Seconds = 10.0) -> Response:
    """The traces of all active sessions; requires the server's token."""
    runtime = runtime_of(request)
    check_access(request, runtime.config.token)
    since_ns = _since_ns(seconds)
    records = {f"session {session.id}": session.media.latency.records(since_ns) for session in runtime.sessions.all()}
    return await _respond(records, "all")


def _since_ns(seconds: float) -> int:
    return MONOTONIC.now_ns() - round(seconds * NS_PER_S)


async def _respond(records: dict[str, list[FrameRecord]], name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="trace-{name}.json"', "Cache-Control": "no-store"}
    text = await asyncio.to_thread(_format, records)
    return Response(text, headers=headers, media_type="application/json")


def _format(records: dict[str, list[FrameRecord]]) -> str:
    """Runs on a thread: it takes too long for the event loop."""
    return json.dumps(chrome_traces(records), separators=(",", ":"))
