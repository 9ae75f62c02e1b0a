"""The path prefix of a server behind a reverse proxy."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")
"""A path prefix: segments of unreserved characters (RFC 3986, section 2.3), without a slash at the end."""

_MAX_LENGTH = 256


class PathPrefix:
    """ASGI middleware that takes the prefix below which a proxy serves the application from its ``root_path``.

    The proxy may remove the prefix from the paths or leave it, and may name another one in ``X-Forwarded-Prefix``.

    Args:
        app: the application.
        prefix: the prefix of requests without the header; empty for none.
    """

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request below its prefix."""
        if scope["type"] != "lifespan":
            prefix = self._prefix_of(scope)
            if prefix:
                path: str = scope["path"]
                if path == prefix and scope["type"] == "http":  # relative links of the page need the slash
                    query = scope["query_string"].decode("latin-1")
                    target = f"{prefix.rpartition('/')[2]}/{'?' if query else ''}{query}"
                    await RedirectResponse(target, 308)(scope, receive, send)
                    return
                is_whole = path.startswith(prefix + "/")
                scope = {**scope, "root_path": prefix, "path": path if is_whole else prefix + path}
        await self._app(scope, receive, send)

    def _prefix_of(self, scope: Scope) -> str:
        given = Headers(scope=scope).get("x-forwarded-prefix", "").rstrip("/")
        is_valid = given and len(given) <= _MAX_LENGTH and PREFIX.fullmatch(given)
        return given if is_valid else self._prefix
