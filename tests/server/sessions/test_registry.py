import pytest

from realtime_engine.server.problems import TURN_IS_OVER, Problem
from realtime_engine.testing import FaultPlan, FaultyEngine

from ..support import PaintEngine, in_process, paint_demo


@pytest.mark.parametrize(
    ("reason", "kind", "detail"),
    [
        (TURN_IS_OVER, "turn-over", "Your turn has ended"),
        ("it was idle", "session-over", "(it was idle)"),
        ("", "session-over", "The session has ended."),
    ],
)
async def test_an_ended_session_is_remembered_with_the_reason(reason: str, kind: str, detail: str) -> None:
    async with in_process() as served:
        owned = await served.create()
        session = served.session(owned)
        session.end(reason)
        for _ in range(2):  # while it is detached, and afterwards
            with pytest.raises(Problem) as caught:
                served.session(owned)
            assert caught.value.kind == kind and detail in caught.value.detail
            await session.wait_ended(10)


async def test_a_session_beyond_the_capacity_is_refused() -> None:
    async with in_process(paint_demo(FaultyEngine(PaintEngine(max_sessions=1), FaultPlan()))) as served:
        sessions = served.runtime.sessions
        await served.create()
        with pytest.raises(Problem, match="All 1 sessions are in use"):
            sessions.add(sessions.prepare({}))
