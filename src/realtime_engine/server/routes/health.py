"""Liveness, readiness and metrics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST

from ..engine_host import EngineState
from ..problems import Problem, loading, stalled
from ..runtime import runtime_of
from ..security import check_access, has_access

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """200 while the process responds."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: Request) -> dict[str, str]:
    """200 once sessions can start, 503 while the model loads or does not respond, 500 if it failed.

    Clients without the server's token get no reason for a failure.
    """
    runtime = runtime_of(request)
    host = runtime.host
    if host.state is EngineState.LOADING:
        raise loading(host.progress.message)
    if host.state is EngineState.FAILED:
        error = host.error if has_access(request, runtime.config.token) else None
        raise Problem("engine-failed", error or "The model failed.")
    if runtime.is_stalled:
        raise stalled()
    return {"status": "ready"}


@router.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Any:
    """The metrics in the Prometheus text format."""
    runtime = runtime_of(request)
    check_access(request, runtime.config.token)
    return Response(runtime.metrics.text(), media_type=CONTENT_TYPE_LATEST)
