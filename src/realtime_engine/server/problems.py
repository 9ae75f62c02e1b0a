"""What goes wrong with a request, as problem details (RFC 9457) with a stable ``type``."""

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
_MAX_FAULTS = 8
TYPE_PREFIX = "urn:realtime-engine:problem:"

TITLES: Mapping[str, tuple[int, str]] = {
    "bad-request": (400, "The request cannot be understood"),
    "bad-offer": (400, "The SDP offer cannot be answered"),
    "bad-candidate": (400, "The ICE candidates cannot be used"),
    "token": (401, "The token is missing or wrong"),
    "origin": (403, "Pages of that site may not use this server"),
    "host": (403, "This server does not answer to that name"),
    "not-found": (404, "There is nothing here"),
    "no-session": (404, "There is no such session"),
    "no-viewer": (404, "There is no such connection"),
    "no-video-input": (404, "The demo takes no video"),
    "no-recordings": (404, "The server keeps no recordings"),
    "no-recording": (404, "There is no such recording"),
    "no-frame": (404, "There is no picture yet"),
    "method": (405, "That cannot be done here"),
    "too-slow": (408, "The request did not come in time"),
    "recording-runs": (409, "The session is being recorded"),
    "session-over": (410, "The session is over"),
    "precondition": (412, "The connection is another one by now"),
    "too-large": (413, "The request is too large"),
    "media-type": (415, "The body is of the wrong media type"),
    "invalid-request": (422, "The request does not have the form that is expected"),
    "invalid-context": (422, "The session cannot begin with these fields"),
    "internal": (500, "The server failed"),
    "engine-failed": (500, "The model failed"),
    "loading": (503, "The model is loading"),
    "full": (503, "All places are taken"),
    "no-webrtc": (503, "WebRTC cannot be had now"),
    "stalled": (503, "The model does not get on"),
    "closing": (503, "The server is shutting down"),
    "no-storage": (507, "The recording cannot be stored"),
}
"""Kind of problem -> its status and title; the kind ends its ``type``."""


class Problem(Exception):
    """A request that is answered with a problem.

    Args:
        kind: one of :data:`TITLES`.
        detail: a sentence for a person.
        errors: what is wrong where: JSON Pointer (RFC 6901, as a fragment) and a sentence.
        headers: more headers for the answer.
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
    detail = "The model has been at one step for long: try again later."
    return Problem("stalled", detail, headers={"Retry-After": "5"})


def pointer(*path: str | int) -> str:
    """A JSON Pointer as a URI fragment: ``#/context/seed``."""
    return "#" + "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def install(app: FastAPI) -> None:
    """Let every error of ``app`` be answered with a problem."""
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
    """Parameters of the address; what bodies hold is checked where they are read."""
    assert isinstance(error, RequestValidationError)
    faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()[:_MAX_FAULTS]]
    return Problem("invalid-request", "; ".join(faults)).response()


async def _answer_unexpected(request: Request, error: Exception) -> Response:
    """The log has the cause, which Starlette lets pass on to the server; a stranger is told nothing of it."""
    logger.error("%s %s failed", request.method, request.url.path)
    return Problem("internal", "Something went wrong that nobody expected; the server's log says what.").response()
