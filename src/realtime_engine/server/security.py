"""Who is let in: the access token of the server, and pages of other sites."""

from __future__ import annotations

import secrets
from collections.abc import Collection

from starlette.requests import HTTPConnection

from .problems import Problem

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


def unauthorised(detail: str) -> Problem:
    return Problem("token", detail, headers={"WWW-Authenticate": "Bearer"})
