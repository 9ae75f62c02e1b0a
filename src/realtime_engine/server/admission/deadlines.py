"""Admission by deadline: whether one more session leaves the others their rate, from measured step times. No timers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...core.clock import NS_PER_S, Clock
from ...core.monitor import ServeMonitor
from ...core.statistics import quantile

__all__ = ["Deadlines"]

_MIN_STEPS = 20  # for a measurement
_TOLERANCE = 1.1  # of the period of a chunk: scheduling alone takes some of it
_GROWTH = 1.25  # a smaller growth of the step time with one more session counts as none
_MAX_AGE_NS = 600 * NS_PER_S
_RECHECK_NS = NS_PER_S // 4


@dataclass(frozen=True)
class _Cost:
    """The 95th percentile of the step time with some number of sessions, and when it was measured."""

    step_ns: float
    measured_ns: int


class Deadlines:
    """Predicts whether the chunks of all sessions come in time if one more session starts.

    The step time with each number of sessions is measured while that number plays. The step time with one more session
    is the one measured before, at most ten minutes ago; else it is extrapolated from the growth per session. A newcomer
    is refused if the predicted time exceeds the period of a chunk, unless it is about the step time of now: a batch
    that is too slow in any case is not made slower. After a newcomer, the next one waits until 20 steps are measured.

    In a stage graph, where chunks of several sessions are in work at a time, the time between two chunks of a session
    is measured in place of the step time, over the newest 512 of them.

    Args:
        monitor: the measured times.
        period_ns: the period of a chunk, in nanoseconds.
        clock: the current time.
    """

    def __init__(self, monitor: ServeMonitor, period_ns: float, clock: Clock) -> None:
        self._monitor = monitor
        self._limit_ns = period_ns * _TOLERANCE
        self._clock = clock
        self._costs: dict[int, _Cost] = {}
        self._sessions = 0
        self._since = 0  # values that were recorded before the number of sessions changed
        self._is_unmeasured = False

    def allows(self, sessions: int) -> bool:
        """Whether one more session may start.

        Args:
            sessions: sessions that the engine has now, those that are starting included.
        """
        self._measure(sessions)
        known = self._known()
        self._is_unmeasured = sessions > 0 and sessions not in known
        if self._is_unmeasured:
            return False
        predicted_ns = _predict(known, sessions + 1)
        return sessions == 0 or predicted_ns <= max(self._limit_ns, known[sessions] * _GROWTH)

    def next_change_ns(self) -> int | None:
        """When to ask again, because the last answer was for want of a measurement; ``None`` otherwise."""
        return self._clock.now_ns() + _RECHECK_NS if self._is_unmeasured else None

    def _measure(self, sessions: int) -> None:
        """Record what was measured since the number of sessions changed."""
        count, step_ns = self._newest()
        if count >= _MIN_STEPS and self._sessions:
            self._costs[self._sessions] = _Cost(step_ns, self._clock.now_ns())
        if sessions != self._sessions:
            self._sessions = sessions
            self._since = self._count

    def _known(self) -> dict[int, float]:
        oldest_ns = self._clock.now_ns() - _MAX_AGE_NS
        return {count: cost.step_ns for count, cost in self._costs.items() if cost.measured_ns >= oldest_ns}

    @property
    def _count(self) -> int:
        pipeline = self._monitor.pipeline
        return self._monitor.step.count if pipeline is None else pipeline.snapshot().chunk_period.count

    def _newest(self) -> tuple[int, float]:
        """How many values there are since the number of sessions changed, and their 95th percentile."""
        if self._monitor.pipeline is None:
            values = sorted(value for index, value in self._monitor.step.items() if index >= self._since)
            return len(values), quantile(values or (0,), 0.95)
        window = self._monitor.pipeline.snapshot().chunk_period
        is_whole = window.count - self._since >= len(window.newest)  # no value of the window is older
        return (len(window.newest) if is_whole else 0), window.p95_ns


def _predict(known: Mapping[int, float], sessions: int) -> float:
    """The step time with this number of sessions; 0 if nothing is known."""
    if sessions in known:
        return known[sessions]
    below = sorted(count for count in known if count < sessions)
    if len(below) < 2:
        return known[below[0]] if below else 0.0
    fewer, more = below[-2:]
    growth_ns = max(0.0, (known[more] - known[fewer]) / (more - fewer))
    return known[more] + growth_ns * (sessions - more)
