"""Traces: the time of each frame, by stage."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from ...core.clock import MONOTONIC, NS_PER_S
from ...core.monitor import StageSpan
from ...infra.telemetry.perfetto import chrome_traces
from ...infra.telemetry.timing import FrameRecord
from ..runtime import runtime_of
from ..security import check_access
from ..sessions.session import DemoSession
from .sessions import Visible

router = APIRouter(tags=["sessions"])

MAX_S = 60.0

Seconds = Annotated[float, Query(gt=0, le=MAX_S)]


@router.get("/sessions/{session_id}/trace", response_class=Response)
async def trace(session: Visible, seconds: Seconds = 10.0) -> Response:
    """The last seconds as a Chrome trace (JSON) for ui.perfetto.dev: frames sent to viewers, and the model's stages."""
    return await _respond([session], _since_ns(seconds), session.id)


@router.get("/trace", response_class=Response)
async def trace_of_all(request: Request, seconds: Seconds = 10.0) -> Response:
    """The traces of all active sessions; requires the server's token."""
    runtime = runtime_of(request)
    check_access(request, runtime.config.token)
    return await _respond(runtime.sessions.all(), _since_ns(seconds), "all")


def _since_ns(seconds: float) -> int:
    return MONOTONIC.now_ns() - round(seconds * NS_PER_S)


async def _respond(sessions: Sequence[DemoSession], since_ns: int, name: str) -> Response:
    records = {f"session {session.id}": session.media.latency.records(since_ns) for session in sessions}
    spans = {f"session {session.id}": session.stages.spans(since_ns) for session in sessions}
    headers = {"Content-Disposition": f'attachment; filename="trace-{name}.json"', "Cache-Control": "no-store"}
    text = await asyncio.to_thread(_format, records, spans)
    return Response(text, headers=headers, media_type="application/json")


def _format(records: dict[str, list[FrameRecord]], spans: dict[str, Sequence[StageSpan]]) -> str:
    """Runs on a thread: it takes too long for the event loop."""
    return json.dumps(chrome_traces(records, spans), separators=(",", ":"))
