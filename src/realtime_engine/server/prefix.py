"""The path prefix of a server behind a reverse proxy, and which proxies may name it."""

from __future__ import annotations

import os
import re

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

PREFIX = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")
"""A path prefix: segments of unreserved characters (RFC 3986, section 2.3), without a slash at the end."""

_HEADER = b"x-forwarded-prefix"
_KEY = "realtime_engine.prefix"
_MAX_LENGTH = 256


def is_own_path(prefix: str) -> bool:
    """Whether a prefix begins like the paths of the server, from which it could not be told apart."""
    return prefix.split("/")[1:2] in (["api"], ["demos"])


def path_below_prefix(scope: Scope) -> str:
    """The path of a request below the prefix of the application."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


class TrustedProxies:
    """ASGI middleware that reads the ``X-Forwarded-*`` headers of trusted proxies, and ignores those of all others.

    A client that could name a prefix would get past a proxy that refuses paths: the server removes the prefix.

    Args:
        app: the application, with :class:`PathPrefix` in it.
        hosts: addresses of the trusted proxies, as of uvicorn's ``forwarded_allow_ips``; by default those of the
            environment variable ``FORWARDED_ALLOW_IPS``, or 127.0.0.1.
    """

    def __init__(self, app: ASGIApp, hosts: list[str] | str | None = None) -> None:
        if hosts is None:
            hosts = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1")
        self._app = ProxyHeadersMiddleware(app, hosts)  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request of a proxy or of a client."""
        client = scope.get("client")
        if client and client[0] in self._app.trusted_hosts:
            named = [value for name, value in scope["headers"] if name == _HEADER]
            scope = {**scope, _KEY: named[-1].decode("latin-1") if named else ""}
        await self._app(scope, receive, send)  # type: ignore[arg-type]


class PathPrefix:
    """ASGI middleware that takes the prefix below which a proxy serves the application from its ``root_path``.

    The proxy may remove the prefix from the paths or leave it. Below :class:`TrustedProxies`, a trusted proxy may name
    another one in ``X-Forwarded-Prefix``. A mounted application has the prefix of its mount.

    Args:
        app: the application.
        prefix: the prefix of requests for which no proxy names one; empty for none.
    """

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request below its prefix."""
        if scope["type"] != "lifespan" and not scope.get("root_path"):
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
        given = str(scope.get(_KEY, "")).rstrip("/")
        is_valid = given and len(given) <= _MAX_LENGTH and PREFIX.fullmatch(given)
        return given if is_valid and not is_own_path(given) else self._prefix
