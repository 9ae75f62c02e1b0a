from __future__ import annotations

import asyncio
from typing import Any

import pytest

from realtime_engine.client import RealtimeClient
from realtime_engine.server.problems import MEDIA_TYPE

from ..support import (
    HELD,
    PaintEngine,
    frame_where,
    in_process,
    location_of,
    over_http,
    paint_demo,
    stop_idle_clock,
    until,
)

TYPE = "urn:realtime-engine:problem:"


async def test_a_session_is_created_shown_and_deleted() -> None:
    engine = PaintEngine(max_sessions=2)
    async with in_process(paint_demo(engine)) as served:
        created = await served.client.post("/api/sessions", json={"context": {"seed": 5}})
        assert created.status_code == 201
        answer = created.json()
        assert set(answer) == {"session_id", "token", "links"}
        assert answer["links"]["self"] == f"api/sessions/{answer['session_id']}"
        assert location_of(created) == f"/{answer['links']['self']}"
        owned = await served.create()
        assert owned.token != answer["token"] and len(owned.token) >= 32
        shown = (await owned.request("GET", "self")).json()
        assert (shown["session_id"], shown["epoch"], shown["active"]) == (owned.id, 1, True)
        assert (await owned.request("DELETE", "self")).status_code == 204
        assert engine.active_sessions == 1
        assert (await owned.request("GET", "self")).status_code == 410
        assert (await owned.request("DELETE", "self")).status_code == 204


async def test_the_context_reaches_the_model() -> None:
    async with in_process() as served:
        session = served.session(await served.create(seed=5))
        assert (await frame_where(session, lambda color: True)).pixels[0, 0, 2] == 5


@pytest.mark.parametrize("link", ["self", "whep", "mjpeg", "frame", "actions", "reset"])
async def test_links_require_the_token(link: str) -> None:
    method = {"whep": "POST", "actions": "POST", "reset": "POST"}.get(link, "GET")
    async with in_process() as served:
        owned = await served.create()
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {owned.token}"}):
            response = await served.client.request(method, owned.links[link], headers=headers)
            assert (response.status_code, response.headers["content-type"]) == (401, MEDIA_TYPE)
            assert response.headers["www-authenticate"] == "Bearer"
        elsewhere = owned.links[link].replace(owned.id, "unknown")
        assert (await served.client.request(method, elsewhere, headers=owned.auth)).status_code == 404
        await owned.request("DELETE", "self")
        assert (await owned.request(method, link)).status_code == 410


@pytest.mark.parametrize(
    ("body", "status", "kind", "pointers"),
    [
        ({"context": {"seed": -1}}, 422, "invalid-context", ["#/context/seed"]),
        ({"context": {"seed": -1, "prompt": 5}}, 422, "invalid-context", ["#/context/prompt", "#/context/seed"]),
        ({"context": {"sed": 1}}, 422, "invalid-context", ["#/context/sed"]),
        ({"context": {"prompt": "refused"}}, 422, "invalid-context", ["#/context"]),
        ({"context": 5}, 422, "invalid-request", ["#/context"]),
        ({"contxt": {}}, 422, "invalid-request", ["#/contxt"]),
        ([], 422, "invalid-request", ["#"]),
    ],
)
async def test_an_invalid_context_is_refused_with_the_names_of_its_fields(
    body: Any, status: int, kind: str, pointers: list[str]
) -> None:
    async with in_process() as served:
        response = await served.client.post("/api/sessions", json=body)
        problem = response.json()
        assert (response.status_code, problem["type"]) == (status, TYPE + kind)
        assert sorted(error["pointer"] for error in problem["errors"]) == pointers
        await until(lambda: served.runtime.sessions.occupied == 0)


async def test_malformed_and_oversized_bodies_are_refused() -> None:
    async with in_process(max_body_bytes=1000) as served:
        broken = await served.client.post("/api/sessions", content=b"{")
        assert (broken.status_code, broken.json()["type"]) == (400, TYPE + "bad-request")
        for content in (b"x" * 1001, _chunked(b"x" * 600, b"x" * 600)):
            large = await served.client.post("/api/sessions", content=content)
            assert (large.status_code, large.json()["type"]) == (413, TYPE + "too-large")


async def _chunked(*parts: bytes) -> Any:
    for part in parts:
        yield part


async def test_missing_fields_are_reported_before_the_engine_is_asked() -> None:
    engine = PaintEngine()
    async with in_process(paint_demo(engine, required_context=("prompt", "seed"))) as served:
        response = await served.client.post("/api/sessions", json={"context": {"seed": 1, "prompt": " "}})
        assert response.status_code == 422
        assert response.json()["errors"] == [{"pointer": "#/context/prompt", "detail": "is required"}]
        assert engine.calls_of("attach") == []
        await served.create(seed=1, prompt="a garden")


