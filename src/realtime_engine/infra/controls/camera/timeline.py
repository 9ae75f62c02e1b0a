"""Edges as a piecewise-constant timeline: which keys are held for how long."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class ControlEdge(NamedTuple):
    """Something that happened at a moment.

    Attributes:
        at_s: when, in seconds on the clock of the chunks.
        code, down: the key that went down or up; ``None`` for the mouse.
        look: how far the mouse went, right and down, in CSS pixels.
    """

    at_s: float
    code: str | None = None
    down: bool = False
    look: tuple[float, float] = (0.0, 0.0)


class Span(NamedTuple):
    """A time in which nothing changes.

    Attributes:
        begin_s, end_s: seconds since the chunk's begin.
        held: the keys that are held.
        look: how far the mouse goes at its begin, in CSS pixels.
    """

    begin_s: float
    end_s: float
    held: frozenset[str]
    look: tuple[float, float] = (0.0, 0.0)


class ControlTimeline:
    """Cuts the edges of one player into chunks; what is held goes on from chunk to chunk.

    Edges from before a chunk's begin came too late for the chunk that they belong to: they count from the begin of
    this one on. Edges from after its end wait for the next.
    """

    def __init__(self) -> None:
        self._held: frozenset[str] = frozenset()
        self._waiting: list[ControlEdge] = []

    @property
    def held(self) -> frozenset[str]:
        """The keys that are held at the end of the last chunk."""
        return self._held

    def hold(self, codes: Iterable[str]) -> None:
        """Hold these keys and no others from the next chunk's begin on, whatever edges have said."""
        self._held = frozenset(codes)

    def chunk(self, edges: Iterable[ControlEdge], begin_s: float, seconds: float) -> list[Span]:
        """The spans of ``seconds`` from ``begin_s`` on, one after another without a gap; the last ends at ``seconds``.

        Errors: ``ValueError`` for a chunk that is not longer than nothing.
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
_DRIFT = 1e-4  # how far two clocks may run apart, in seconds a second
_MAX_BEHIND_S = 2.0  # an offset that looks this much too small was that of another page


class PlayerClock:
    """Takes edges of a control window (``conditioning["events"]``) over to this side's clock.

    An edge says by the player's clock when it happened. The smallest difference to when an edge was seen here is the
    one with the least delay, and is taken for the offset of the clocks (the minimum filter of NTP, RFC 5905, section
    10).
    """

    def __init__(self) -> None:
        self._offset_s: float | None = None
        self._learnt_s = 0.0
        self._last_s = -math.inf

    def edges(self, events: Iterable[Mapping[str, Any]], now_s: float) -> list[ControlEdge]:
        """Key and pointer edges in the order of ``events``, none later than ``now_s``; others are left out.

        Args:
            events: as a step gets them, oldest first.
            now_s: seconds on this side's clock, such as ``time.monotonic()``.

        Edges without a time of their own, which a lost client leaves behind, happen now.
        """
        taken = [event for event in events if event["kind"] in _KINDS]
        for event in taken:
            self._learn(event["t"], now_s)
        return [self._edge(event, now_s) for event in taken]

    def _learn(self, t_ms: float | None, now_s: float) -> None:
        if t_ms is None:
            return
        offset_s = now_s - t_ms / 1000
        if self._offset_s is not None and offset_s < self._offset_s + _MAX_BEHIND_S:
            offset_s = min(offset_s, self._offset_s + _DRIFT * (now_s - self._learnt_s))
        self._offset_s, self._learnt_s = offset_s, now_s

    def _edge(self, event: Mapping[str, Any], now_s: float) -> ControlEdge:
        t_ms = event["t"]
        at_s = now_s if t_ms is None or self._offset_s is None else t_ms / 1000 + self._offset_s
        self._last_s = at_s = max(min(at_s, now_s), self._last_s)
        if event["kind"] == "pointer_move":
            return ControlEdge(at_s, look=(event["dx"], event["dy"]))
        return ControlEdge(at_s, code=event["code"], down=event["kind"] == "key_down")
