"""Edges: what happened at a moment, as against what is held. Each reaches the model once, in order."""

from __future__ import annotations

from bisect import insort
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from .gamepad import clamp
from .keyboard import CODE_PATTERN

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
