"""Parses client messages of the protocol, and reports why one is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from pydantic import ValidationError

from .schema import (
    EDGE_KINDS,
    PROTOCOL_VERSION,
    BlurMessage,
    ControlsMessage,
    ErrorCode,
    PingMessage,
    PresentedMessage,
    error_message,
)

MAX_MESSAGE_BYTES = 64 * 1024
_MAX_PROBLEMS = 8
_MAX_DIGITS = 20
Control: TypeAlias = ControlsMessage | BlurMessage | PingMessage
_CLIENT_MESSAGES: dict[str, type[Control | PresentedMessage]] = {
    "controls": ControlsMessage,
    "blur": BlurMessage,
    "ping": PingMessage,
    "presented": PresentedMessage,
}


class MessageFault(NamedTuple):
    """One fault of a message. ``field`` is a dotted path such as ``edges.0.code``."""

    code: ErrorCode
    detail: str
    field: str | None = None


class MessageRefused(Exception):
    """The message is not valid in protocol version 1."""

    def __init__(self, *problems: MessageFault, seq: int | None = None) -> None:
        self.problems = problems
        self.seq = seq
        super().__init__("; ".join(problem.detail for problem in problems))

    def replies(self) -> list[dict[str, Any]]:
        """Error messages for the client, at most eight. They can always be encoded, whatever the client sent."""
        return [error_message(*problem, seq=self.seq) for problem in self.problems[:_MAX_PROBLEMS]]


def parse_message(message: str | Mapping[str, Any]) -> Control | PresentedMessage:
    """Parse a client message, given as JSON text or as the parsed mapping.

    Raises:
        MessageRefused: it is not a message of protocol version 1.
    """
    value = _load(message if isinstance(message, str) else _dump(message))
    if not isinstance(value, dict):
        raise MessageRefused(MessageFault("bad_message", f"expected a JSON object, got {_brief(value)}"))
    seq = _seq_of(value)
    version, kind = value.get("v"), value.get("type")
    if type(version) is not int or version != PROTOCOL_VERSION:
        detail = f"expected protocol version {PROTOCOL_VERSION}, got {_brief(version)}"
        raise MessageRefused(MessageFault("bad_version", detail, "v"), seq=seq)
    model = _CLIENT_MESSAGES.get(kind) if isinstance(kind, str) else None
    if model is None:
        detail = f"expected one of {', '.join(_CLIENT_MESSAGES)}, got {_brief(kind)}"
        raise MessageRefused(MessageFault("unknown_type", detail, "type"), seq=seq)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise MessageRefused(*_problems(error), seq=seq) from None


def plain_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of ``values`` after a round trip through JSON text. The text may have any length.

    Raises:
        MessageRefused: it is not JSON, or it contains a number that messages must not contain.
    """
    return dict(_loads(_dump(values)))


def _dump(message: object) -> str:
    if not isinstance(message, Mapping):
        raise MessageRefused(MessageFault("bad_message", f"expected a JSON object, got {type(message).__name__}"))
    try:
        return json.dumps(dict(message))
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageRefused(MessageFault("bad_message", f"not JSON: {error}")) from None


def _load(text: str) -> object:
    if len(text) > MAX_MESSAGE_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_MESSAGE_BYTES:
        raise MessageRefused(MessageFault("too_large", f"expected at most {MAX_MESSAGE_BYTES} bytes of JSON text"))
    return _loads(text)


def _loads(text: str) -> Any:
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_finite, parse_int=_int64)
    except RecursionError:
        raise MessageRefused(MessageFault("too_large", "JSON is nested too deeply")) from None
    except ValueError as error:
        raise MessageRefused(MessageFault("bad_message", f"not JSON: {error}")) from None


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"numbers must be finite, got {text[:32]}")
    return value


def _int64(text: str) -> int:
    value = int(text) if len(text) <= _MAX_DIGITS else None
    if value is None or not -(2**63) <= value < 2**63:
        raise ValueError(f"integers must fit into 64 bits, got {text[:32]}")
    return value


def _seq_of(value: Mapping[str, object]) -> int | None:
    seq = value.get("seq")
    return seq if type(seq) is int and 0 <= seq <= 2**53 - 1 else None


def _problems(error: ValidationError) -> list[MessageFault]:
    return [_problem(details["type"], details["loc"], details["msg"]) for details in error.errors(include_url=False)]


def _problem(kind: str, place: tuple[int | str, ...], text: str) -> MessageFault:
    code: ErrorCode = "too_large" if kind in ("too_long", "string_too_long") else "bad_message"
    if place[:1] == ("edges",):
        place = tuple(part for part in place if part not in EDGE_KINDS)
    field = ".".join(map(str, place))
    return MessageFault(code, f"{field}: {text}" if field else text, field or None)


def _brief(value: object) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    return "null" if value is None else repr(value)
