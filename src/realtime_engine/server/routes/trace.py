"""Where the time of a session's frames went, frame by frame."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from ...core.clock import MONOTONIC, NS_PER_S
from ...infra.trace import chrome_trace
from .sessions import Owned

router = APIRouter(tags=["sessions"])

MOST_S = 60.0


@router.get("/sessions/{session_id}/trace")
async def trace(session: Owned, seconds: Annotated[float, Query(gt=0, le=MOST_S)] = 10.0) -> Any:
    """The last seconds as a Chrome trace (JSON) for ui.perfetto.dev: what the session's viewers were sent, and when."""
    records = session.joiner.records(MONOTONIC.now_ns() - round(seconds * NS_PER_S))
    headers = {"Content-Disposition": f'attachment; filename="trace-{session.id}.json"', "Cache-Control": "no-store"}
    return JSONResponse(chrome_trace(records, f"session {session.id}"), headers=headers)
