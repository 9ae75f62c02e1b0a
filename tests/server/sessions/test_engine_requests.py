from __future__ import annotations

import pytest

from realtime_engine.core.messages import Attach, Detach, InboxMsg, Reset
from realtime_engine.server.problems import Problem
from realtime_engine.server.sessions.engine_requests import EngineRequests, Refused, SessionOver, resolve


async def test_an_answer_is_waited_for_and_may_come_later() -> None:
    put: list[InboxMsg] = []
    asking = EngineRequests(put.append, 0.01)
    await asking.answer(asking.reset)  # nothing was asked for
    asking.ask(Reset("s", {}))
    with pytest.raises(Problem, match="at one step for long"):
        await asking.answer(asking.reset)
    assert asking.is_waiting and put == [Reset("s", {})]
    assert resolve(asking.reset, None)
    await asking.answer(asking.reset)
    assert not asking.is_waiting and not resolve(asking.reset, None)


async def test_a_refusal_is_raised_for_whoever_waits_for_the_answer() -> None:
    asking = EngineRequests(lambda message: None, 1)
    asking.ask(Attach("s", {}))
    asking.ask(Detach("s"))
    resolve(asking.attached, Refused("no room"))
    await asking.settled(asking.attached)
    with pytest.raises(Refused, match="no room"):
        await asking.answer(asking.attached)


async def test_the_end_of_the_session_answers_everything() -> None:
    asking = EngineRequests(lambda message: None, 1)
    asking.ask(Attach("s", {}))
    asking.ask(Reset("s", {}))
    asking.give_up()
    for answer in (asking.attached, asking.reset):
        with pytest.raises(SessionOver):
            await asking.answer(answer)
