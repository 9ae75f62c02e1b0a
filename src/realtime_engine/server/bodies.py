"""Request bodies: read with limits on size and time, and validated."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError
from starlette.requests import ClientDisconnect

from .problems import Problem, pointer

Model = TypeVar("Model", bound=BaseModel)

MAX_TOKENS = 8192

_MAX_ERRORS = 8
_TIMEOUT_S = 10.0
_MAX_POINTER = 200  # characters; it repeats names that the client has chosen
_TOKEN = re.compile(r'["\[{,]')
_DECODER = json.JSONDecoder(strict=False)


class Body(BaseModel):
    """Base of request bodies: unknown members are refused."""

    model_config = ConfigDict(extra="forbid")


class ContextBody(Body):
    """The demo's typed fields with which a session starts or is reset."""

    context: Annotated[dict[str, Any], Field(default_factory=dict)]


class CreateBody(ContextBody):
    """The fields of a new session, and the ticket with which its place is claimed."""

    ticket: Annotated[str | None, Field(max_length=64)] = None


class InvitationBody(Body):
    """Who may join a session, for how long and how often; ``null``: while the session runs, any number of times."""

    role: Literal["viewer", "controller"] = "viewer"
    expires_s: Annotated[float | None, Field(gt=0, le=30 * 24 * 3600)] = None
    uses: Annotated[int | None, Field(ge=1, le=1_000_000)] = None


class JoinBody(Body):
    """The token of an invitation."""

    token: Annotated[str, Field(max_length=128)]


class ConsentBody(Body):
    """Whether the owner consents."""

    accept: StrictBool


class QrBody(Body):
    """The text of a QR code."""

    text: Annotated[str, Field(min_length=1, max_length=1000)]


class ActiveBody(Body):
    """Whether the session runs."""

    active: StrictBool


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI description of a JSON body that the route reads by :func:`read_model`."""
    return {"requestBody": {"content": {"application/json": {"schema": model.model_json_schema()}}}}


async def read_body(request: Request, limit: int) -> bytes:
    """Read a body of at most ``limit`` bytes.

    Raises:
        Problem: the body is too large (413, as soon as that is known), too slow (408) or incomplete (400).
    """
    try:
        return await asyncio.wait_for(_read(request, limit), _TIMEOUT_S)
    except asyncio.TimeoutError:
        detail = f"The body must arrive within {_TIMEOUT_S:g} s."
        raise Problem("too-slow", detail, headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise Problem("bad-request", "The body is incomplete.") from None


async def read_text(request: Request, limit: int, media_type: str) -> str:
    """Read a body of UTF-8 text.

    Raises:
        Problem: as :func:`read_body`; the media type is wrong (415) or the body is not UTF-8 (400).
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != media_type:
        raise Problem("media-type", f"Expected {media_type}, got {given or 'none'}.")
    return _decode(await read_body(request, limit))


async def read_model(request: Request, model: type[Model], limit: int) -> Model:
    """Read a JSON body; an empty one counts as ``{}``.

    Raises:
        Problem: as :func:`read_body`; the body is not JSON (400), has too many values (413) or is invalid (422).
    """
    text = _decode(await read_body(request, limit)) or "{}"
    _check_tokens(text)
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        invalid = error.errors(include_url=False, include_context=False, include_input=False)[:_MAX_ERRORS]
    if invalid[0]["type"] == "json_invalid":
        raise Problem("bad-request", f"The body is not JSON: {invalid[0]['msg']}")
    errors = [(pointer(*each["loc"])[:_MAX_POINTER], each["msg"]) for each in invalid]
    raise Problem("invalid-request", "; ".join(f"{place}: {text}" for place, text in errors), errors=errors)


async def _read(request: Request, limit: int) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
    return b"".join(chunks)


def _decode(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise Problem("bad-request", "The body is not UTF-8 text.") from None


def _check_tokens(text: str) -> None:
    """Bound the cost of validation, which grows with the number of values and not with the length of strings."""
    at = 0
    for _ in range(MAX_TOKENS):
        found = _TOKEN.search(text, at)
        if found is None:
            return
        at = found.end()
        if found.group() == '"':
            try:
                _, at = _DECODER.raw_decode(text, found.start())
            except ValueError:  # not JSON from here on, which the validation reports
                return
    raise Problem("too-large", f"The body has more than {MAX_TOKENS} strings, commas, arrays and objects.")


def _too_large(limit: int) -> Problem:
    return Problem("too-large", f"The body has more than {limit} bytes.")
