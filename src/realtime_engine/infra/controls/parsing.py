"""Parses client messages of the protocol, and reports why one is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn, TypeAlias

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

MAX_MESSAGE_BYTES = 640 * 1024  # a field of 100,000 characters fits, however they are escaped
MAX_STRUCTURE_CHARACTERS = 64 * 1024  # besides the contents of strings; the cost of a message grows with it
_MAX_PROBLEMS = 8
_DECODER = json.JSONDecoder()
_MAX_DIGITS = 20
_MAX_PASSES = 4  # a fault may hide others
_HEADER = ("v", "type", "seq")
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
        return error_replies(self.problems, self.seq)


class ParsedMessage(NamedTuple):
    """The valid part of a message, and the faults of the parts that were left out."""

    message: Control | PresentedMessage
    faults: tuple[MessageFault, ...] = ()


def parse_message(message: str | Mapping[str, Any]) -> Control | PresentedMessage:
    """Parse a client message, given as JSON text or as the parsed mapping.

    Raises:
        MessageRefused: it is not a message of protocol version 1.
    """
    model, value = _select_model(message)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise MessageRefused(*_problems(error), seq=_seq_of(value)) from None


def parse_valid_part(message: str | Mapping[str, Any]) -> ParsedMessage:
    """Parse a client message, and leave out the devices, fields and edges of a controls message that are invalid.

    An unknown member is left out of the object that holds it.

    Raises:
        MessageRefused: it is not JSON, its ``v``, ``type`` or ``seq`` is invalid, or it is invalid and of another type
            than ``controls``.
    """
    model, value = _select_model(message)
    faults: list[MessageFault] = []
    for _ in range(_MAX_PASSES):
        try:
            return ParsedMessage(model.model_validate(value), tuple(faults))
        except ValidationError as error:
            faults += _problems(error)
            places = [(details["loc"], details["type"]) for details in error.errors(include_url=False)]
        if model is not ControlsMessage or any(place[0] in _HEADER for place, _ in places):
            break
        value = _without(value, {_part_of(*place) for place in places})
    raise MessageRefused(*faults, seq=_seq_of(value))


def error_replies(faults: Iterable[MessageFault], seq: int | None) -> list[dict[str, Any]]:
    """Error messages for the client, at most eight. They can always be encoded, whatever the client sent."""
    return [error_message(*fault, seq=seq) for fault in list(faults)[:_MAX_PROBLEMS]]


def _part_of(place: tuple[int | str, ...], kind: str) -> tuple[int | str, ...]:
    """The part of a controls message to leave out for a fault at ``place``."""
    if place[0] == "edges":
        place = _without_kind(place)
    if kind == "extra_forbidden":
        return place
    return place[:2] if place[0] in ("edges", "fields") else place[:1]


def _without(value: Any, parts: set[tuple[int | str, ...]]) -> Any:
    """A copy of ``value`` without ``parts``."""
    removed = {part[0] for part in parts if len(part) == 1}
    nested: dict[int | str, set[tuple[int | str, ...]]] = {}
    for part in parts:
        if len(part) > 1:
            nested.setdefault(part[0], set()).add(part[1:])
    items = enumerate(value) if isinstance(value, list) else value.items()
    kept = {key: _without(item, nested[key]) if key in nested else item for key, item in items if key not in removed}
    return list(kept.values()) if isinstance(value, list) else kept


def _select_model(message: str | Mapping[str, Any]) -> tuple[type[Control | PresentedMessage], dict[str, Any]]:
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
    return model, value


def plain_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of ``values`` after a round trip through JSON text. The text may have any length.

    Raises:
        MessageRefused: it is not JSON, or it contains a number that messages must not contain.
    """
    return dict(_loads(_dump(values), _refuse))


