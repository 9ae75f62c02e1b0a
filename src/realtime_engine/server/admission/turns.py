"""Turns: how long a session lasts while others wait, and how long the wait is. No timers, no I/O."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Mapping, Sequence

from ...core.clock import NS_PER_S, Clock
from ...core.statistics import RollingWindow

__all__ = ["TurnLengths", "Turns", "expected_waits_s"]

_MAX_LENGTHS = 64  # newest sessions that the expected length is computed from
_DEFAULT_LENGTH_S = 120.0  # before any session has ended


class Turns:
    """Decides which sessions end for those who wait: one for each, the oldest first.

    A session gets a deadline when its place is needed: the end of its turn, but not before a notice. It loses the
    deadline when the place is not needed any more.

    Args:
        clock: the current time.
        turn_s: how long a session lasts while others wait; ``None`` if turns are not limited.
        notice_s: the minimum time between the notice and the end.

    Attributes:
        deadlines: session id -> when it ends, in monotonic nanoseconds.
    """

    def __init__(self, clock: Clock, *, turn_s: float | None, notice_s: float) -> None:
        self._clock = clock
        self._turn_ns = None if turn_s is None else round(turn_s * NS_PER_S)
        self._notice_ns = round(notice_s * NS_PER_S)
        self.deadlines: dict[str, int] = {}

    def review(self, started_ns: Mapping[str, int], needed: int) -> list[str]:
        """Give and cancel deadlines; returns the sessions whose turn is over.

        Args:
            started_ns: session id -> its begin, for all sessions that are not ending, oldest first.
            needed: places that those who wait still need.
        """
        if self._turn_ns is None:
            return []
        now_ns = self._clock.now_ns()
        chosen = itertools.islice(started_ns.items(), max(needed, 0))
        self.deadlines = {
            session_id: self.deadlines.get(session_id) or max(begin_ns + self._turn_ns, now_ns + self._notice_ns)
            for session_id, begin_ns in chosen
        }
        return [session_id for session_id, end_ns in self.deadlines.items() if now_ns >= end_ns]

    def next_change_ns(self) -> int | None:
        """When the next turn is over; ``None`` if no session has a deadline."""
        return min(self.deadlines.values(), default=None)


class TurnLengths:
    """Measured lengths of sessions.

    Args:
        turn_s: how long a session lasts while others wait; ``None`` if turns are not limited.
    """

    def __init__(self, turn_s: float | None) -> None:
        self._turn_s = turn_s
        self._lengths = RollingWindow(_MAX_LENGTHS)

    def record(self, length_ns: int) -> None:
        """A session has ended after this time."""
        self._lengths.record(length_ns)

    @property
    def expected_s(self) -> float:
        """Mean of the newest lengths, up to the limit of a turn. Before the first: that limit, or two minutes."""
        window = self._lengths.snapshot()
        if not window.count:
            return _DEFAULT_LENGTH_S if self._turn_s is None else self._turn_s
        mean_s = window.mean_ns / NS_PER_S
        return mean_s if self._turn_s is None else min(mean_s, self._turn_s)


def expected_waits_s(free: int, ages_s: Sequence[float], length_s: float) -> Iterator[float]:
    """Seconds until the first, second, third ... ticket in the line gets a place.

    Each session is expected to last for ``length_s``; one that has lasted longer, for another half of it.

    Args:
        free: places without a session.
        ages_s: how long each session has lasted.
        length_s: the expected length of a session.
    """
    ends_s = [0.0] * free + [length_s - age_s if age_s < length_s else length_s / 2 for age_s in ages_s]
    if not ends_s:
        return
    heapq.heapify(ends_s)
    while True:
        yield ends_s[0]
        heapq.heapreplace(ends_s, ends_s[0] + length_s)
