"""When a chunk counts as missed, and a measurement of an engine with all the time in the world."""

from __future__ import annotations

import pytest

from realtime_engine import SessionInit
from realtime_engine.infra.controls import Controls
from realtime_engine.infra.demo import Demo
from realtime_engine.infra.offline import measure_capacity
from realtime_engine.infra.offline.capacity import count_misses
from realtime_engine.testing import ScriptedEngine

DEMO = Demo("script", "Script", lambda options: ScriptedEngine(), Controls(), lambda window: {})


@pytest.mark.parametrize(
    ("arrivals", "misses"),
    [
        ([], 0),
        ([0, 10, 20, 30], 0),
        ([0, 19, 20, 39], 0),  # jitter that one chunk held back hides
        ([9, 10, 20, 31], 0),  # the first was late: the schedule is that of the soonest
        ([0, 10, 31, 41, 51], 1),  # one stall is one miss
        ([0, 13, 26, 39, 52, 65, 78, 91, 104], 2),  # too slow: a miss whenever a whole period has been lost
    ],
)
def test_a_miss_is_when_a_player_with_one_chunk_in_hand_runs_dry(arrivals: list[int], misses: int) -> None:
    assert count_misses(arrivals, 10) == misses


async def test_an_engine_with_little_to_do_is_in_time_up_to_its_size() -> None:
    engine = ScriptedEngine(max_sessions=3, rate_hz=200)
    points = [point async for point in measure_capacity(engine, DEMO, seconds=0.1)]
    assert [point.sessions for point in points][:1] == [1]
    assert all(point.chunks > 0 and point.period_ms == 5.0 for point in points)
    assert all(point.is_in_time for point in points[:-1])


async def test_an_engine_that_refuses_a_session_says_so() -> None:
    class Closed(ScriptedEngine):
        def attach(self, init: SessionInit) -> None:
            raise ValueError("no weights")

    with pytest.raises(RuntimeError, match=r"refused a session: attach\(\) raised ValueError: no weights"):
        async for _ in measure_capacity(Closed(max_sessions=1), DEMO, seconds=0.1):
            pass


async def test_rollouts_that_end_are_started_again() -> None:
    engine = ScriptedEngine(max_sessions=1, rate_hz=200, rollout_chunks=4)  # over before the measurement begins
    [point] = [point async for point in measure_capacity(engine, DEMO, seconds=0.2)]
    assert point.chunks > 0
