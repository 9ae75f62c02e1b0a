"""Several demos in one server: a gallery, and each demo below a path of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST

from ..core.clock import MONOTONIC, Clock
from ..infra.demo import Demo
from . import page
from .app import bare_app
from .config import ServerConfig
from .metrics import labelled_text
from .mounted_demo import DemoState, MountedDemo
from .problems import Problem
from .security import check_access

_REVIEW_PERIOD_S = 1.0
_NO_STORE = {"Cache-Control": "no-store"}

router = APIRouter(tags=["gallery"])


class Gallery:
    """The demos of a server. Belongs to one event loop.

    Args:
        demos: the demos, in the order in which they are shown.
        config: the settings of the server, which apply to each demo.
        clock: the current time.

    Attributes:
        demos: by their names in the paths of the server.
        config: as given.

    Raises:
        ValueError: there are no demos.
        FileNotFoundError, ImportError, AttributeError, TypeError: as :func:`~.app.create_app`.
    """

    def __init__(self, demos: Sequence[Demo], config: ServerConfig, clock: Clock = MONOTONIC) -> None:
        if not demos:
            raise ValueError("a gallery must have at least one demo")
        self.config = config
        names = unique_names([demo.name for demo in demos])
        self.demos = {name: MountedDemo(name, demo, config, clock) for name, demo in zip(names, demos, strict=True)}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Unload idle demos inside the context; on exit all demos are unloaded, in bounded time."""
        review = asyncio.create_task(self._review(), name="gallery")
        try:
            yield
        finally:
            review.cancel()
            await asyncio.gather(*(demo.close() for demo in self.demos.values()))

    def end_streams(self) -> None:
        """End all responses and connections that have no end of their own."""
        for demo in self.demos.values():
            demo.end_streams()

    async def _review(self) -> None:
        period_s = min(_REVIEW_PERIOD_S, self.config.unload_after_s or _REVIEW_PERIOD_S)
        while True:
            await asyncio.sleep(period_s)
            await asyncio.gather(*(demo.review() for demo in self.demos.values()))


def create_gallery_app(demos: Sequence[Demo], config: ServerConfig | None = None) -> FastAPI:
    """The ASGI application that serves several demos, each below ``/demos/NAME/``, and a page that shows them.

    A demo is loaded at its first use, with the defaults of its options.

    Args:
        demos: the demos, in the order in which they are shown. Of several with the same name, the second gets the path
            ``NAME-2``, and so on.
        config: the settings, which apply to each demo; by default those of :class:`ServerConfig`.

    Raises:
        ValueError: there are no demos.
        FileNotFoundError: the web client is missing.
        ImportError: the module of a demo's own routes cannot be imported.
        AttributeError: that module lacks the router.
        TypeError: the router is no ``fastapi.APIRouter``.
    """
    gallery = Gallery(demos, config or ServerConfig())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with gallery.running():
            yield

    app = bare_app("Realtime Engine", gallery.config, lifespan)
    app.state.gallery = gallery
    app.state.end_streams = gallery.end_streams
    app.include_router(router)
    for name, demo in gallery.demos.items():
        app.get(f"/demos/{name}", include_in_schema=False)(page.add_slash)
        app.mount(f"/demos/{name}", demo)
    page.install_gallery(app, gallery.config)
    return app


def unique_names(names: Iterable[str]) -> list[str]:
    """The names, where each one that has occurred before is numbered: ``maze``, ``maze-2``."""
    names = list(names)
    unique: list[str] = []
    for name in names:
        number, candidate = 1, name
        while candidate in unique or (number > 1 and candidate in names):
            number += 1
            candidate = f"{name}-{number}"
        unique.append(candidate)
    return unique


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """200 while the process responds."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz() -> dict[str, str]:
    """200 while the server accepts requests; ``/demos/NAME/readyz`` is about the model of one demo."""
    return {"status": "ready"}


@router.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Any:
    """The metrics of all loaded demos in the Prometheus text format, with the label ``demo``."""
    gallery = _gallery_of(request)
    families = {name: demo.metrics() for name, demo in gallery.demos.items()}
    return Response(labelled_text(families), media_type=CONTENT_TYPE_LATEST)


@router.get("/api/demos")
async def list_demos(request: Request) -> dict[str, Any]:
    """The demos and their states. Does not load any."""
    return {"demos": [_describe(demo) for demo in _gallery_of(request).demos.values()]}


@router.get("/api/demos/{name}/picture.jpg", response_class=Response)
async def picture(request: Request, name: str) -> Response:
    """A small picture of what is played, or of what was; 404 if there is none."""
    demo = _gallery_of(request).demos.get(name)
    if demo is None:
        raise Problem("not-found", f"There is no demo {name!r}.")
    taken = await demo.picture()
    if taken is None:
        raise Problem("no-frame", "The demo has no picture yet.")
    return Response(taken, headers=_NO_STORE, media_type="image/jpeg")


def _gallery_of(request: Request) -> Gallery:
    """The gallery of the application, for a client with the server's token."""
    gallery = request.app.state.gallery
    assert isinstance(gallery, Gallery)
    check_access(request, gallery.config.token)
    return gallery


def _describe(demo: MountedDemo) -> dict[str, Any]:
    state, runtime = demo.state, demo.runtime
    manifest = None if runtime is None else runtime.host.manifest
    links = {"page": f"demos/{demo.name}/"}
    if demo.has_picture:
        links["picture"] = f"api/demos/{demo.name}/picture.jpg"
    return {
        "name": demo.name,
        "title": demo.demo.title,
        "description": demo.demo.description,
        "state": state.value,
        "progress": runtime.progress() if runtime is not None and state is DemoState.LOADING else None,
        "error": demo.error,
        "capacity": None if manifest is None else manifest.max_sessions,
        "playing": 0 if runtime is None else len(runtime.running_sessions),
        "waiting": 0 if runtime is None else runtime.waiting,
        "links": links,
    }