async def test_a_failing_context_function_is_distinguished_from_invalid_fields() -> None:
    def context(fields: Any) -> Any:
        raise {1: ValueError("seed 1 is taken"), 2: OSError("disk")}[fields.seed]

    async with in_process(paint_demo(context=context)) as served:
        bad = await served.client.post("/api/sessions", json={"context": {"seed": 1}})
        broken = await served.client.post("/api/sessions", json={"context": {"seed": 2}})
    assert (bad.status_code, bad.json()["detail"]) == (422, "context: seed 1 is taken")
    assert (broken.status_code, broken.json()["detail"]) == (500, "OSError: disk")


async def test_concurrent_requests_never_exceed_the_capacity() -> None:
    async with in_process(queue_limit=2) as served:
        posts = (served.client.post("/api/sessions", json={}) for _ in range(7))
        responses = await asyncio.gather(*posts)
        assert sorted(response.status_code for response in responses) == [201] * 2 + [202] * 2 + [503] * 3
        full = next(response for response in responses if response.status_code == 503)
        assert full.json()["type"] == TYPE + "full" and "All 2 sessions" in full.json()["detail"]
        assert 1 <= int(full.headers["retry-after"]) <= 60


async def test_pause_and_resume_are_confirmed_by_the_engine() -> None:
    engine = PaintEngine()
    async with in_process(paint_demo(engine)) as served:
        owned = await served.create()
        paused = (await owned.request("PATCH", "self", json={"active": False})).json()
        assert (paused["active"], paused["stepped"]) == (False, False)
        steps = len(engine.calls_of("step"))
        await asyncio.sleep(0.1)  # six ticks' time, in which nothing may happen
        assert len(engine.calls_of("step")) == steps
        running = (await owned.request("PATCH", "self", json={"active": True})).json()
        assert (running["active"], running["stepped"]) == (True, True)
        await until(lambda: len(engine.calls_of("step")) > steps)
        assert (await owned.request("PATCH", "self", json={"active": "no"})).status_code == 422


async def test_a_reset_starts_a_new_epoch_and_keeps_held_keys() -> None:
    async with in_process() as served:
        owned = await served.create(seed=1)
        session = served.session(owned)
        await owned.send(1, keys=["KeyW"])
        await frame_where(session, lambda color: color[1] == HELD and color[0] > 5)
        response = await owned.request("POST", "reset", json={"context": {"seed": 9}})
        assert response.json() == {"epoch": 2}
        latest = session.media.frames.latest
        assert latest is None or latest.id.epoch == 2
        frame = await frame_where(session, lambda color: True)
        assert frame.id.epoch == 2 and frame.pixels[0, 0, 2] == 9 and frame.pixels[0, 0, 1] == HELD
        assert frame.id.action_id == 1


async def test_a_reset_without_context_keeps_the_fields() -> None:
    async with in_process() as served:
        owned = await served.create(seed=1)
        session = served.session(owned)
        await owned.send(1, fields={"seed": 33})
        for epoch in (2, 3):
            assert (await owned.request("POST", "reset", json={"context": {}})).json() == {"epoch": epoch}
            assert (await frame_where(session, lambda color: True)).pixels[0, 0, 2] == 33


async def test_a_context_may_have_a_large_field() -> None:
    async with in_process() as served:
        owned = await served.create()
        response = await owned.request("POST", "reset", json={"context": {"prompt": "x" * 90_000}})
        assert response.status_code == 200
        state = served.session(owned).controls.state
        assert len(state.window().field_values["prompt"]) == 90_000


async def test_invalid_fields_of_a_reset_change_nothing() -> None:
    async with in_process() as served:
        owned = await served.create(seed=1)
        response = await owned.request("POST", "reset", json={"context": {"seed": 1000}})
        assert response.status_code == 422
        assert response.json()["errors"][0]["pointer"] == "#/context/seed"
        assert (await owned.request("GET", "self")).json()["epoch"] == 1


async def test_a_fatal_failure_ends_the_session() -> None:
    engine = PaintEngine()
    async with in_process(paint_demo(engine)) as served:
        owned = await served.create()
        received: list[str] = []
        session = served.session(owned)
        session.connections.add("test", received.append, session.access.owner)
        await owned.send(1, fields={"prompt": "fail"})
        await session.ended.wait()
        assert '"fatal": true' in received[-1] and "the step failed" in received[-1]
        assert (await owned.request("GET", "self")).status_code == 410
        assert engine.active_sessions == 0
        await served.create()


async def test_an_unwatched_session_is_paused_and_then_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, clock = PaintEngine(), stop_idle_clock(monkeypatch)
    async with in_process(paint_demo(engine), viewer_grace_s=0.05, idle_timeout_s=0.3) as served:
        owned = await served.create()
        session = served.session(owned)
        clock.advance(0.1)
        await until(lambda: not session.run_state.active)
        assert (await owned.request("GET", "self")).json()["active"]
        with session.media.frames.subscribe():
            assert session.run_state.active
        clock.advance(0.3)
        await session.ended.wait()
        assert (await owned.request("GET", "self")).status_code == 410
        assert engine.active_sessions == 0


async def test_a_requested_picture_resumes_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = stop_idle_clock(monkeypatch)
    async with in_process(viewer_grace_s=0.05) as served:
        owned = await served.create()
        session = served.session(owned)
        clock.advance(0.1)
        await until(lambda: not session.run_state.active)
        await owned.request("GET", "frame")
        assert session.run_state.active


