"""HTTP requests to the server."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

from .errors import ClientError, FullError, RefusedError, RejectedError, UnavailableError, UnreachableError

_RETRY_AFTER_S = 5.0
_TICKET_POLL_S = 1.0


@dataclass(frozen=True)
class SessionGrant:
    """A session that the client has created or joined, and its role when it did."""

    session_id: str
    token: str
    links: Mapping[str, str]
    role: str = "owner"


class Rest:
    """Requests to one server.

    Args:
        base_url: URL of the page, with a trailing slash.
        token: access token of the server, if it requires one.
        timeout_s: timeout of one request.
    """

    def __init__(self, base_url: str, token: str | None, timeout_s: float) -> None:
        self.base_url = base_url
        self.timeout_s = timeout_s
        self._token = token
        # A proxy from the environment cannot reach loopback addresses.
        self.uses_proxy = not is_loopback(self.base_url)
        self.http = httpx.AsyncClient(timeout=timeout_s, trust_env=self.uses_proxy)

    def url(self, link: str) -> str:
        """The absolute URL of a link."""
        return urljoin(self.base_url, link)

    async def create(self, context: Mapping[str, Any], queue_timeout_s: float | None = 0.0) -> SessionGrant:
        """Create a session, after waiting in line if there is no place.

        Args:
            context: the fields of the session.
            queue_timeout_s: how long to wait in line, in seconds; ``None``: without a limit.

        Raises:
            FullError: there is no place in time, or the line is full.
            UnreachableError: the server does not respond.
            RefusedError: the server refuses the session, or is not a Realtime Engine server.
        """
        deadline_s = None if queue_timeout_s is None else time.monotonic() + queue_timeout_s
        body: dict[str, Any] = {"context": dict(context)}
        while True:
            answer = await self.request("POST", "api/sessions", json=body)
            with self._expecting_a_session(answer):
                given = answer.json()
                if answer.status_code != 202:
                    return _grant_in(given)
                body["ticket"], link = given["ticket"], given["links"]["self"]
            await self._wait_in_line(link, given, deadline_s)

    async def join(self, invitation: str) -> SessionGrant:
        """Join a session by the token of an invitation.

        Raises:
            UnreachableError: the server does not respond.
            RefusedError: the invitation was revoked or is over, or it is not a Realtime Engine server.
        """
        answer = await self.request("POST", "api/invitations", json={"token": invitation})
        with self._expecting_a_session(answer):
            return _grant_in(answer.json())

    @contextlib.contextmanager
    def _expecting_a_session(self, answer: httpx.Response) -> Iterator[None]:
        """Raise :class:`RefusedError` if the body of ``answer`` is not what the server returns for a session."""
        try:
            yield
        except (ValueError, KeyError, TypeError) as error:
            detail = f"{self.base_url} returned no session ({error!r}): is it a Realtime Engine server?"
            raise RefusedError(answer.status_code, {"detail": detail}) from error

    async def _wait_in_line(self, link: str, ticket: Mapping[str, Any], deadline_s: float | None) -> None:
        """Wait until a place is reserved; otherwise leave the line."""
        try:
            while ticket.get("state") == "waiting":
                if deadline_s is not None and time.monotonic() + _TICKET_POLL_S > deadline_s:
                    raise _no_place(ticket)
                await asyncio.sleep(_TICKET_POLL_S)
                ticket = (await self.request("GET", link)).json()
        except BaseException as error:
            if isinstance(error, RefusedError) and error.status == 410:
                return  # the ticket is over: the next request gets a new one
            with contextlib.suppress(ClientError):
                await self.request("DELETE", link)
            raise

    async def request(
        self,
        method: str,
        link: str,
        *,
        grant: SessionGrant | None = None,
        headers: Mapping[str, str] | None = None,
        **body: Any,
    ) -> httpx.Response:
        """Send a request.

        Raises:
            UnreachableError: the server does not respond.
            RefusedError: the status is 400 or more; subclasses for particular problems.
        """
        token = self._token if grant is None else grant.token
        sent = {**bearer(token), **(headers or {})}
        try:
            response = await self.http.request(method, self.url(link), headers=sent, **body)
        except httpx.HTTPError as error:
            raise self.unreachable(error) from error
        if response.status_code >= 400:
            raise refusal(response)
        return response

    def unreachable(self, error: Exception) -> UnreachableError:
        """The error for a request without a response."""
        return UnreachableError(f"{self.base_url} does not respond: {error or type(error).__name__}")

    async def close(self) -> None:
        """Close all connections."""
        await self.http.aclose()


def bearer(token: str | None) -> dict[str, str]:
    """Headers with a bearer token; empty without a token."""
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def refusal(response: httpx.Response) -> RefusedError:
    """The error for a response with a status of 400 or more, whose body has been read."""
    try:
        problem = response.json()
    except json.JSONDecodeError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"detail": f"the server responded with {response.status_code} {response.reason_phrase}"}
    if response.status_code == 503:
        kind = FullError if str(problem.get("type", "")).endswith(":full") else UnavailableError
        return kind(503, problem, _seconds(response.headers.get("Retry-After")))
    if response.status_code == 422:
        return RejectedError(422, problem)
    return RefusedError(response.status_code, problem)


def _grant_in(body: Mapping[str, Any]) -> SessionGrant:
    return SessionGrant(body["session_id"], body["token"], body["links"], body.get("role", "owner"))


def _no_place(ticket: Mapping[str, Any]) -> FullError:
    wait_s = float(ticket.get("estimated_wait_s", _RETRY_AFTER_S))
    detail = f"all sessions are in use; position {ticket.get('position')} in the waiting line, about {wait_s:.0f} s"
    return FullError(202, {"type": "urn:realtime-engine:problem:full", "detail": detail}, wait_s)


def is_loopback(url: str) -> bool:
    """Whether the host of a URL is a loopback address or ``localhost``."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isdecimal() else _RETRY_AFTER_S
