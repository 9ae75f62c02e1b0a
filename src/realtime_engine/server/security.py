"""Access control: the server's token, allowed origins and allowed host names."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from urllib.parse import urlsplit

from fastapi import WebSocket
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from .config import ServerConfig
from .problems import Problem

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def bearer(connection: HTTPConnection) -> str | None:
    """The token of ``Authorization: Bearer ...`` (RFC 6750); ``None`` without one."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def bearer_or_query(connection: HTTPConnection) -> str | None:
    """As :func:`bearer`, or ``?token=`` for requests to which a browser adds no headers."""
    return bearer(connection) or connection.query_params.get("token")


def cookie_of_port(name: str, connection: HTTPConnection) -> str:
    """The name of a cookie of this server alone: browsers send cookies to all ports of a host."""
    return f"{name}_{connection.url.port or 0}"


def cookie_name(token: str) -> str:
    """The name of the cookie with the server's token.

    Browsers send a cookie to all ports of a host, and servers below two prefixes share a port: each token has its own.
    """
    return f"realtime_engine_access_{hashlib.sha256(token.encode()).hexdigest()[:8]}"


def same_secret(given: str | None, expected: str) -> bool:
    """Compare in constant time; false for ``None``."""
    return given is not None and secrets.compare_digest(given.encode(), expected.encode())


def has_access(connection: HTTPConnection, token: str | None) -> bool:
    """Whether the client sends the server's token, as a bearer token or in the page's cookie."""
    if token is None:
        return True
    return same_secret(bearer(connection), token) or same_secret(connection.cookies.get(cookie_name(token)), token)


def check_access(connection: HTTPConnection, token: str | None) -> None:
    """Refuse a client without the server's token.

    Raises:
        Problem: the token is missing or wrong (401).
    """
    if not has_access(connection, token):
        raise unauthorized("This server requires a token. Open the address that contains ?token=...")


def is_allowed_origin(connection: HTTPConnection, allowed: Collection[str]) -> bool:
    """Whether the request comes from no page, from this server's own page or from an allowed origin.

    A proxy may replace ``Host``, so that the origin of the server's own page is another one. The browser says that they
    are the same in ``Sec-Fetch-Site`` (W3C Fetch Metadata Request Headers), which no page can set; it sends that over
    HTTPS and to loopback. A page whose name was rebound to this machine (:class:`HostGate`) is of the same origin in
    either way.
    """
    origin = connection.headers.get("origin")
    if origin is None or origin in allowed or connection.headers.get("sec-fetch-site") == "same-origin":
        return True
    return origin.partition("://")[2] == connection.headers.get("host")


def check_origin(connection: HTTPConnection, allowed: Collection[str]) -> None:
    """Refuse a request from a page of an origin that is not allowed.

    Raises:
        Problem: as :func:`is_allowed_origin` (403).
    """
    if not is_allowed_origin(connection, allowed):
        origin = connection.headers.get("origin")
        detail = (
            f"{origin} is not one of the allowed origins. If a proxy serves this page, it has to pass the Host header."
        )
        raise Problem("origin", detail)


def unauthorized(detail: str) -> Problem:
    """The problem for a missing or wrong token."""
    return Problem("token", detail, headers={"WWW-Authenticate": "Bearer"})


class HostGate:
    """ASGI middleware that refuses requests for host names other than loopback and the allowed origins.

    It protects a loopback server without a token from DNS rebinding, where a site's name is made to resolve to this
    machine and the browser treats the server as part of that site.

    Args:
        app: the application.
        config: names the host and the allowed origins.
    """

    def __init__(self, app: ASGIApp, config: ServerConfig) -> None:
        self._app = app
        allowed = (urlsplit(origin).hostname for origin in config.allowed_origins)
        self._names = {*_LOOPBACK_NAMES, config.host.lower(), *filter(None, allowed)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it with a problem."""
        if scope["type"] == "lifespan" or self._is_allowed(HTTPConnection(scope).headers.get("host")):
            await self._app(scope, receive, send)
            return
        problem = Problem("host", "Open the server as localhost or 127.0.0.1, or add the site to the allowed origins.")
        if scope["type"] == "websocket":
            await refuse_handshake(WebSocket(scope, receive, send), problem)
        else:
            await problem.response()(scope, receive, send)

    def _is_allowed(self, host: str | None) -> bool:
        if host is None:  # not a browser
            return True
        try:
            return urlsplit(f"//{host}").hostname in self._names
        except ValueError:
            return False


async def refuse_handshake(socket: WebSocket, problem: Problem) -> None:
    """Refuse a WebSocket with a problem as the HTTP response, or by a close code where the server supports none."""
    if "websocket.http.response" in socket.scope.get("extensions", {}):
        await socket.send_denial_response(problem.response())
    else:
        await socket.close(4000 + problem.status)
