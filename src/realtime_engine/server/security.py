"""Who is let in: the access token of the server, and pages of other sites."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from urllib.parse import urlsplit

from fastapi import WebSocket
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from .config import ServerConfig
from .problems import Problem

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
COOKIE = "realtime_engine_access"


def bearer(connection: HTTPConnection) -> str | None:
    """The token of ``Authorization: Bearer ...`` (RFC 6750), ``None`` without one."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def bearer_or_query(connection: HTTPConnection) -> str | None:
    """As :func:`bearer`, or ``?token=`` for what a browser fetches without headers."""
    return bearer(connection) or connection.query_params.get("token")


def same_secret(shown: str | None, expected: str) -> bool:
    """Compare without telling by the time it takes how much was right."""
    return shown is not None and secrets.compare_digest(shown.encode(), expected.encode())


def has_access(connection: HTTPConnection, token: str | None) -> bool:
    """Whether the client shows the server's token, as a bearer or in the cookie that the page was given."""
    if token is None:
        return True
    return same_secret(bearer(connection), token) or same_secret(connection.cookies.get(COOKIE), token)


def check_access(connection: HTTPConnection, token: str | None) -> None:
    """Errors: :class:`Problem` (401)."""
    if not has_access(connection, token):
        raise unauthorised("This server asks for a token: open the address with ?token=... that you were given.")


def is_allowed_origin(connection: HTTPConnection, allowed: Collection[str]) -> bool:
    """Whether the page that connects, if it is one, is this server's own or one of the allowed sites."""
    origin = connection.headers.get("origin")
    if origin is None or origin in allowed:
        return True
    return origin.partition("://")[2] == connection.headers.get("host")


class HostGate:
    """Answers only requests for names of this machine and of the allowed sites.

    A site whose name has been made to resolve to this machine (DNS rebinding) is of the same origin as the server for
    a browser, so that where nothing else is asked for, the name in ``Host`` decides.
    """

    def __init__(self, app: ASGIApp, config: ServerConfig) -> None:
        self._app = app
        sites = (urlsplit(origin).hostname for origin in config.allowed_origins)
        self._names = {*_LOOPBACK_NAMES, config.host.lower(), *filter(None, sites)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._is_ours(HTTPConnection(scope).headers.get("host")):
            await self._app(scope, receive, send)
            return
        problem = Problem("host", "Open it as localhost or 127.0.0.1, or add the site to the allowed origins.")
        if scope["type"] == "websocket":
            await refuse_handshake(WebSocket(scope, receive, send), problem)
        else:
            await problem.response()(scope, receive, send)

    def _is_ours(self, host: str | None) -> bool:
        if host is None:  # no browser
            return True
        try:
            return urlsplit(f"//{host}").hostname in self._names
        except ValueError:
            return False


async def refuse_handshake(socket: WebSocket, problem: Problem) -> None:
    """Refuse a WebSocket, with the problem as the body of the HTTP answer where the server can."""
    if "websocket.http.response" in socket.scope.get("extensions", {}):
        await socket.send_denial_response(problem.response())
    else:
        await socket.close(4000 + problem.status)


def unauthorised(detail: str) -> Problem:
    return Problem("token", detail, headers={"WWW-Authenticate": "Bearer"})
