"""Edges as a piecewise-constant timeline: which keys are held for how long."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import NamedTuple


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
