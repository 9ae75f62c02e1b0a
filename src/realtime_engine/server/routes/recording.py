"""Recordings of a session: begun, ended, listed, fetched."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, JSONResponse, Response

from ...infra.recording import RecordingRuns, RecordingStore, StorageFull
from ..problems import Problem
from ..runtime import Runtime, runtime_of
from ..security import bearer, bearer_or_query
from ..sessions.engine_requests import SessionOver
from ..sessions.recordings import Recordings
from ..sessions.registry import over
from ..sessions.session import DemoSession
from .sessions import Owned, OwnedEvenIfOver

logger = logging.getLogger(__name__)

router = APIRouter(tags=["recording"])

_OVER = {"state": "stopped", "reason": "session-over", "seconds": 0.0, "bytes": 0}


@router.post("/sessions/{session_id}/recording", status_code=201)
async def start(request: Request, session: Owned) -> Response:
    """Record the session as MP4, from the packets that its viewers are sent; 409 while it is recorded already."""
    recordings = _recordings(session)
    try:
        await recordings.start()
    except RecordingRuns as error:
        raise Problem("recording-runs", str(error)) from error
    except StorageFull as error:
        raise Problem("no-storage", str(error)) from error
    except OSError as error:
        logger.error("no recording can be stored: %s", error)
        raise Problem("no-storage", "The server's disk takes nothing; its log says why.") from error
    except SessionOver:
        raise over() from None
    described = await _described(runtime_of(request), session.id, session)
    return JSONResponse(described, 201, {"Location": request.url.path})


@router.delete("/sessions/{session_id}/recording")
async def stop(request: Request, session_id: str, session: OwnedEvenIfOver) -> dict[str, Any]:
    """End the recording, if one runs; its files are complete when this is answered."""
    if session is not None:
        await _recordings(session).stop()
    return await _described(runtime_of(request), session_id, session)


@router.get("/sessions/{session_id}/recording")
async def show(request: Request, session_id: str) -> dict[str, Any]:
    """Whether it is recorded, and all files of it; also of a session that is over."""
    runtime = runtime_of(request)
    session = runtime.find_session(session_id, bearer(request))
    return await _described(runtime, session_id, session)


@router.get("/sessions/{session_id}/recording/{name}", response_class=Response)
async def fetch(request: Request, session_id: str, name: str) -> Response:
    """A file of it; also of a session that is over. A link shows its token in the address."""
    runtime = runtime_of(request)
    session = runtime.find_session(session_id, bearer_or_query(request))
    path = await asyncio.to_thread(_store(runtime).path, session_id, name)
    if path is None:
        raise Problem("no-recording", f"The session has no recording {name!r}.")
    if session is not None and session.recordings is not None and session.recordings.is_written(name):
        raise Problem("recording-runs", "The recording still runs: stop it first.")
    return FileResponse(path, media_type="video/mp4", filename=f"{session_id}-{name}", headers=_NOT_KEPT)


_NOT_KEPT = {"Cache-Control": "no-store"}


def _store(runtime: Runtime) -> RecordingStore:
    if runtime.recordings is None:
        raise Problem("no-recordings", "This server keeps no recordings: whoever runs it can set --recordings.")
    return runtime.recordings


def _recordings(session: DemoSession) -> Recordings:
    if session.recordings is None:
        raise Problem("no-recordings", "This server keeps no recordings: whoever runs it can set --recordings.")
    return session.recordings


async def _described(runtime: Runtime, session_id: str, session: DemoSession | None) -> dict[str, Any]:
    store = _store(runtime)
    state = _OVER if session is None or session.recordings is None else session.recordings.describe()
    files = await asyncio.to_thread(store.files, session_id)
    at = f"/api/sessions/{session_id}/recording"
    return {**state, "files": [{"name": name, "bytes": size, "href": f"{at}/{name}"} for name, size in files]}
