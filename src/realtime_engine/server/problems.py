"""Problem details (RFC 9457): every error response has a stable ``type``."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:realtime-engine:problem:"

TITLES: Mapping[str, tuple[int, str]] = {
    "bad-request": (400, "The request is malformed"),
    "bad-offer": (400, "The SDP offer is invalid or not supported"),
    "bad-candidate": (400, "The ICE candidates are invalid"),
    "token": (401, "The token is missing or invalid"),
    "origin": (403, "The origin is not allowed"),
    "host": (403, "The host name is not allowed"),
    "role": (403, "The role does not allow this"),
    "not-found": (404, "Not found"),
    "no-session": (404, "The session does not exist"),
    "no-invitation": (404, "The invitation does not exist"),
    "no-ticket": (404, "The ticket does not exist"),
    "no-viewer": (404, "The connection does not exist"),
    "no-video-input": (404, "The demo does not take video"),
    "no-recordings": (404, "Recording is disabled"),
    "no-recording": (404, "The recording does not exist"),
    "no-frame": (404, "No frame is available yet"),
    "method": (405, "Method not allowed"),
    "too-slow": (408, "The request timed out"),
    "recording-runs": (409, "The session is being recorded"),
    "session-over": (410, "The session has ended"),
    "turn-over": (410, "The turn has ended"),
    "ticket-over": (410, "The ticket is not in the line any more"),
    "invitation-over": (410, "The invitation cannot be used any more"),
    "precondition": (412, "The connection has changed (If-Match failed)"),
    "too-large": (413, "The request is too large"),
    "media-type": (415, "Unsupported media type"),
    "invalid-request": (422, "The request is invalid"),
    "invalid-context": (422, "The session context is invalid"),
    "too-many": (429, "The client has too many sessions"),
    "internal": (500, "Internal server error"),
    "engine-failed": (500, "The model failed"),
    "demo-failed": (503, "The demo failed"),
    "unloaded": (503, "The demo is not loaded"),
    "loading": (503, "The model is loading"),
    "full": (503, "All sessions are in use"),
    "no-webrtc": (503, "WebRTC is currently unavailable"),
    "stalled": (503, "The model is not responding"),
    "closing": (503, "The server is shutting down"),
    "no-storage": (507, "The recording cannot be stored"),
}
"""Status and title by kind; a problem's ``type`` is :data:`TYPE_PREFIX` and its kind."""

TURN_IS_OVER = "its turn is over"
"""The reason for which the server ends a session whose place others wait for."""

_MAX_ERRORS = 8


class Problem(Exception):
    """An error response.

    Args:
        kind: a key of :data:`TITLES`.
        detail: a sentence for people.
        errors: what is wrong with which part of the request: pairs of a JSON Pointer (RFC 6901, as a URI fragment) and
            a sentence.
        headers: additional headers.
    """

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        errors: Iterable[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.status, self.title = TITLES[kind]
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """The ``application/problem+json`` response."""
        body: dict[str, Any] = {
            "type": TYPE_PREFIX + self.kind,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            body["errors"] = [{"pointer": pointer, "detail": detail} for pointer, detail in self.errors]
        return JSONResponse(body, self.status, self.headers, media_type=MEDIA_TYPE)


def stalled() -> Problem:
    """The engine has not replied in time."""
    detail = "The current model step has not finished. Try again later."
    return Problem("stalled", detail, headers={"Retry-After": "5"})


def loading(step: str) -> Problem:
    """The model loads; ``step`` is what it reports of its progress."""
    return Problem("loading", f"The model is loading: {step}.", headers={"Retry-After": "1"})


def closing() -> Problem:
    """The server shuts down."""
    return Problem("closing", "The server is shutting down.", headers={"Retry-After": "5"})


def session_over(reason: str = "") -> Problem:
    """The session has ended, for ``reason`` if it is known."""
    if reason == TURN_IS_OVER:
        return Problem("turn-over", "Your turn has ended, because others wait.")
    return Problem("session-over", f"The session has ended{f' ({reason})' if reason else ''}. Start a new one.")


def pointer(*path: str | int) -> str:
    """A JSON Pointer as a URI fragment: ``#/context/seed``."""
    return "#" + "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def install(app: FastAPI) -> None:
    """Answer every error of ``app`` with a problem."""
    app.add_exception_handler(Problem, _answer_problem)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(Exception, _answer_unexpected)


async def _answer_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


async def _answer_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = {404: "not-found", 405: "method"}.get(error.status_code)
    if kind is not None:
        return Problem(kind, f"{request.method} {request.url.path}", headers=error.headers).response()
    title = HTTPStatus(error.status_code).phrase
    body = {"type": "about:blank", "title": title, "status": error.status_code, "detail": error.detail}
    return JSONResponse(body, error.status_code, error.headers, media_type=MEDIA_TYPE)


async def _answer_invalid(request: Request, error: Exception) -> Response:
    """Path and query parameters; bodies are checked where they are read."""
    assert isinstance(error, RequestValidationError)
    texts = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:_MAX_ERRORS]]
    return Problem("invalid-request", "; ".join(texts)).response()


async def _answer_unexpected(request: Request, error: Exception) -> Response:
    """Starlette re-raises the error, so that the log has the cause; the client gets no details."""
    logger.error("%s %s failed", request.method, request.url.path)
    return Problem("internal", "Internal server error. See the server log for details.").response()
