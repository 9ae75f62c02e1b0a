"""Which packets that stay away a receiver asks for again, and when."""

from __future__ import annotations

from collections.abc import Callable

from ...core.clock import NS_PER_S, Clock

_PATIENCE_NS = NS_PER_S // 20  # a good sender repeats nothing that may be on its way, however long that is
_MOST_BEHIND = 128  # what the sender can send again
_ALL, _HALF = 1 << 16, 1 << 15


class Requests:
    """Tells what to put into a generic NACK (RFC 4585) when a packet comes.

    A request or its answer can be lost too, so each packet is asked for again in a while, also when nothing new is
    missing.

    Args:
        is_needed: whether the packet of this sequence number would still be of use.
    """

    def __init__(self, clock: Clock, is_needed: Callable[[int], bool]) -> None:
        self._clock = clock
        self._is_needed = is_needed
        self._newest: int | None = None
        self._asked_ns: dict[int, int | None] = {}

    def hear(self, number: int) -> list[int]:
        """The packet of this number came; returns the numbers to ask for now."""
        ahead = 0 if self._newest is None else (number - self._newest + _HALF) % _ALL - _HALF
        if ahead > 0:
            skipped = range(max(1, ahead - _MOST_BEHIND), ahead)
            self._asked_ns.update({((self._newest or 0) + step) % _ALL: None for step in skipped})
        if ahead > 0 or self._newest is None:
            self._newest = number
        self._asked_ns.pop(number, None)
        self._forget(self._newest)
        now_ns = self._clock.now_ns()
        due = [n for n, at_ns in self._asked_ns.items() if at_ns is None or now_ns - at_ns >= _PATIENCE_NS]
        self._asked_ns.update(dict.fromkeys(due, now_ns))
        return due

    def _forget(self, newest: int) -> None:
        kept = [n for n in self._asked_ns if (newest - n) % _ALL < _MOST_BEHIND and self._is_needed(n)]
        self._asked_ns = {number: self._asked_ns[number] for number in kept}
