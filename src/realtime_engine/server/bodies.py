"""Request bodies, read up to a limit and checked."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Annotated, Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError
from starlette.requests import ClientDisconnect

from .problems import Problem, pointer

Model = TypeVar("Model", bound=BaseModel)

MAX_PARTS = 8192
_MAX_FAULTS = 8
_TIMEOUT_S = 10.0
_MAX_PLACE = 200  # characters of what a client has named
_PART = re.compile(r'["\[{,]')
_DECODER = json.JSONDecoder(strict=False)


class Body(BaseModel):
    """Base of request bodies: no unknown member."""

    model_config = ConfigDict(extra="forbid")


class ContextBody(Body):
    """The demo's typed fields that a session begins with, or begins anew with."""

    context: Annotated[dict[str, Any], Field(default_factory=dict)]


class ActiveBody(Body):
    """Whether the session runs."""

    active: StrictBool


async def read_body(request: Request, limit: int) -> bytes:
    """Errors: :class:`Problem`: 413 as soon as it is clear that there is too much, 408 when it does not come."""
    try:
        return await asyncio.wait_for(_read(request, limit), _TIMEOUT_S)
    except asyncio.TimeoutError:
        detail = f"the body has to come within {_TIMEOUT_S:g} s"
        raise Problem("too-slow", detail, headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise Problem("bad-request", "the body ended before its end") from None


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


async def read_text(request: Request, limit: int, media_type: str) -> str:
    """Errors: :class:`Problem` (408, 413, 415, 400)."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != media_type:
        raise Problem("media-type", f"expected {media_type}, got {given or 'none'}")
    return _decoded(await read_body(request, limit))


async def read_model(request: Request, model: type[Model], limit: int) -> Model:
    """A JSON body; an empty one counts as ``{}``. Errors: :class:`Problem` (400, 408, 413, 422)."""
    text = _decoded(await read_body(request, limit)) or "{}"
    _check_parts(text)
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)[:_MAX_FAULTS]
    if faults[0]["type"] == "json_invalid":
        raise Problem("bad-request", f"the body is not JSON: {faults[0]['msg']}")
    errors = [(pointer(*fault["loc"])[:_MAX_PLACE], fault["msg"]) for fault in faults]
    raise Problem("invalid-request", "; ".join(f"{place}: {text}" for place, text in errors), errors=errors)


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise Problem("bad-request", "the body is not UTF-8 text") from None


def _check_parts(text: str) -> None:
    """Bound what checking the body costs, which grows with its values, not with the length of its strings."""
    at = 0
    for _ in range(MAX_PARTS):
        found = _PART.search(text, at)
        if found is None:
            return
        at = found.end()
        if found.group() == '"':
            try:
                _, at = _DECODER.raw_decode(text, found.start())
            except ValueError:  # no JSON from here on, which whoever reads it says better
                return
    raise Problem("too-large", f"at most {MAX_PARTS} strings, commas, arrays and objects are taken")


def _too_large(limit: int) -> Problem:
    return Problem("too-large", f"at most {limit} bytes are taken")


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """The part of an OpenAPI description that tells of such a body."""
    return {"requestBody": {"content": {"application/json": {"schema": model.model_json_schema()}}}}