async def test_the_list_requires_the_servers_token_and_has_no_session_tokens() -> None:
    async with in_process(token="open sesame") as served:
        access = {"Authorization": "Bearer open sesame"}
        assert (await served.client.get("/api/sessions")).status_code == 401
        assert (await served.client.post("/api/sessions", json={})).status_code == 401
        created = (await served.client.post("/api/sessions", json={}, headers=access)).json()
        listed = await served.client.get("/api/sessions", headers=access)
        assert [session["session_id"] for session in listed.json()["sessions"]] == [created["session_id"]]
        assert listed.json()["capacity"] == 2 and created["token"] not in listed.text
        own = {"Authorization": f"Bearer {created['token']}"}
        assert (await served.client.get(created["links"]["self"], headers=own)).status_code == 200


async def test_other_origins_cannot_create_sessions() -> None:
    async with in_process(allowed_origins=("https://friend.example",)) as served:
        for origin, site, status in (
            ("https://evil.example", "cross-site", 403),
            ("https://evil.example", "same-site", 403),
            ("null", "cross-site", 403),
            ("http://localhost", "same-origin", 201),
            ("https://proxy.example", "same-origin", 201),  # the proxy has replaced Host
        ):
            headers = {"Origin": origin, "Sec-Fetch-Site": site}
            response = await served.client.post("/api/sessions", json={}, headers=headers)
            assert response.status_code == status
            if status == 201:
                grant = response.json()
                bearer = {"Authorization": f"Bearer {grant['token']}"}
                await served.client.delete(grant["links"]["self"], headers=bearer)
        friend = {"Origin": "https://friend.example"}
        response = await served.client.post("/api/sessions", json={}, headers=friend)
        assert response.status_code == 201
        assert response.headers["access-control-allow-origin"] == "https://friend.example"


async def test_cors_is_closed_by_default() -> None:
    async with in_process() as served:
        response = await served.client.get("/api/demo", headers={"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in response.headers


async def test_a_reset_that_is_refused_changes_no_field() -> None:
    def context(fields: Any) -> Any:
        if fields.seed == 13:
            raise ValueError("seed 13 is unlucky")
        return {"seed": fields.seed, "prompt": fields.prompt}

    async with in_process(paint_demo(context=context)) as served:
        owned = await served.create(seed=5)
        session = served.session(owned)
        assert (await owned.request("POST", "reset", json={"context": {"seed": 13}})).status_code == 422
        assert session.controls.state.window().field_values["seed"] == 5
        assert (await owned.request("POST", "reset", json={})).json() == {"epoch": 2}
        assert (await frame_where(session, lambda color: True)).pixels[0, 0, 2] == 5


async def test_the_first_frame_after_a_reset_uses_its_fields() -> None:
    conditioned: list[int] = []

    def to_conditioning(window: Any) -> Any:
        conditioned.append(window.field_values["seed"])
        return {}

    async with in_process(paint_demo(to_conditioning=to_conditioning)) as served:
        owned = await served.create(seed=5)
        assert (await owned.request("POST", "reset", json={"context": {"seed": 7}})).status_code == 200
        assert conditioned[0] == 5 and set(conditioned[1:]) == {7}
        assert served.session(owned).controls.state.window().field_values["seed"] == 7


async def test_a_reset_that_ends_the_session_is_reported() -> None:
    async with in_process() as served:
        owned = await served.create()
        response = await owned.request("POST", "reset", json={"context": {"prompt": "refused"}})
        assert (response.status_code, response.json()["type"]) == (410, TYPE + "session-over")
        assert "this model refuses the prompt" in response.json()["detail"]


async def test_a_finished_rollout_is_shown_and_a_reset_starts_the_next() -> None:
    async with in_process(paint_demo(max_chunks=3)) as served:
        owned = await served.create()
        session = served.session(owned)
        for epoch in (1, 2):
            await until(lambda: session.run_state.finished)
            shown = (await owned.request("GET", "self")).json()
            assert (shown["epoch"], shown["state"], shown["stepped"]) == (epoch, "finished", False)
            picture = await owned.request("GET", "frame")
            assert picture.status_code == 200 and f";epoch={epoch};seq={3 * epoch - 1};" in picture.headers["x-frame"]
            await owned.request("PATCH", "self", json={"active": False})
            running = (await owned.request("PATCH", "self", json={"active": True})).json()
            assert running["state"] == "finished", "a pause and a resume change nothing"
            assert (await owned.request("POST", "reset", json={})).json() == {"epoch": epoch + 1}


async def test_the_python_client_gets_the_end_of_a_rollout_and_starts_the_next() -> None:
    async with (
        over_http(paint_demo(max_chunks=3)) as served,
        RealtimeClient.connect(str(served.client.base_url), transport="mjpeg") as client,
    ):
        assert await client.reset() == 2
        for epoch in (2, 3):
            while (event := await client.next_event())["event"] != "finished" or event["epoch"] < epoch:
                pass  # the first rollout may end before the first reset
            assert event["epoch"] == epoch
            assert await client.reset() == epoch + 1
