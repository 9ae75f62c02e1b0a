"""What a viewer says about the packets that it is sent."""

from __future__ import annotations

import json
from typing import NamedTuple

from .errors import BadMessageError

_VERSION = 1
_MOST_CHARACTERS = 256


class Acknowledge(NamedTuple):
    """All packets up to ``number`` have arrived."""

    number: int


class KeyframeRequest(NamedTuple):
    """The viewer cannot decode on."""


def parse_viewer_message(text: str) -> Acknowledge | KeyframeRequest:
    """Read ``{"v": 1, "type": "ack", "number": 7}`` or ``{"v": 1, "type": "keyframe"}``.

    Errors: :class:`BadMessageError`.
    """
    if len(text) > _MOST_CHARACTERS:
        raise BadMessageError(f"a message has at most {_MOST_CHARACTERS} characters, got {len(text)}")
    try:
        message = json.loads(text)
    except ValueError as error:
        raise BadMessageError(f"not JSON: {error}") from None
    if not isinstance(message, dict) or message.get("v") != _VERSION:
        raise BadMessageError(f'expected an object with "v": {_VERSION}')
    kind, number = message.get("type"), message.get("number")
    if kind == "keyframe":
        return KeyframeRequest()
    if kind == "ack" and isinstance(number, int) and not isinstance(number, bool) and number >= 0:
        return Acknowledge(number)
    raise BadMessageError('expected type "ack" with a number of 0 or more, or type "keyframe"')
