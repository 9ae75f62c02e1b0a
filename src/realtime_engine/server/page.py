"""The web client, and the page that a demo brings of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from ..infra.demo import Demo
from .security import COOKIE, same_secret

_PACKAGE = Path(__file__).parents[1]
_PLACES = (_PACKAGE / "web", _PACKAGE.parents[1] / "web")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data: blob:; "
    "media-src 'self' blob:; base-uri 'self'; form-action 'none'; frame-ancestors 'self'"
)
"""Content Security Policy of the web client: nothing comes from elsewhere."""


class PageFiles(StaticFiles):
    """Files that browsers ask anew for after an update.

    Args:
        directory: where they are.
        policy: their Content Security Policy, if any.
    """

    def __init__(self, directory: Path, policy: str | None = None) -> None:
        super().__init__(directory=directory, html=True)
        self._policy = policy

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        if self._policy is not None:
            response.headers["Content-Security-Policy"] = self._policy
        return response


def web_folder() -> Path:
    """Where the web client is: inside the installed package, or beside the sources.

    Raises:
        FileNotFoundError: naming where it was looked for.
    """
    for place in _PLACES:
        if (place / "index.html").is_file():
            return place
    raise FileNotFoundError(f"the web client is missing: no index.html in {' or '.join(map(str, _PLACES))}")


def prefix_of(demo: Demo) -> str:
    """Below which a demo's own page and routes are."""
    return f"/demos/{demo.name}"


def install(app: FastAPI, demo: Demo, token: str | None) -> None:
    """Serve the pages of ``app``; call it after all routes, since ``/`` takes what is left."""
    if token is not None:
        app.get("/", include_in_schema=False)(_Entrance(token, PageFiles(web_folder(), POLICY)))
    if demo.page is not None:
        app.get(prefix_of(demo), include_in_schema=False)(_add_slash)
        app.mount(prefix_of(demo), PageFiles(demo.page))
    app.mount("/", PageFiles(web_folder(), POLICY))


async def _add_slash(request: Request) -> Response:
    """The page finds its own files beside it only at an address that ends with a slash."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{request.url.path}/{query}", 308)


class _Entrance:
    """Turns ``/?token=...`` into a cookie, so that the page itself need not know of the token."""

    def __init__(self, token: str, files: PageFiles) -> None:
        self._token = token
        self._files = files

    async def __call__(self, request: Request) -> Any:
        shown = request.query_params.get("token")
        if shown is None or not same_secret(shown, self._token):
            return await self._files.get_response("index.html", request.scope)
        response = RedirectResponse(request.url.path, 303)
        response.set_cookie(COOKIE, shown, httponly=True, samesite="strict", secure=request.url.scheme == "https")
        return response
