"""The web client, and the demo's own page."""

from __future__ import annotations

import gzip
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from ..infra.demo import Demo
from .config import ServerConfig
from .security import cookie_name, same_secret

_PACKAGE = Path(__file__).parents[1]
_GALLERY = "gallery.html"
_ROOT_IS_HERE = '<meta name="realtime-engine-root" content="./">'
_DIRECTORIES = (_PACKAGE / "web", _PACKAGE.parents[1] / "web")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data: blob:; "
    "media-src 'self' blob:; base-uri 'self'; form-action 'none'; "
)
"""Content Security Policy of the web client without ``frame-ancestors``: it loads nothing from other origins."""

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
}
"""Types of code. ``mimetypes`` reads them from the machine, which may say ``text/plain``; browsers then refuse them."""


_COMPRESSED = frozenset(_TYPES) - {".wasm"}


class PageFiles(StaticFiles):
    """Static files that browsers revalidate on each use, so that an update takes effect. Text is compressed.

    Args:
        directory: the directory of the files.
        policy: their Content Security Policy.
    """

    def __init__(self, directory: Path, policy: str) -> None:
        super().__init__(directory=directory, html=True)
        self._policy = policy

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file at ``path``, with the headers of the page."""
        response = await self._read(path, scope)
        if isinstance(response, RedirectResponse):  # to a folder, by the absolute address that the proxy has given
            query = f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
            response.headers["Location"] = f"{path.rstrip('/').rpartition('/')[2]}/{query}"
        response.headers["Cache-Control"] = "no-cache"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Content-Security-Policy"] = self._policy
        suffix = Path(getattr(response, "path", path)).suffix.lower()
        if response.status_code == 200 and suffix in _TYPES:
            response.headers["Content-Type"] = _TYPES[suffix]
        if isinstance(response, FileResponse) and response.status_code == 200 and suffix in _COMPRESSED:
            return await _compressed(response, scope)
        return response

    async def _read(self, path: str, scope: Scope) -> Response:
        return await super().get_response(path, scope)


class GalleryDemoFiles(PageFiles):
    """The web client of a demo in a gallery, whose page declares that the API is below its own folder.

    By its address alone, it could also be the custom page of a demo, whose API is at the root of the server.
    """

    async def _read(self, path: str, scope: Scope) -> Response:
        if path not in (".", "index.html"):
            return await super()._read(path, scope)
        page = (web_directory() / "index.html").read_text(encoding="utf-8")
        return HTMLResponse(page.replace("<head>", f"<head>\n  {_ROOT_IS_HERE}", 1))


async def _compressed(response: FileResponse, scope: Scope) -> Response:
    """The file as gzip if the client accepts it. The tag is weak, since it is that of the plain file too."""
    response.headers["Vary"] = "Accept-Encoding"
    headers = Headers(scope=scope)
    if "gzip" not in headers.get("accept-encoding", "") or "range" in headers or response.stat_result is None:
        return response
    path, modified = str(response.path), response.stat_result.st_mtime_ns
    body = await run_in_threadpool(_gzip, path, modified)
    compressed = Response(body, headers=dict(response.headers))
    compressed.headers["Content-Encoding"] = "gzip"
    compressed.headers["Content-Length"] = str(len(body))
    compressed.headers["ETag"] = f"W/{response.headers['etag']}"
    del compressed.headers["accept-ranges"]
    return compressed


@lru_cache(maxsize=256)
def _gzip(path: str, modified_ns: int) -> bytes:
    return gzip.compress(Path(path).read_bytes(), mtime=0)


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


def style_prefix_of(demo: Demo) -> str:
    """The path of the files of a demo's style."""
    return f"{prefix_of(demo)}/style"


def install(app: FastAPI, demo: Demo, config: ServerConfig, *, in_gallery: bool) -> None:
    """Add the pages to ``app``, after all routes: the mount at ``/`` matches every path that is left."""
    framing = _framing(config)
    files = (GalleryDemoFiles if in_gallery else PageFiles)(web_directory(), POLICY + framing)
    if config.token is not None:
        app.get("/", include_in_schema=False)(_TokenLogin(config, config.token, files, "index.html"))
    if demo.style.folder is not None:
        app.mount(style_prefix_of(demo), PageFiles(demo.style.folder, POLICY + framing))
    if demo.page is not None:
        app.get(prefix_of(demo), include_in_schema=False)(add_slash)
        app.mount(prefix_of(demo), PageFiles(demo.page, framing))
    app.mount("/", files)


def install_gallery(app: FastAPI, config: ServerConfig) -> None:
    """Add the page of a gallery to ``app``, after all routes: the mount at ``/`` matches every path that is left."""
    files = PageFiles(web_directory(), POLICY + _framing(config))

    async def gallery(request: Request) -> Response:
        return await files.get_response(_GALLERY, request.scope)

    if config.token is not None:
        app.get("/", include_in_schema=False)(_TokenLogin(config, config.token, files, _GALLERY))
    for path in ("/", "/index.html"):
        app.get(path, include_in_schema=False)(gallery)
    app.mount("/", files)


def _framing(config: ServerConfig) -> str:
    return " ".join(["frame-ancestors 'self'", *config.allowed_origins])


async def add_slash(request: Request) -> Response:
    """Relative links of the page need an address that ends with a slash."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{request.url.path.rpartition('/')[2]}/{query}", 308)


class _TokenLogin:
    """Exchanges ``/?token=...`` for a cookie, so that the page, the file ``name``, does not handle the token."""

    def __init__(self, config: ServerConfig, token: str, files: PageFiles, name: str) -> None:
        self._is_framed = bool(config.allowed_origins)
        self._token = token
        self._files = files
        self._name = name

    async def __call__(self, request: Request) -> Any:
        given = request.query_params.get("token")
        if given is None or not same_secret(given, self._token):
            return await self._files.get_response(self._name, request.scope)
        rest = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
        response = RedirectResponse(f"./?{urlencode(rest)}" if rest else "./", 303)
        secure = request.url.scheme == "https"
        is_framed = self._is_framed and secure  # a cookie for the frames of other sites has to be secure
        response.set_cookie(
            cookie_name(given), given, httponly=True, samesite="none" if is_framed else "strict", secure=secure
        )
        if is_framed:
            response.headers["Set-Cookie"] += "; Partitioned"
        return response
