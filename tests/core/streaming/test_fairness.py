"""Sessions that share stages, in virtual time: who gets how much."""

from __future__ import annotations

import heapq

from realtime_engine.core.clock import NS_PER_S
from realtime_engine.core.streaming.session import StreamingSession, has_room

from .pipelines import Bench, chain

UNITS = {"encode": 3.0, "denoise": 15.0, "decode": 5.0}
ROUND = 15.0  # of the slowest stage


class World:
    """Stages that take the time of ``UNITS``, readers that read at once, and sessions that push when they like.

    Args:
        pace: session -> units of time between its pushes; 0 pushes whenever there is room.
    """

    def __init__(self, pace: dict[str, float], capacity: int = 1, group: int | None = None) -> None:
        self.bench = Bench(chain(capacity, group=group))
        self.pace = pace
        self.sessions = {name: self.bench.session(name) for name in pace}
        self.made = dict.fromkeys(pace, 0)
        self.refused = dict.fromkeys(pace, 0)
        self._events: list[tuple[float, int, object]] = []
        self._count = 0
        for name, interval in pace.items():
            if interval:
                self._at(0.0, name)

    def _at(self, when: float, what: object) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, what))

    @property
    def _now(self) -> float:
        return self.bench.clock.now_ns() / NS_PER_S

    def _push(self, session: StreamingSession) -> bool:
        sequence_id = session.inputs["x"].next
        if not has_room(session, self.bench.graph, sequence_id, ("x",)):
            return False
        self.bench.push(session, sequence_id)
        return True

    def _settle(self) -> None:
        for name, session in self.sessions.items():
            self.made[name] += len(self.bench.read(session, 100))
            while not self.pace[name] and self._push(session):
                pass
        started, self.bench.works = self.bench.works, []
        for work in started:
            work.begun_ns = self.bench.clock.now_ns()
            self._at(self._now + UNITS[work.progress.table.spec.stage_id], work)

    def run(self, until: float) -> None:
        self._settle()
        while self._events and self._events[0][0] <= until:
            when, _, what = heapq.heappop(self._events)
            self.bench.clock.advance_ns(round(when * NS_PER_S) - self.bench.clock.now_ns())
            if isinstance(what, str):
                self.refused[what] += not self._push(self.sessions[what])
                self._at(when + self.pace[what], what)
            else:
                self.bench.works.append(what)
                self.bench.answer(what)
            self._settle()


def test_four_saturated_sessions_share_alike() -> None:
    for group in (None, 1):
        world = World(dict.fromkeys("abcd", 0.0), group=group)
        world.run(until=6000.0)
        made = world.made.values()
        assert max(made) <= 1.1 * min(made)
        slowest = ROUND if group is None else sum(UNITS.values())
        assert sum(made) * slowest > 0.98 * 6000.0  # and lose nothing by that


def test_a_session_below_its_share_is_never_refused() -> None:
    for capacity in (1, 2):
        world = World({"a": 0.0, "b": 0.0, "c": 0.0, "paced": 4 * ROUND * 1.1}, capacity)
        world.run(until=12000.0)
        assert world.refused["paced"] == 0
        assert world.made["paced"] >= 12000.0 / (4 * ROUND * 1.1) - 4


def test_one_session_keeps_the_slowest_stage_busy() -> None:
    world = World({"only": 0.0})
    world.run(until=3000.0)
    periods = world.sessions["only"].record.snapshot().chunk_period
    assert periods.maximum_seconds is not None and periods.maximum_seconds <= 1.1 * ROUND
    intervals = world.sessions["only"].stages[1].record.idle_intervals("denoise", ("y",))
    assert {interval.reason for interval in intervals} == {"continuous"}
