"""Protocol version 1: the messages that clients and server exchange, and their JSON Schema.

The same text goes over the data channel, the WebSocket and REST. docs/protocol.md says what each message does.
"""

from __future__ import annotations

import json
from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, StringConstraints, TypeAdapter

from ...core import messages as core
from .devices import CODE_PATTERN, MAX_BUTTONS, clamp

if TYPE_CHECKING:
    from ..frame import FrameId
    from ..telemetry.timing import WindowSnapshot


MAX_PENDING_EDGES = 1024
_MEMORY = 1024  # how far behind the newest an edge may arrive
_MEMORY_MASK = (1 << _MEMORY) - 1

Seq: TypeAlias = Annotated[int, Field(ge=0, le=2**53 - 1)]  # what a JavaScript number counts exactly
Code: TypeAlias = Annotated[str, StringConstraints(pattern=CODE_PATTERN)]
Button: TypeAlias = Annotated[int, Field(ge=0, le=4)]
Delta: TypeAlias = Annotated[float, Field(ge=-1e5, le=1e5)]
Share: TypeAlias = Annotated[float, AfterValidator(lambda value: clamp(value, 0.0, 1.0))]


class WireModel(BaseModel):
    """Base of everything on the wire: no unknown member, no silent conversion, numbers finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class _Edge(WireModel):
    seq: Seq
    t: float | None = None


class KeyDown(_Edge):
    kind: Literal["key_down"]
    code: Code


class KeyUp(_Edge):
    kind: Literal["key_up"]
    code: Code


class PointerMove(_Edge):
    kind: Literal["pointer_move"]
    dx: Delta
    dy: Delta


class ButtonDown(_Edge):
    kind: Literal["button_down"]
    button: Button


class ButtonUp(_Edge):
    kind: Literal["button_up"]
    button: Button


class Wheel(_Edge):
    kind: Literal["wheel"]
    dx: Delta
    dy: Delta


class Tap(_Edge):
    kind: Literal["tap"]
    x: Share
    y: Share


Edge: TypeAlias = Annotated[
    KeyDown | KeyUp | PointerMove | ButtonDown | ButtonUp | Wheel | Tap, Field(discriminator="kind")
]
EDGE_KINDS = ("key_down", "key_up", "pointer_move", "button_down", "button_up", "wheel", "tap")


class EdgeLog:
    """Edges that wait for the next step: ordered by the client's sequence, each at most once.

    Duplicates are found with a sliding window over the newest 1024 sequence numbers (the anti-replay window of
    RFC 4303, section 3.4.3); what arrives from further behind counts as a duplicate. Of more than 1024 waiting edges
    the oldest are dropped, and ``dropped`` counts them.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self._newest = -1
        self._seen = 0  # bit n: the edge n behind the newest has been here
        self._pending: list[tuple[tuple[int, bool], dict[str, Any]]] = []

    def add(self, edge: dict[str, Any]) -> bool:
        """Keep a client's edge for the next :meth:`take`; false, and nothing kept, for a duplicate."""
        seq: int = edge["seq"]
        if not self._is_new(seq):
            return False
        self._insert((seq, False), edge)
        return True

    def add_own(self, edge: dict[str, Any]) -> None:
        """Keep an edge that no client sent (``seq`` and ``t`` are ``None``), after all those that were sent so far."""
        self._insert((self._newest, True), {"seq": None, "t": None, **edge})

    def take(self) -> tuple[dict[str, Any], ...]:
        """All that wait, oldest first; they are handed out only once."""
        taken = tuple(edge for _, edge in self._pending)
        self._pending.clear()
        return taken

    def _is_new(self, seq: int) -> bool:
        ahead = seq - self._newest
        if ahead > 0:
            self._seen = (self._seen << ahead & _MEMORY_MASK if ahead < _MEMORY else 0) | 1
            self._newest = seq
            return True
        behind = -ahead
        if behind >= _MEMORY or self._seen >> behind & 1:
            return False
        self._seen |= 1 << behind
        return True

    def _insert(self, place: tuple[int, bool], edge: dict[str, Any]) -> None:
        insort(self._pending, (place, edge), key=lambda entry: entry[0])
        if len(self._pending) > MAX_PENDING_EDGES:
            del self._pending[0]
            self.dropped += 1


PROTOCOL_VERSION = 1
_MAX_DETAIL = 200

Milliseconds: TypeAlias = Annotated[float, Field(ge=0, le=1e15)]
Name: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=64)]


