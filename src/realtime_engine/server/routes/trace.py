"""Where the time of a session's frames went, frame by frame."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from ...core.clock import MONOTONIC, NS_PER_S
from ...infra.timing import FrameRecord
from ...infra.trace import chrome_trace
from .sessions import Owned

router = APIRouter(tags=["sessions"])

MOST_S = 60.0


@router.get("/sessions/{session_id}/trace", response_class=Response)
async def trace(session: Owned, seconds: Annotated[float, Query(gt=0, le=MOST_S)] = 10.0) -> Response:
    """The last seconds as a Chrome trace (JSON) for ui.perfetto.dev: what the session's viewers were sent, and when."""
    records = session.joiner.records(MONOTONIC.now_ns() - round(seconds * NS_PER_S))
    headers = {"Content-Disposition": f'attachment; filename="trace-{session.id}.json"', "Cache-Control": "no-store"}
    text = await asyncio.to_thread(_draw, records, session.id)
    return Response(text, headers=headers, media_type="application/json")


def _draw(records: list[FrameRecord], session_id: str) -> str:
    """Takes too long for the event loop."""
    return json.dumps(chrome_trace(records, f"session {session_id}"), separators=(",", ":"))
