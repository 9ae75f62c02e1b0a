"""The values of a session's chunks that the page shows over the picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ...core.clock import NS_PER_S, Clock
from ...infra.controls import hud_message

_INTERVAL_NS = NS_PER_S // 5
_REPEAT_NS = 2 * NS_PER_S  # for clients that have connected since


class Hud:
    """Broadcasts the values that a demo names, at most five times a second.

    Args:
        names: of values of ``StepResult.stats``.
        broadcast: sends a message to all clients of the session.
        clock: time.
    """

    def __init__(self, names: tuple[str, ...], broadcast: Callable[[Mapping[str, Any]], None], clock: Clock) -> None:
        self._names = names
        self._broadcast = broadcast
        self._clock = clock
        self._sent: dict[str, float] = {}
        self._next_ns = 0
        self._repeat_ns = 0

    def on_chunk(self, stats: Mapping[str, float]) -> None:
        """A chunk with these values was made."""
        if not self._names:
            return
        now_ns = self._clock.now_ns()
        if now_ns < self._next_ns:
            return
        values = {name: float(stats[name]) for name in self._names if name in stats and math.isfinite(stats[name])}
        if values != self._sent or now_ns >= self._repeat_ns:
            self._sent, self._next_ns, self._repeat_ns = values, now_ns + _INTERVAL_NS, now_ns + _REPEAT_NS
            self._broadcast(hud_message(values))
