from __future__ import annotations

import pytest

from realtime_engine.core.messages import Attach, Detach, InboxMsg, RejectionCode, Reset
from realtime_engine.server.problems import Problem
from realtime_engine.server.sessions.engine_requests import EngineRequests, RequestRefused, SessionOver, resolve


async def test_a_reply_may_arrive_after_the_timeout() -> None:
    put: list[InboxMsg] = []
    requests = EngineRequests(put.append, 0.01)
    await requests.result(requests.reset)  # nothing was requested
    requests.send(Reset("s", {}))
    with pytest.raises(Problem, match="current model step has not finished"):
        await requests.result(requests.reset)
    assert requests.is_pending and put == [Reset("s", {})]
    assert resolve(requests.reset, None)
    await requests.result(requests.reset)
    assert not requests.is_pending and not resolve(requests.reset, None)


async def test_a_refusal_is_raised_by_result_only() -> None:
    requests = EngineRequests(lambda message: None, 1)
    requests.send(Attach("s", {}))
    requests.send(Detach("s"))
    resolve(requests.attached, RequestRefused("no room", RejectionCode.FULL))
    await requests.wait_done(requests.attached)
    with pytest.raises(RequestRefused, match="no room"):
        await requests.result(requests.attached)


async def test_cancel_all_resolves_every_reply() -> None:
    requests = EngineRequests(lambda message: None, 1)
    requests.send(Attach("s", {}))
    requests.send(Reset("s", {}))
    requests.cancel_all()
    for reply in (requests.attached, requests.reset):
        with pytest.raises(SessionOver):
            await requests.result(reply)
