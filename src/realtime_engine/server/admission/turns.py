"""Turns: how long a session lasts while others wait, and how long the wait is. No timers, no I/O."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ...core.clock import NS_PER_S, Clock
from ...core.statistics import RollingWindow

__all__ = ["TurnEnd", "TurnLengths", "Turns", "expected_waits_s"]

_MAX_LENGTHS = 64  # newest sessions that the expected length is computed from
_DEFAULT_LENGTH_S = 120.0  # before any session has ended


class TurnEnd(NamedTuple):
    """When a session ends, in monotonic nanoseconds, and whether that is for want of input."""

    end_ns: int
    is_idle: bool = False


class Turns:
    """Decides which sessions end for those who wait: one for each, idle ones first, then the oldest.

    A session gets a deadline when its place is needed: the end of its turn, but not before a notice. One without input
    for a while gets the notice at once. A session loses the deadline when the place is not needed any more, an idle one
    also at its next input.

    Args:
        clock: the current time.
        turn_s: how long a session lasts while others wait; ``None`` if turns are not limited.
        idle_s: after how long without input a session is idle; ``None`` for never.
        notice_s: the minimum time between the notice and the end.

    Attributes:
        deadlines: session id -> when it ends.
    """

    def __init__(self, clock: Clock, *, turn_s: float | None, idle_s: float | None = None, notice_s: float) -> None:
        self._clock = clock
        self._turn_ns = None if turn_s is None else round(turn_s * NS_PER_S)
        self._idle_ns = None if idle_s is None else round(idle_s * NS_PER_S)
        self._notice_ns = round(notice_s * NS_PER_S)
        self._next_idle_ns: int | None = None
        self.deadlines: dict[str, TurnEnd] = {}

    def review(
        self, started_ns: Mapping[str, int], needed: int, input_ns: Mapping[str, int] | None = None
    ) -> list[str]:
        """Give and cancel deadlines; returns the sessions whose turn is over.

        Args:
            started_ns: session id -> its begin, for all sessions that are not ending, oldest first.
            needed: places that those who wait still need.
            input_ns: session id -> its last input, for those that may be idle.
        """
        now_ns, needed = self._clock.now_ns(), max(needed, 0)
        idle = self._review_idle(input_ns or {}, now_ns, needed)
        deadlines = {session_id: self._end_of(session_id, now_ns, is_idle=True) for session_id in idle[:needed]}
        if self._turn_ns is not None:
            others = [
                (session_id, begin_ns) for session_id, begin_ns in started_ns.items() if session_id not in deadlines
            ]
            for session_id, begin_ns in others[: needed - len(deadlines)]:
                deadlines[session_id] = self._end_of(session_id, begin_ns + self._turn_ns)
        self.deadlines = deadlines
        return [session_id for session_id, turn in deadlines.items() if now_ns >= turn.end_ns]

    def next_change_ns(self) -> int | None:
        """When the next turn is over or the next session counts as idle; ``None`` if none does."""
        times_ns = [turn.end_ns for turn in self.deadlines.values()]
        if self._next_idle_ns is not None:
            times_ns.append(self._next_idle_ns)
        return min(times_ns, default=None)

    def _review_idle(self, input_ns: Mapping[str, int], now_ns: int, needed: int) -> list[str]:
        """The sessions that are idle, longest first."""
        self._next_idle_ns = None
        if self._idle_ns is None or not needed:
            return []
        ends_ns = {session_id: last_ns + self._idle_ns for session_id, last_ns in input_ns.items()}
        self._next_idle_ns = min((end_ns for end_ns in ends_ns.values() if end_ns > now_ns), default=None)
        return sorted((each for each, end_ns in ends_ns.items() if end_ns <= now_ns), key=ends_ns.__getitem__)

    def _end_of(self, session_id: str, due_ns: int, *, is_idle: bool = False) -> TurnEnd:
        """The deadline that the session has, or a new one."""
        given = self.deadlines.get(session_id)
        if given is not None and given.is_idle == is_idle:
            return given
        return TurnEnd(max(due_ns, self._clock.now_ns() + self._notice_ns), is_idle)


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
