"""The OpenAPI description: adds response bodies, examples and problems to what FastAPI derives from the routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import models_json_schema

from .problems import MEDIA_TYPE, TITLES, TYPE_PREFIX

_REF = "#/components/schemas/{model}"
_ID = "AV2wJeZPlL95"
_BASE = f"api/sessions/{_ID}"


class ResponseBody(BaseModel):
    """Base of response bodies. They describe the responses; the routes build them as plain mappings."""

    model_config = ConfigDict(extra="forbid")


class SessionState(ResponseBody):
    """A session."""

    session_id: str
    epoch: int
    state: Literal["running", "paused", "finished"]
    active: bool
    stepped: bool
    viewers: int
    idle_s: float


class SessionDetails(SessionState):
    """A session with its fields and links, and the role of the client that asks."""

    role: Literal["viewer", "controller", "owner"]
    fields: dict[str, bool | int | float | str]
    publisher: str | None
    links: dict[str, str]


class SessionList(ResponseBody):
    """All active sessions."""

    capacity: int
    sessions: list[SessionState]


class CreatedSession(ResponseBody):
    """A new session and the token of its owner."""

    session_id: str
    token: str
    links: dict[str, str]


class JoinedSession(CreatedSession):
    """A session that the client has joined, and the token of the client."""

    role: Literal["viewer", "controller"]


class TicketLinks(ResponseBody):
    """The addresses of a ticket."""

    self: str
    events: str


class TicketBody(ResponseBody):
    """A place in the waiting line."""

    ticket: str
    state: str
    position: int
    estimated_wait_s: float
    claim_within_s: float = 0.0
    links: TicketLinks


class TakeoverBody(ResponseBody):
    """What came of a request to take over, and the role of the client now."""

    state: Literal["asked", "granted"]
    role: Literal["viewer", "controller", "owner"]


class ResetBody(ResponseBody):
    """The epoch that a reset has begun."""

    epoch: int


class LobbySession(ResponseBody):
    """A session in the lobby."""

    session_id: str
    age_s: float
    viewers: int
    links: dict[str, str]


class LobbyBody(ResponseBody):
    """What runs on the server."""

    capacity: int
    occupied: int
    waiting: int
    sessions: list[LobbySession]


class StatusBody(ResponseBody):
    """The state of the server."""

    status: str


class ProblemError(ResponseBody):
    """What is wrong with a part of the request."""

    pointer: str
    detail: str


class ProblemBody(ResponseBody):
    """Problem details (RFC 9457)."""

    type: Literal[tuple(TYPE_PREFIX + kind for kind in TITLES)]  # type: ignore[valid-type]
    title: str
    status: int
    detail: str
    errors: list[ProblemError] = []


_STATE = {
    "session_id": _ID,
    "epoch": 1,
    "state": "running",
    "active": True,
    "stepped": True,
    "viewers": 1,
    "idle_s": 0.015,
}
_CREATED = {
    "session_id": _ID,
    "token": "q3V0bWJ1Y2tldHM",
    "links": {"self": _BASE, "whep": f"{_BASE}/whep", "controls": f"{_BASE}/controls"},
}
_TICKET = {
    "ticket": "b0VtP6Wd0pPn",
    "state": "waiting",
    "position": 3,
    "estimated_wait_s": 95.0,
    "links": {"self": "api/tickets/b0VtP6Wd0pPn", "events": "api/tickets/b0VtP6Wd0pPn/events"},
}
_DETAILS = {
    **_STATE,
    "role": "owner",
    "fields": {"prompt": "ice", "seed": 7},
    "publisher": None,
    "links": {"self": _BASE},
}
_PROBLEM = {
    "type": f"{TYPE_PREFIX}invalid-context",
    "title": TITLES["invalid-context"][1],
    "status": 422,
    "detail": "seed: Input should be greater than or equal to 0",
    "errors": [{"pointer": "#/context/seed", "detail": "Input should be greater than or equal to 0"}],
}
_LOBBY = {
    "capacity": 8,
    "occupied": 1,
    "waiting": 0,
    "sessions": [
        {
            "session_id": _ID,
            "age_s": 12.5,
            "viewers": 1,
            "links": {
                "thumbnail": f"api/lobby/{_ID}/thumbnail.jpg",
                "invitations": f"api/lobby/{_ID}/invitations",
            },
        }
    ],
}

RESPONSES: Mapping[tuple[str, str, str], tuple[type[ResponseBody], Mapping[str, Any]]] = {
    ("get", "/healthz", "200"): (StatusBody, {"status": "ok"}),
    ("get", "/readyz", "200"): (StatusBody, {"status": "ready"}),
    ("post", "/api/sessions", "201"): (CreatedSession, _CREATED),
    ("post", "/api/sessions", "202"): (TicketBody, _TICKET),
    ("get", "/api/sessions", "200"): (SessionList, {"capacity": 8, "sessions": [_STATE]}),
    ("get", "/api/sessions/{session_id}", "200"): (SessionDetails, _DETAILS),
    ("patch", "/api/sessions/{session_id}", "200"): (SessionState, {**_STATE, "state": "paused", "active": False}),
    ("post", "/api/sessions/{session_id}/reset", "200"): (ResetBody, {"epoch": 2}),
    ("post", "/api/sessions/{session_id}/takeover", "200"): (TakeoverBody, {"state": "granted", "role": "owner"}),
    ("post", "/api/sessions/{session_id}/takeover", "202"): (TakeoverBody, {"state": "asked", "role": "viewer"}),
    ("get", "/api/tickets/{ticket_id}", "200"): (TicketBody, _TICKET),
    ("post", "/api/invitations", "201"): (JoinedSession, {**_CREATED, "role": "viewer"}),
    ("get", "/api/lobby", "200"): (LobbyBody, _LOBBY),
}
"""Method, path and status to the body and an example of it."""

REQUEST_EXAMPLES: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("post", "/api/sessions"): {"context": {"prompt": "ice", "seed": 7}},
    ("post", "/api/sessions/{session_id}/reset"): {"context": {"seed": 8}},
    ("patch", "/api/sessions/{session_id}"): {"active": False},
    ("post", "/api/sessions/{session_id}/invitations"): {"role": "viewer", "expires_s": 3600, "uses": 10},
    ("post", "/api/invitations"): {"token": "q3V0bWJ1Y2tldHM"},
    ("post", "/api/sessions/{session_id}/takeover/{member_id}"): {"accept": True},
    ("post", "/api/sessions/{session_id}/qr"): {"text": "http://127.0.0.1:8000/?watch=q3V0bWJ1Y2tldHM"},
}
"""Method and path to an example of the request body."""


def install(app: FastAPI) -> None:
    """Complete the description that ``app`` serves at ``/openapi.json``."""
    derive = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(derive())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the description


def _completed(described: dict[str, Any]) -> dict[str, Any]:
    models = [model for model, _ in RESPONSES.values()] + [ProblemBody]
    _, schemas = models_json_schema([(model, "serialization") for model in dict.fromkeys(models)], ref_template=_REF)
    components = described.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):  # problems instead
        components.pop(name, None)
    components.update(schemas["$defs"])
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            _complete_operation(operation, method, path)
    return described


def _complete_operation(operation: dict[str, Any], method: str, path: str) -> None:
    responses = operation["responses"]
    responses.pop("422", None)
    for (of_method, of_path, status), (model, example) in RESPONSES.items():
        if (of_method, of_path) == (method, path):
            content = {"schema": {"$ref": _REF.format(model=model.__name__)}, "example": dict(example)}
            responses.setdefault(status, {"description": model.__doc__})["content"] = {"application/json": content}
    problem = {"schema": {"$ref": _REF.format(model="ProblemBody")}, "example": _PROBLEM}
    responses["default"] = {"description": "A problem (RFC 9457)", "content": {MEDIA_TYPE: problem}}
    request = REQUEST_EXAMPLES.get((method, path))
    if request is not None:
        operation["requestBody"]["content"]["application/json"]["example"] = dict(request)
