from __future__ import annotations

import asyncio

import pytest

from realtime_engine.server.problems import Problem
from realtime_engine.server.sessions.run_state import PauseReason, RunState


async def test_the_engine_is_informed_of_the_first_reason_and_of_the_end_of_the_last() -> None:
    sent: list[bool] = []
    state = RunState(sent.append, 1)
    state.set_paused(PauseReason.CLIENT, True)
    state.set_paused(PauseReason.UNWATCHED, True)
    state.set_paused(PauseReason.UNWATCHED, True)
    state.set_paused(PauseReason.CLIENT, False)
    assert sent == [False] and not state.active and state.name == "paused"
    state.set_paused(PauseReason.AHEAD, False)
    state.set_paused(PauseReason.UNWATCHED, False)
    assert sent == [False, True] and state.active and state.name == "running"


async def test_it_is_settled_when_the_engine_has_replied_to_every_message() -> None:
    state = RunState(lambda active: None, 60)
    await state.wait_settled()
    state.set_paused(PauseReason.CLIENT, True)
    state.set_paused(PauseReason.CLIENT, False)
    waiting = asyncio.create_task(state.wait_settled())
    state.on_reply()
    await asyncio.sleep(0)
    assert not waiting.done()
    state.on_reply()
    await waiting


async def test_an_engine_that_does_not_reply_is_a_problem() -> None:
    state = RunState(lambda active: None, 0.01)
    state.set_paused(PauseReason.CLIENT, True)
    with pytest.raises(Problem) as raised:
        await state.wait_settled()
    assert raised.value.kind == "stalled"


async def test_a_closed_one_is_settled() -> None:
    state = RunState(lambda active: None, 60)
    state.set_paused(PauseReason.CLIENT, True)
    state.close()
    await state.wait_settled()


async def test_a_finished_rollout_is_not_stepped() -> None:
    state = RunState(lambda active: None, 60)
    assert state.is_stepped
    state.finished = True
    assert state.active and not state.is_stepped and state.name == "finished"
    state.set_paused(PauseReason.CLIENT, True)
    assert state.name == "finished"
