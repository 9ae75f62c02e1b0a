"""The recordings of a session: start, stop, list, download."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, JSONResponse, Response

from ...infra.recording import RecordingRuns, RecordingStore, StorageFull
from ..problems import Problem, session_over
from ..runtime import Runtime, runtime_of
from ..security import bearer, bearer_or_query
from ..sessions.engine_requests import SessionOver
from ..sessions.recordings import Recordings
from ..sessions.session import DemoSession
from .sessions import Owned, OwnedIfAlive

logger = logging.getLogger(__name__)

router = APIRouter(tags=["recording"])

_NO_STORE = {"Cache-Control": "no-store"}
_ENDED = {"state": "stopped", "reason": "session-over", "seconds": 0.0, "bytes": 0}


@router.post("/sessions/{session_id}/recording", status_code=201)
async def start(request: Request, session: Owned) -> Response:
    """Record the session as MP4, from the packets that viewers get; 409 while it is being recorded."""
    recordings = _recordings(session)
    try:
        await recordings.start()
    except RecordingRuns as error:
        raise Problem("recording-runs", str(error)) from error
    except StorageFull as error:
        raise Problem("no-storage", str(error)) from error
    except OSError as error:
        logger.error("a recording cannot be stored: %s", error)
        raise Problem("no-storage", "The server cannot write the recording. See the server log for details.") from error
    except SessionOver:
        raise session_over() from None
    described = await _describe(runtime_of(request), session.id, session)
    return JSONResponse(described, 201, {"Location": "recording"})


@router.delete("/sessions/{session_id}/recording")
async def stop(request: Request, session_id: str, session: OwnedIfAlive) -> dict[str, Any]:
    """Stop the recording, if there is one; its files are complete in the response."""
    if session is not None:
        await _recordings(session).stop()
    return await _describe(runtime_of(request), session_id, session)


@router.get("/sessions/{session_id}/recording")
async def show(request: Request, session_id: str) -> dict[str, Any]:
    """The state of the recording and all of the session's files, even after the session has ended."""
    runtime = runtime_of(request)
    session = runtime.find_session(session_id, bearer(request))
    return await _describe(runtime, session_id, session)


@router.get("/sessions/{session_id}/recording/{name}", response_class=Response)
async def fetch(request: Request, session_id: str, name: str) -> Response:
    """A recording, even after the session has ended. A link sends its token in the URL."""
    runtime = runtime_of(request)
    session = runtime.find_session(session_id, bearer_or_query(request))
    path = await asyncio.to_thread(_store(runtime).path, session_id, name)
    if path is None:
        raise Problem("no-recording", f"The session has no recording {name!r}.")
    if session is not None and _recordings(session).is_written(name):
        raise Problem("recording-runs", "The recording is in progress. Stop it first.")
    return FileResponse(path, media_type="video/mp4", filename=f"{session_id}-{name}", headers=_NO_STORE)


def _store(runtime: Runtime) -> RecordingStore:
    if runtime.recordings is None:
        raise _disabled()
    return runtime.recordings


def _recordings(session: DemoSession) -> Recordings:
    if session.media.recordings is None:
        raise _disabled()
    return session.media.recordings


def _disabled() -> Problem:
    return Problem("no-recordings", "Recording is disabled on this server; --recordings enables it.")


async def _describe(runtime: Runtime, session_id: str, session: DemoSession | None) -> dict[str, Any]:
    store = _store(runtime)
    recordings = None if session is None else session.media.recordings
    state = _ENDED if recordings is None else recordings.describe()
    files = await asyncio.to_thread(store.files, session_id)
    base = f"api/sessions/{session_id}/recording"
    return {**state, "files": [{"name": name, "bytes": size, "href": f"{base}/{name}"} for name, size in files]}