ErrorCode: TypeAlias = Literal["bad_message", "bad_version", "unknown_type", "bad_field", "too_large"]

# -- client -> server


class _Message(WireModel):
    v: Literal[1]


class PointerInput(WireModel):
    buttons: Annotated[int, Field(ge=0, le=MAX_BUTTONS)] = 0
    x: Share = 0.5
    y: Share = 0.5


class GamepadInput(WireModel):
    axes: Annotated[list[float], Field(max_length=16)] = []
    buttons: Annotated[list[float], Field(max_length=32)] = []


class ControlsMessage(_Message):
    """What is held now. A member that is left out (and ``fields`` that are not named) stays as it was."""

    type: Literal["controls"]
    seq: Seq
    t: float | None = None
    keys: Annotated[list[Code], Field(max_length=32)] = []
    pointer: PointerInput = PointerInput()
    gamepad: GamepadInput | None = None
    sticks: Annotated[dict[Name, Annotated[list[float], Field(min_length=2, max_length=2)]], Field(max_length=8)] = {}
    fields: Annotated[dict[Name, JsonValue], Field(max_length=64)] = {}
    edges: Annotated[list[Edge], Field(max_length=256)] = []


class BlurMessage(_Message):
    """Everything held is released: the page lost the focus."""

    type: Literal["blur"]
    seq: Seq


class PingMessage(_Message):
    """Answered by a pong with the same ``seq`` and ``t``."""

    type: Literal["ping"]
    seq: Seq
    t: float | None = None


class ClockEstimate(WireModel):
    """Milliseconds: the client's clock plus ``offset`` is the server's, give or take ``uncertainty``."""

    offset: Annotated[float, Field(ge=-1e15, le=1e15)]
    uncertainty: Annotated[float, Field(ge=0, le=1e6)]


class Press(WireModel):
    """A key press: ``seq`` of the controls message that carried it, and when it happened."""

    seq: Seq
    t: Milliseconds


class ShownFrame(WireModel):
    """A frame and when it was shown, by the client's clock; what the client does not know is left out."""

    epoch: Seq
    seq: Seq
    index: Seq
    presented: Milliseconds
    received: Milliseconds | None = None
    decoded: Milliseconds | None = None
    press: Press | None = None


class PresentedMessage(_Message):
    """Frames that were shown. No control: it keeps nothing held and no session alive."""

    type: Literal["presented"]
    seq: Seq
    viewer: Name | None = None
    clock: ClockEstimate
    frames: Annotated[list[ShownFrame], Field(min_length=1, max_length=64)]
    timing: bool = False


ClientMessage: TypeAlias = Annotated[
    ControlsMessage | BlurMessage | PingMessage | PresentedMessage, Field(discriminator="type")
]

# -- server -> client


class PongMessage(_Message):
    """``server_ns`` is the server's monotonic clock."""

    type: Literal["pong"]
    seq: Seq
    t: float | None = None
    server_ns: int


class ErrorBody(WireModel):
    code: ErrorCode
    detail: str
    field: str | None = None


class ErrorMessage(_Message):
    """A message was refused and has changed nothing; ``seq`` is its own where it could be read."""

    type: Literal["error"]
    seq: Seq | None = None
    error: ErrorBody


class EventMessage(_Message):
    """Something happened to the session.

    ``active`` comes with ``active_changed``, ``reason`` with ``rejected``, ``error`` and ``fatal`` with ``failed``.
    """

    type: Literal["event"]
    event: Literal["attached", "reset_done", "active_changed", "failed", "rejected", "detached"]
    epoch: Annotated[int, Field(ge=0)]
    active: bool | None = None
    reason: str | None = None
    error: str | None = None
    fatal: bool | None = None


class FrameMessage(_Message):
    """Identity of a frame on its way: chunk ``seq`` and frame ``index`` in it, the newest controls that shaped it."""

    type: Literal["frame"]
    epoch: Annotated[int, Field(ge=0)]
    seq: Annotated[int, Field(ge=0)]
    index: Annotated[int, Field(ge=0)]
    action_seq: Seq | None = None
    rtp: Annotated[int, Field(ge=0, lt=2**32)] | None = None


class StageTiming(WireModel):
    """Frames counted so far, and quantiles of the newest ones in milliseconds."""

    stage: str
    count: Annotated[int, Field(ge=0)]
    p50: float
    p95: float
    p99: float