def _dump(message: object) -> str:
    if not isinstance(message, Mapping):
        raise MessageRefused(MessageFault("bad_message", f"expected a JSON object, got {type(message).__name__}"))
    try:
        return json.dumps(dict(message), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageRefused(MessageFault("bad_message", f"not JSON: {error}")) from None


def _load(text: str) -> object:
    if len(text) > MAX_MESSAGE_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_MESSAGE_BYTES:
        raise MessageRefused(MessageFault("too_large", f"expected at most {MAX_MESSAGE_BYTES} bytes of JSON text"))
    if len(text) > MAX_STRUCTURE_CHARACTERS and _has_much_structure(text):
        detail = f"expected at most {MAX_STRUCTURE_CHARACTERS} characters of JSON besides the contents of strings"
        raise MessageRefused(MessageFault("too_large", detail))
    return _loads(text, _UnusableNumbers())


def _has_much_structure(text: str) -> bool:
    """Whether ``text`` has more than the allowed characters besides the contents of strings."""
    count = at = 0
    while count <= MAX_STRUCTURE_CHARACTERS and (start := text.find('"', at)) >= 0:
        count += start - at + 2
        try:
            _, at = _DECODER.raw_decode(text, start)
        except ValueError:  # not JSON from here on, which is reported later
            return False
    return count + len(text) - at > MAX_STRUCTURE_CHARACTERS


class UnusableNumber:
    """A number that messages must not contain. No member of a message accepts it, so its place is reported.

    Args:
        detail: why it must not be used.
    """

    def __init__(self, detail: str) -> None:
        self.detail = detail


class _UnusableNumbers:
    """Makes the unusable numbers of one message, of which each costs time until its place is known."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, detail: str) -> UnusableNumber:
        self._count += 1
        if self._count > _MAX_PROBLEMS:
            _refuse(detail)
        return UnusableNumber(detail)


def _refuse(detail: str) -> NoReturn:
    raise ValueError(detail)


def _loads(text: str, unusable: Callable[[str], UnusableNumber]) -> Any:
    """Parse JSON; ``unusable`` replaces numbers that messages must not contain."""

    def parse_float(text: str) -> float | UnusableNumber:
        value = float(text)
        return value if math.isfinite(value) else unusable(f"numbers must be finite, got {text[:32]}")

    def parse_int(text: str) -> int | UnusableNumber:
        if len(text) <= _MAX_DIGITS and -(2**63) <= int(text) < 2**63:
            return int(text)
        return unusable(f"integers must fit into 64 bits, got {text[:32]}")

    try:
        return json.loads(text, parse_float=parse_float, parse_constant=parse_float, parse_int=parse_int)
    except RecursionError:
        raise MessageRefused(MessageFault("too_large", "JSON is nested too deeply")) from None
    except ValueError as error:
        raise MessageRefused(MessageFault("bad_message", f"not JSON: {error}")) from None


def _seq_of(value: Mapping[str, object]) -> int | None:
    seq = value.get("seq")
    return seq if type(seq) is int and 0 <= seq <= 2**53 - 1 else None


def _problems(error: ValidationError) -> list[MessageFault]:
    found = error.errors(include_url=False)
    return [_problem(details["type"], details["loc"], _text_of(details["msg"], details["input"])) for details in found]


def _text_of(text: str, value: object) -> str:
    return value.detail if isinstance(value, UnusableNumber) else text


def _problem(kind: str, place: tuple[int | str, ...], text: str) -> MessageFault:
    code: ErrorCode = "too_large" if kind in ("too_long", "string_too_long") else "bad_message"
    if place[:1] == ("edges",):
        place = _without_kind(place)
    elif place[:1] == ("fields",):
        place = place[:2]
    field = ".".join(map(str, place))
    return MessageFault(code, f"{field}: {text}" if field else text, field or None)


def _without_kind(place: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """The path of an edge's member without the kind, which pydantic inserts."""
    return tuple(part for at, part in enumerate(place) if at != 2 or part not in EDGE_KINDS)


def _brief(value: object) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    if isinstance(value, UnusableNumber):
        return f"a number that cannot be used: {value.detail}"
    return "null" if value is None else repr(value)
