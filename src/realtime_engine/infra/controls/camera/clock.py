"""When a player's edges happened, on this side's clock."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from .timeline import ControlEdge

_KINDS = ("key_down", "key_up", "pointer_move")
_DRIFT = 1e-4  # how far two clocks may run apart, in seconds a second
_MOST_BEHIND_S = 2.0  # an offset that looks this much too small was that of another page


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
        if self._offset_s is not None and offset_s < self._offset_s + _MOST_BEHIND_S:
            offset_s = min(offset_s, self._offset_s + _DRIFT * (now_s - self._learnt_s))
        self._offset_s, self._learnt_s = offset_s, now_s

    def _edge(self, event: Mapping[str, Any], now_s: float) -> ControlEdge:
        t_ms = event["t"]
        at_s = now_s if t_ms is None or self._offset_s is None else t_ms / 1000 + self._offset_s
        self._last_s = at_s = max(min(at_s, now_s), self._last_s)
        if event["kind"] == "pointer_move":
            return ControlEdge(at_s, look=(event["dx"], event["dy"]))
        return ControlEdge(at_s, code=event["code"], down=event["kind"] == "key_down")