class TimingMessage(_Message):
    """How long each stage of the way takes for the session's frames over this client's transport."""

    type: Literal["timing"]
    transport: str | None
    stages: list[StageTiming]


ServerMessage: TypeAlias = Annotated[
    PongMessage | ErrorMessage | EventMessage | FrameMessage | TimingMessage, Field(discriminator="type")
]


def protocol_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of every message of protocol version 1, either direction."""
    adapter: TypeAdapter[Any] = TypeAdapter(ClientMessage | ServerMessage)
    schema = adapter.json_schema()
    title = f"Realtime Engine controls protocol, version {PROTOCOL_VERSION}"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **schema}


def pong_message(ping: PingMessage, server_ns: int) -> dict[str, Any]:
    """The answer to a ping that arrived at ``server_ns``."""
    return {"v": PROTOCOL_VERSION, "type": "pong", "seq": ping.seq, "t": ping.t, "server_ns": server_ns}


def error_message(code: ErrorCode, detail: str, field: str | None = None, *, seq: int | None = None) -> dict[str, Any]:
    """An error message, shortened and safe to encode whatever a client's own text has brought into it."""
    error = {"code": code, "detail": _encodable(detail), "field": None if field is None else _encodable(field)}
    return {"v": PROTOCOL_VERSION, "type": "error", "seq": seq, "error": error}


def event_message(event: core.SessionEvent) -> dict[str, Any]:
    """The event message that tells a client of a session event.

    Raises:
        TypeError: for a class that protocol version 1 has no event for.
    """
    name = _EVENT_NAMES.get(type(event))
    if name is None:
        raise TypeError(f"expected one of {', '.join(kind.__name__ for kind in _EVENT_NAMES)}, got {event!r}")
    message: dict[str, Any] = {"v": PROTOCOL_VERSION, "type": "event", "event": name, "epoch": event.epoch}
    for member in ("active", "reason", "error", "fatal"):
        if hasattr(event, member):
            message[member] = getattr(event, member)
    return message


@dataclass(frozen=True, slots=True)
class FrameInfo:
    """The content of a frame message, as a client reads it.

    Attributes:
        epoch, seq, index: those of the frame's :class:`~realtime_engine.infra.frame.FrameId`.
        action_seq: the newest action that shaped the frame.
        rtp: the RTP timestamp that it was sent with, in 90 kHz. A browser reports the same number as ``rtpTimestamp``
            in ``requestVideoFrameCallback``.
    """

    epoch: int
    seq: int
    index: int
    action_seq: Any
    rtp: int


def frame_message(frame: FrameId, rtp: int | None = None) -> dict[str, Any]:
    """The frame message for a frame that leaves now; ``rtp`` is its RTP timestamp, where it has one."""
    return {
        "v": PROTOCOL_VERSION,
        "type": "frame",
        "epoch": frame.epoch,
        "seq": frame.seq,
        "index": frame.frame_index,
        "action_seq": frame.action_id,
        "rtp": rtp,
    }


def parse_frame_message(text: str) -> FrameInfo | None:
    """Read a frame message that was sent with an RTP timestamp; ``None`` if ``text`` is another message."""
    try:
        message = json.loads(text)
        if message["v"] != PROTOCOL_VERSION or message["type"] != "frame":
            return None
        return FrameInfo(message["epoch"], message["seq"], message["index"], message["action_seq"], message["rtp"])
    except (ValueError, KeyError, TypeError):
        return None


def timing_message(transport: str | None, stages: Mapping[str, WindowSnapshot]) -> dict[str, Any]:
    """The timing message for these stages, by name."""
    listed = [
        {
            "stage": name,
            "count": times.count,
            "p50": _ms(times.p50_ns),
            "p95": _ms(times.p95_ns),
            "p99": _ms(times.p99_ns),
        }
        for name, times in stages.items()
    ]
    return {"v": PROTOCOL_VERSION, "type": "timing", "transport": transport, "stages": listed}


_EVENT_NAMES: dict[type[core.SessionEvent], str] = {
    core.Attached: "attached",
    core.ResetDone: "reset_done",
    core.ActiveChanged: "active_changed",
    core.Failed: "failed",
    core.Rejected: "rejected",
    core.Detached: "detached",
}


def _ms(duration_ns: int) -> float:
    return duration_ns / 1e6


def _encodable(text: str) -> str:
    return text[:_MAX_DETAIL].encode("utf-8", "replace").decode("utf-8")
