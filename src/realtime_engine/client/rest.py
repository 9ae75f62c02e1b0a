"""The REST side of the server."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

from .errors import FullError, RefusedError, RejectedError, UnavailableError, UnreachableError

_RETRY_AFTER_S = 5.0


@dataclass(frozen=True)
class SessionGrant:
    """One session on the server: the answer of ``POST /api/sessions``."""

    session_id: str
    token: str
    links: Mapping[str, str]


class Rest:
    """Requests to one server.

    Args:
        base_url: where the page is, ending in a slash.
        token: what the server asks its visitors for, if it does.
        timeout_s: bound of one request.
    """

    def __init__(self, base_url: str, token: str | None, timeout_s: float) -> None:
        self.base_url = base_url
        self.timeout_s = timeout_s
        self._token = token
        # A proxy from the environment has no way to this machine.
        self.uses_proxy = not is_loopback(self.base_url)
        self.http = httpx.AsyncClient(timeout=timeout_s, trust_env=self.uses_proxy)

    def url(self, link: str) -> str:
        """An absolute address."""
        return urljoin(self.base_url, link)

    async def create(self, context: Mapping[str, Any]) -> SessionGrant:
        """Take a place."""
        answer = await self.request("POST", "api/sessions", json={"context": dict(context)})
        try:
            body = answer.json()
            return SessionGrant(body["session_id"], body["token"], body["links"])
        except (ValueError, KeyError, TypeError) as error:
            problem = {"detail": f"{self.base_url} answered no session ({error!r}): is it a Realtime Engine server?"}
            raise RefusedError(answer.status_code, problem) from error

    async def request(
        self,
        method: str,
        link: str,
        *,
        place: SessionGrant | None = None,
        headers: Mapping[str, str] | None = None,
        **body: Any,
    ) -> httpx.Response:
        """One request.

        Raises:
            UnreachableError: there is no answer.
            RefusedError: or one of its kinds, for a status of 400 or more.
        """
        token = self._token if place is None else place.token
        sent = {**bearer(token), **(headers or {})}
        try:
            response = await self.http.request(method, self.url(link), headers=sent, **body)
        except httpx.HTTPError as error:
            raise self.unreachable(error) from error
        if response.status_code >= 400:
            raise refusal(response)
        return response

    def unreachable(self, error: Exception) -> UnreachableError:
        return UnreachableError(f"{self.base_url} does not answer: {error or type(error).__name__}")

    async def close(self) -> None:
        await self.http.aclose()


def bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def refusal(response: httpx.Response) -> RefusedError:
    """The error that a response of 400 or more stands for; its body has been read."""
    try:
        problem = response.json()
    except json.JSONDecodeError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"detail": f"the server answered {response.status_code} {response.reason_phrase}"}
    if response.status_code == 503:
        kind = FullError if str(problem.get("type", "")).endswith(":full") else UnavailableError
        return kind(503, problem, _seconds(response.headers.get("Retry-After")))
    if response.status_code == 422:
        return RejectedError(422, problem)
    return RefusedError(response.status_code, problem)


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isdecimal() else _RETRY_AFTER_S
