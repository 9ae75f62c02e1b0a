"""The web client, and the demo's own page."""

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
_DIRECTORIES = (_PACKAGE / "web", _PACKAGE.parents[1] / "web")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data: blob:; "
    "media-src 'self' blob:; base-uri 'self'; form-action 'none'; frame-ancestors 'self'"
)
"""Content Security Policy of the web client: it loads nothing from other origins."""


class PageFiles(StaticFiles):
    """Static files that browsers revalidate on each use, so that an update takes effect.

    Args:
        directory: the directory of the files.
        policy: their Content Security Policy, if any.
    """

    def __init__(self, directory: Path, policy: str | None = None) -> None:
        super().__init__(directory=directory, html=True)
        self._policy = policy

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file at ``path``, with the headers of the page."""
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        if self._policy is not None:
            response.headers["Content-Security-Policy"] = self._policy
        return response


def web_directory() -> Path:
    """The directory of the web client: in the installed package, or beside the sources.

    Raises:
        FileNotFoundError: the web client is missing; names the directories searched.
    """
    for directory in _DIRECTORIES:
        if (directory / "index.html").is_file():
            return directory
    raise FileNotFoundError(f"the web client is missing: no index.html in {' or '.join(map(str, _DIRECTORIES))}")


def prefix_of(demo: Demo) -> str:
    """The path prefix of a demo's own page and routes."""
    return f"/demos/{demo.name}"


def install(app: FastAPI, demo: Demo, token: str | None) -> None:
    """Add the pages to ``app``, after all routes: the mount at ``/`` matches every path that is left."""
    if token is not None:
        app.get("/", include_in_schema=False)(_TokenLogin(token, PageFiles(web_directory(), POLICY)))
    if demo.page is not None:
        app.get(prefix_of(demo), include_in_schema=False)(_add_slash)
        app.mount(prefix_of(demo), PageFiles(demo.page))
    app.mount("/", PageFiles(web_directory(), POLICY))


async def _add_slash(request: Request) -> Response:
    """Relative links of the page need an address that ends with a slash."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{request.url.path}/{query}", 308)


class _TokenLogin:
    """Exchanges ``/?token=...`` for a cookie, so that the page does not handle the token."""

    def __init__(self, token: str, files: PageFiles) -> None:
        self._token = token
        self._files = files

    async def __call__(self, request: Request) -> Any:
        given = request.query_params.get("token")
        if given is None or not same_secret(given, self._token):
            return await self._files.get_response("index.html", request.scope)
        response = RedirectResponse(request.url.path, 303)
        response.set_cookie(COOKIE, given, httponly=True, samesite="strict", secure=request.url.scheme == "https")
        return response
