"""Edges as a piecewise-constant timeline of held keys, and the clock offset of the client that sends them."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class ControlEdge(NamedTuple):
    """A key press, a key release or a pointer movement.

    Attributes:
        at_s: time in seconds on the clock of the chunks.
        code: the key; ``None`` for the pointer.
        down: whether the key was pressed.
        look: pointer movement in CSS pixels, right and down positive.
    """

    at_s: float
    code: str | None = None
    down: bool = False
    look: tuple[float, float] = (0.0, 0.0)


class Span(NamedTuple):
    """An interval without edges.

    Attributes:
        begin_s, end_s: seconds since the start of the chunk.
        held: the held keys.
        look: pointer movement at the start of the interval, in CSS pixels.
    """

    begin_s: float
    end_s: float
    held: frozenset[str]
    look: tuple[float, float] = (0.0, 0.0)


class ControlTimeline:
    """Divides the edges of one client into chunks. Held keys persist from chunk to chunk.

    An edge that arrives after its chunk takes effect at the start of the current one. An edge from after the end of
    the chunk is deferred to the next.
    """

    def __init__(self) -> None:
        self._held: frozenset[str] = frozenset()
        self._waiting: list[ControlEdge] = []

    @property
    def held(self) -> frozenset[str]:
        """Keys held at the end of the last chunk."""
        return self._held

    def hold(self, codes: Iterable[str]) -> None:
        """Replace the held keys from the start of the next chunk."""
        self._held = frozenset(codes)

    def chunk(self, edges: Iterable[ControlEdge], begin_s: float, seconds: float) -> list[Span]:
        """The contiguous spans of the chunk of ``seconds`` that starts at ``begin_s``.

        Raises:
            ValueError: ``seconds`` is not above 0.
        """
        if not seconds > 0:
            raise ValueError(f"a chunk lasts more than 0 seconds, got {seconds!r}")
        for edge in edges:
            insort(self._waiting, edge, key=lambda waiting: waiting.at_s)  # equal times keep their order
        spans, since_s, look = [], 0.0, (0.0, 0.0)
        for edge in self._due(begin_s + seconds):
            at_s = min(max(edge.at_s - begin_s, 0.0), seconds)
            if at_s > since_s:
                spans.append(Span(since_s, at_s, self._held, look))
                since_s, look = at_s, (0.0, 0.0)
            look = (look[0] + edge.look[0], look[1] + edge.look[1])
            self._apply(edge)
        spans.append(Span(since_s, seconds, self._held, look))
        return spans

    def _due(self, end_s: float) -> list[ControlEdge]:
        due = [edge for edge in self._waiting if edge.at_s < end_s]
        del self._waiting[: len(due)]
        return due

    def _apply(self, edge: ControlEdge) -> None:
        if edge.code is not None:
            self._held = self._held | {edge.code} if edge.down else self._held - {edge.code}


_KINDS = ("key_down", "key_up", "pointer_move")
_DRIFT = 1e-4  # maximum drift between two clocks, in seconds per second
_MAX_BEHIND_S = 2.0  # a larger decrease of the offset means that the page was reloaded


class PlayerClock:
    """Converts the times of edges (``conditioning["events"]``) from the client's clock to the local clock.

    The offset of the clocks is estimated by the smallest difference between local arrival time and client time, which
    belongs to the edge with the lowest delay (the minimum filter of NTP, RFC 5905, section 10).
    """

    def __init__(self) -> None:
        self._offset_s: float | None = None
        self._updated_s = 0.0
        self._last_s = -math.inf

    def edges(self, events: Iterable[Mapping[str, Any]], now_s: float) -> list[ControlEdge]:
        """Key and pointer edges of ``events`` in the same order, none later than ``now_s``.

        An edge without a time, as generated when a client disconnects, gets the time ``now_s``.

        Args:
            events: edges passed to a step, oldest first.
            now_s: seconds on the local clock, such as ``time.monotonic()``.
        """
        supported = [event for event in events if event["kind"] in _KINDS]
        for event in supported:
            self._update_offset(event["t"], now_s)
        return [self._edge(event, now_s) for event in supported]

    def _update_offset(self, t_ms: float | None, now_s: float) -> None:
        if t_ms is None:
            return
        offset_s = now_s - t_ms / 1000
        if self._offset_s is not None and offset_s < self._offset_s + _MAX_BEHIND_S:
            offset_s = min(offset_s, self._offset_s + _DRIFT * (now_s - self._updated_s))
        self._offset_s, self._updated_s = offset_s, now_s

    def _edge(self, event: Mapping[str, Any], now_s: float) -> ControlEdge:
        t_ms = event["t"]
        at_s = now_s if t_ms is None or self._offset_s is None else t_ms / 1000 + self._offset_s
        self._last_s = at_s = max(min(at_s, now_s), self._last_s)
        if event["kind"] == "pointer_move":
            return ControlEdge(at_s, look=(event["dx"], event["dy"]))
        return ControlEdge(at_s, code=event["code"], down=event["kind"] == "key_down")
