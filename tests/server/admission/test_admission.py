"""Admission over HTTP: the waiting line, reservations, turns and limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from realtime_engine.server.admission.waiting_line import TicketState
from realtime_engine.testing import FaultPlan, FaultyEngine, ManualClock

from ..support import PaintEngine, Served, in_process, over_http, paint_demo, until

TYPE = "urn:realtime-engine:problem:"


@asynccontextmanager
async def browser(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    """A client with cookies of its own."""
    transport = httpx.ASGITransport(served.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def enter(client: httpx.AsyncClient, status: int, **body: Any) -> dict[str, Any]:
    response = await client.post("/api/sessions", json=body)
    assert response.status_code == status, response.text
    answer = response.json()
    assert isinstance(answer, dict)
    return answer


async def end(client: httpx.AsyncClient, created: dict[str, Any]) -> None:
    headers = {"Authorization": f"Bearer {created['token']}"}
    assert (await client.delete(created["links"]["self"], headers=headers)).status_code == 204


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """Stops the clock of admission."""
    clock = ManualClock()
    for module in ("runtime", "sessions.session"):
        monkeypatch.setattr(f"realtime_engine.server.{module}.MONOTONIC", clock)
    return clock


def advance(served: Served, clock: ManualClock, seconds: float) -> None:
    clock.advance(seconds)
    served.runtime.admission.review()


def one_row() -> Any:
    return paint_demo(PaintEngine(max_sessions=1))


async def test_a_client_waits_and_claims_its_place() -> None:
    async with in_process(one_row()) as served, browser(served) as first, browser(served) as second:
        playing = await enter(first, 201)
        ticket = await enter(second, 202)
        assert (ticket["state"], ticket["position"]) == ("waiting", 1)
        assert ticket["estimated_wait_s"] > 0
        assert ticket["links"] == {
            "self": f"api/tickets/{ticket['ticket']}",
            "events": f"api/tickets/{ticket['ticket']}/events",
        }
        again = await enter(second, 202, ticket=ticket["ticket"])
        assert (again["ticket"], again["position"]) == (ticket["ticket"], 1)
        await end(first, playing)
        shown = (await second.get(ticket["links"]["self"])).json()
        assert shown["state"] == "reserved" and 0 < shown["claim_within_s"] <= 10
        await enter(first, 202)  # the place is not free
        created = await enter(second, 201, ticket=ticket["ticket"])
        over = await second.get(ticket["links"]["self"])
        assert (over.status_code, over.json()["type"]) == (410, TYPE + "ticket-over")
        repeated = await enter(second, 201, ticket=ticket["ticket"])
        assert repeated["session_id"] == created["session_id"], "a repeated claim takes no second place"


async def test_places_are_given_in_the_order_of_arrival() -> None:
    async with in_process(one_row()) as served, browser(served) as player:
        playing = await enter(player, 201)
        async with browser(served) as b, browser(served) as c, browser(served) as d:
            tickets = [await enter(client, 202) for client in (b, c, d)]
            assert [ticket["position"] for ticket in tickets] == [1, 2, 3]
            waits = [ticket["estimated_wait_s"] for ticket in tickets]
            assert waits == sorted(waits) and waits[0] < waits[2]
            assert (await c.delete(tickets[1]["links"]["self"])).status_code == 204
            assert (await c.delete(tickets[1]["links"]["self"])).status_code == 204
            assert (await enter(d, 202))["position"] == 2
            await end(player, playing)
            created = await enter(b, 201, ticket=tickets[0]["ticket"])
            await end(b, created)
            assert (await enter(b, 202))["position"] == 2
            await enter(d, 201, ticket=tickets[2]["ticket"])


async def test_a_reservation_expires(clock: ManualClock) -> None:
    async with in_process(one_row()) as served, browser(served) as a, browser(served) as b, browser(served) as c:
        playing = await enter(a, 201)
        missed, next_one = await enter(b, 202), await enter(c, 202)
        await end(a, playing)
        advance(served, clock, 10)
        gone = await b.get(missed["links"]["self"])
        assert (gone.status_code, gone.json()["detail"].endswith("expired.")) == (410, True)
        shown = (await c.get(next_one["links"]["self"])).json()
        assert shown.get("state") == "reserved", shown
        again = await enter(b, 202, ticket=missed["ticket"])
        assert again["ticket"] != missed["ticket"] and again["position"] == 2


async def test_an_absent_client_loses_its_ticket(clock: ManualClock) -> None:
    async with in_process(one_row()) as served, browser(served) as a, browser(served) as b, browser(served) as c:
        await enter(a, 201)
        await enter(b, 202)
        advance(served, clock, 20)
        staying = await enter(c, 202)
        advance(served, clock, 10)
        assert (await c.get(staying["links"]["self"])).json()["position"] == 1


async def test_the_line_has_a_limit() -> None:
    async with in_process(one_row(), queue_limit=1) as served, browser(served) as a, browser(served) as b:
        await enter(a, 201)
        await enter(b, 202)
        async with browser(served) as c:
            full = await c.post("/api/sessions", json={})
            assert (full.status_code, full.json()["type"]) == (503, TYPE + "full")
            assert "1 clients wait" in full.json()["detail"] or "one client waits" in full.json()["detail"]
            assert 1 <= int(full.headers["retry-after"]) <= 60
    async with in_process(one_row(), queue_limit=0) as served, browser(served) as a, browser(served) as b:
        playing = await enter(a, 201)
        assert (await b.post("/api/sessions", json={})).status_code == 503
        await end(a, playing)
        await enter(b, 201)


async def test_a_client_has_a_limited_number_of_sessions() -> None:
    async with in_process(max_per_client=1) as served, browser(served) as a:
        playing = await enter(a, 201)
        more = await a.post("/api/sessions", json={})
        assert (more.status_code, more.json()["type"]) == (429, TYPE + "too-many")
        await end(a, playing)
        await enter(a, 201)


async def test_a_turn_ends_while_others_wait(clock: ManualClock) -> None:
    async with (
        in_process(one_row(), turn_minutes=0.5, idle_timeout_s=1000) as served,
        browser(served) as a,
        browser(served) as b,
    ):
        playing = await enter(a, 201)
        session = served.runtime.session(playing["session_id"], playing["token"])
        sent: list[dict[str, Any]] = []
        session.connections.add("test", lambda text: sent.append(json.loads(text)), session.access.owner)
        advance(served, clock, 100)
        assert sent == [], "a turn has no end while nobody waits"
        ticket = await enter(b, 202)
        assert sent == [{"v": 1, "type": "turn", "ends_in_s": 10.0, "reason": "turn"}]
        advance(served, clock, 9)
        assert not session.is_ending
        later: list[dict[str, Any]] = []
        session.connections.add("later", lambda text: later.append(json.loads(text)), session.access.owner)
        assert later == [{"v": 1, "type": "turn", "ends_in_s": 1.0, "reason": "turn"}]
        assert (await b.delete(ticket["links"]["self"])).status_code == 204
        assert sent[-1] == {"v": 1, "type": "turn", "ends_in_s": None, "reason": "turn"}
        ticket = await enter(b, 202)
        advance(served, clock, 10)
        await session.wait_ended(10)
        headers = {"Authorization": f"Bearer {playing['token']}"}
        over = await a.get(playing["links"]["self"], headers=headers)
        assert (over.status_code, over.json()["type"]) == (410, TYPE + "turn-over")
        await enter(b, 201, ticket=ticket["ticket"])


async def test_a_ticket_is_followed_by_server_sent_events() -> None:
    async with over_http(one_row()) as served:
        async with httpx.AsyncClient(base_url=served.client.base_url) as other:
            playing = await enter(served.client, 201)
            ticket = await enter(other, 202)
            states: list[dict[str, Any]] = []

            async def follow() -> None:
                async with other.stream("GET", ticket["links"]["events"]) as response:
                    assert response.headers["content-type"].startswith("text/event-stream")
                    async for line in response.aiter_lines():
                        states.extend([json.loads(line.removeprefix("data: "))] if line.startswith("data: ") else [])

            following = asyncio.create_task(follow())
            await until(lambda: states)
            await end(served.client, playing)
            await until(lambda: states[-1]["state"] == "reserved")
            await enter(other, 201, ticket=ticket["ticket"])
            await following
            assert [state["state"] for state in states] == ["waiting", "reserved", "claimed"]
            assert states[0]["position"] == 1


async def test_a_client_that_disconnects_from_its_events_is_absent(clock: ManualClock) -> None:
    async with over_http(one_row()) as served:
        async with httpx.AsyncClient(base_url=served.client.base_url) as other:
            await enter(served.client, 201)
            ticket = await enter(other, 202)
            async with other.stream("GET", ticket["links"]["events"]) as response:
                await anext(response.aiter_lines())
                advance(served, clock, 100)
                assert served.runtime.admission.waiting == 1
        await until(lambda: served.runtime.admission.find_if_waiting(ticket["ticket"]).streams == 0)  # type: ignore[union-attr]
        advance(served, clock, 30)
        assert served.runtime.admission.waiting == 0


async def test_an_engine_with_less_room_than_declared_keeps_the_order() -> None:
    engine = FaultyEngine(PaintEngine(max_sessions=1), FaultPlan())
    async with in_process(paint_demo(engine)) as served, browser(served) as a, browser(served) as b:
        served.runtime.host.manifest = engine.manifest().__class__(max_sessions=9)
        playing = await enter(a, 201)
        ticket = await enter(b, 202)
        assert (ticket["state"], ticket["position"]) == ("waiting", 1)
        await end(a, playing)
        found = served.runtime.admission.find(ticket["ticket"])
        await until(lambda: found.state is TicketState.RESERVED)
        await enter(b, 201, ticket=ticket["ticket"])


async def test_invalid_fields_are_refused_before_the_line() -> None:
    async with in_process(one_row()) as served, browser(served) as a, browser(served) as b:
        await enter(a, 201)
        response = await b.post("/api/sessions", json={"context": {"seed": -1}})
        assert response.status_code == 422 and served.runtime.admission.waiting == 0


async def test_a_refused_context_keeps_the_reserved_place() -> None:
    async with in_process(one_row()) as served, browser(served) as a, browser(served) as b:
        playing = await enter(a, 201)
        ticket = await enter(b, 202)
        await end(a, playing)
        refused = await b.post("/api/sessions", json={"context": {"prompt": "refused"}, "ticket": ticket["ticket"]})
        assert refused.status_code == 422
        await until(lambda: served.runtime.sessions.occupied == 0)
        await enter(b, 201, ticket=ticket["ticket"])


async def test_shutdown_ends_the_line() -> None:
    async with over_http(one_row()) as served:
        async with httpx.AsyncClient(base_url=served.client.base_url) as other:
            await enter(served.client, 201)
            ticket = await enter(other, 202)
            async with other.stream("GET", ticket["links"]["events"]) as response:
                lines = response.aiter_lines()
                await anext(lines)
                assert served.server is not None
                served.server.should_exit = True
                assert any('"left"' in line for line in [line async for line in lines])


async def test_by_deadline_a_newcomer_waits_until_the_step_time_is_measured() -> None:
    async with in_process(admission="deadline") as served, browser(served) as a, browser(served) as b:
        playing = await enter(a, 201)
        ticket = await enter(b, 202)
        session = served.runtime.session(playing["session_id"], playing["token"])
        with session.media.frames.subscribe():
            found = served.runtime.admission.find(ticket["ticket"])
            await until(lambda: found.state is TicketState.RESERVED)
        await enter(b, 201, ticket=ticket["ticket"])


async def test_a_session_without_input_ends_for_a_client_that_waits_unless_it_returns(clock: ManualClock) -> None:
    async with in_process(one_row(), idle_timeout_s=30) as served, browser(served) as a, browser(served) as b:
        playing = await enter(a, 201)
        session = served.runtime.session(playing["session_id"], playing["token"])
        sent: list[dict[str, Any]] = []
        session.connections.add("page", lambda text: sent.append(json.loads(text)), session.access.owner)

        def turns() -> list[tuple[float | None, str]]:
            return [(message["ends_in_s"], message["reason"]) for message in sent if message["type"] == "turn"]

        with session.media.frames.subscribe():
            advance(served, clock, 40)
            assert turns() == []
            ticket = await enter(b, 202)
            assert turns() == [(10.0, "idle")]
            advance(served, clock, 9)
            session.receive({"v": 1, "type": "controls", "seq": 1, "keys": []})  # a heartbeat is no input
            assert len(turns()) == 1
            tap = {"kind": "key_down", "seq": 1, "code": "KeyW"}
            session.receive({"v": 1, "type": "controls", "seq": 2, "keys": [], "edges": [tap]})
            assert turns()[1:] == [(None, "turn")]
            for seconds in (9, 10, 10):
                advance(served, clock, seconds)
                assert (await b.get(ticket["links"]["self"])).json()["state"] == "waiting"
            session.receive({"v": 1, "type": "controls", "seq": 3, "keys": []})
            advance(served, clock, 1.5)
            assert turns()[2:] == [(10.0, "idle")]
            advance(served, clock, 11)
        found = served.runtime.admission.find(ticket["ticket"])
        await until(lambda: found.state is TicketState.RESERVED)
        gone = await a.get(playing["links"]["self"], headers={"Authorization": f"Bearer {playing['token']}"})
        assert (gone.status_code, gone.json()["type"]) == (410, TYPE + "turn-over")
