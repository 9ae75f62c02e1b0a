"""The ASGI application that serves a demo."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import PackageNotFoundError, version

from fastapi import APIRouter, FastAPI
from pydantic import BaseModel
from starlette.middleware.cors import CORSMiddleware

from ..infra.demo import Demo
from . import openapi, page, problems
from .config import ServerConfig
from .prefix import PathPrefix
from .routes import (
    controls,
    description,
    health,
    invitations,
    lobby,
    media,
    recording,
    sessions,
    takeover,
    tickets,
    trace,
    webrtc,
)
from .runtime import Runtime
from .security import HostGate

_ROUTERS = (
    description.router,
    sessions.router,
    tickets.router,
    invitations.router,
    takeover.router,
    lobby.router,
    controls.router,
    webrtc.router,
    media.router,
    recording.router,
    trace.router,
)


def create_app(demo: Demo, config: ServerConfig | None = None, *, options: BaseModel | None = None) -> FastAPI:
    """The ASGI application that serves a demo; it loads the model on startup.

    Args:
        demo: the demo.
        config: the settings; by default those of :class:`ServerConfig`.
        options: passed to ``demo.build``; by default ``demo.options()``.

    Raises:
        FileNotFoundError: the web client is missing.
        ImportError: the module of the demo's own routes cannot be imported.
        AttributeError: that module lacks the router.
        TypeError: the router is no ``fastapi.APIRouter``.
    """
    return build_app(demo, config or ServerConfig(), options)


def build_app(
    demo: Demo, config: ServerConfig, options: BaseModel | None = None, gallery: str | None = None
) -> FastAPI:
    """As :func:`create_app`, for a demo of the gallery at the link ``gallery``, relative to the demo's page."""
    runtime = Runtime(demo, config, options, gallery)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with runtime.running():
            yield

    app = bare_app(demo.title, config, lifespan)
    app.state.runtime = runtime
    app.state.end_streams = runtime.end_streams
    app.include_router(health.router)
    for router in _ROUTERS:
        app.include_router(router, prefix="/api")
    if demo.routes is not None:
        app.include_router(_demo_router(demo.routes), prefix=page.prefix_of(demo) + "/api")
    openapi.install(app)
    page.install(app, demo, config, in_gallery=gallery is not None)
    return app


def bare_app(
    title: str, config: ServerConfig, lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]]
) -> FastAPI:
    """An application without routes: it answers errors with problems, and applies the access rules and the prefix."""
    app = FastAPI(title=title, version=_version(), lifespan=lifespan, docs_url=None, redoc_url=None)
    problems.install(app)
    if config.allowed_origins:
        _add_cors(app, config)
    if config.is_loopback and config.token is None:
        app.add_middleware(HostGate, config=config)
    app.add_middleware(PathPrefix, prefix=config.root_path)
    return app


def _add_cors(app: FastAPI, config: ServerConfig) -> None:
    app.add_middleware(
        CORSMiddleware,
        allow_origins=list(config.allowed_origins),
        allow_methods=["GET", "POST", "PATCH", "DELETE"],
        allow_headers=["Authorization", "Content-Type", "If-Match"],
        expose_headers=["Location", "ETag", "Link", "Retry-After"],
    )


def _demo_router(target: str) -> APIRouter:
    module, _, attribute = target.partition(":")
    router = getattr(importlib.import_module(module), attribute)
    if not isinstance(router, APIRouter):
        raise TypeError(f"routes {target!r} must be a fastapi.APIRouter, got {router!r}")
    return router


def _version() -> str:
    try:
        return version("realtime-engine")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "0"
