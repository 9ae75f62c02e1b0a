"""Who a request comes from, as far as admission is concerned: a cookie and an address."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from fastapi.responses import Response
from starlette.requests import HTTPConnection

from ..security import cookie_of_port

__all__ = ["Client", "client_of", "exceeds_limit", "remember"]

_MAX_AGE_S = 24 * 3600
_MAX_KEY = 64  # characters


@dataclass(frozen=True)
class Client:
    """A browser or program.

    Attributes:
        key: its cookie; a new one for a client that sends none.
        address: its IP address, behind trusted proxies the one that they report; ``""`` if it is unknown.
    """

    key: str
    address: str


def client_of(connection: HTTPConnection) -> Client:
    """The client that sends a request."""
    key = connection.cookies.get(cookie_name(connection), "")
    if not 0 < len(key) <= _MAX_KEY:
        key = secrets.token_urlsafe(18)
    return Client(key, connection.client.host if connection.client else "")


def remember(response: Response, connection: HTTPConnection, client: Client) -> None:
    """Set the cookie that identifies the client at its next request."""
    secure = connection.url.scheme == "https"
    response.set_cookie(
        cookie_name(connection), client.key, max_age=_MAX_AGE_S, httponly=True, samesite="lax", secure=secure
    )


def cookie_name(connection: HTTPConnection) -> str:
    """The name of the cookie that identifies a client of this server."""
    return cookie_of_port("realtime_engine_client", connection)


def exceeds_limit(client: Client, others: Iterable[Client], limit: int | None) -> bool:
    """Whether the client, by cookie or by address, has ``limit`` entries among ``others`` already."""
    if limit is None:
        return False
    found = list(others)
    by_key = Counter(other.key for other in found)[client.key]
    by_address = Counter(other.address for other in found)[client.address] if client.address else 0
    return max(by_key, by_address) >= limit
