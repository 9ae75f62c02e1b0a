from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from fastapi import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from realtime_engine.server.routes.controls import ControlsConnection

from ..support import FREE, HELD, OwnedSession, frame_where, in_process, message, over_http, paint_demo, until


@asynccontextmanager
async def connected(owned: OwnedSession, **given: Any) -> AsyncIterator[ClientConnection]:
    async with connect(owned.url("controls", "ws"), **given) as socket:
        yield socket


async def event(socket: ClientConnection, name: str) -> dict[str, Any]:
    while (received := json.loads(await socket.recv())).get("event") != name:
        pass
    return received


async def test_a_client_sends_controls_and_gets_replies() -> None:
    async with over_http() as served:
        owned = await served.create()
        session = served.session(owned)
        async with connected(owned) as socket:
            await socket.send(message("ping", seq=4, t=1.5))
            pong = json.loads(await socket.recv())
            assert (pong["type"], pong["seq"], pong["t"]) == ("pong", 4, 1.5)
            await socket.send(message("controls", seq=9, keys=["KeyW"]))
            assert (await frame_where(session, lambda color: color[1] == HELD)).id.action_id == 9
            for bad in ("{", b"\xff\xfe", message("dance"), "x" * 70_000):
                await socket.send(bad)
                assert json.loads(await socket.recv())["type"] == "error"
            await socket.send(message("controls", seq=10, fields={"prompt": "raise"}))
            error = json.loads(await socket.recv())
            assert error["type"] == "error" and "could not use this input" in error["error"]["detail"]


async def test_events_reach_every_client() -> None:
    async with over_http() as served:
        owned = await served.create()
        async with connected(owned) as one, connected(owned) as other:
            await until(lambda: len(served.session(owned).connections) == 2)
            await owned.request("PATCH", "self", json={"active": False})
            await owned.request("PATCH", "self", json={"active": True})
            await owned.request("POST", "reset", json={})
            await owned.request("DELETE", "self")
            for socket in (one, other):
                assert (await event(socket, "active_changed"))["active"] is False
                assert (await event(socket, "active_changed"))["active"] is True
                assert (await event(socket, "reset_done"))["epoch"] == 2
                await event(socket, "detached")
                with pytest.raises(ConnectionClosed):
                    await socket.recv()


async def test_a_finished_rollout_is_reported_and_owes_no_chunk() -> None:
    async with over_http(paint_demo(max_chunks=3)) as served:
        owned = await served.create()
        session = served.session(owned)
        async with connected(owned) as socket:
            for epoch in (2, 3):
                await owned.request("POST", "reset", json={})
                assert (await event(socket, "reset_done"))["epoch"] == epoch
                assert (await event(socket, "finished"))["epoch"] == epoch
                await until(lambda: session.stalled_s == 0.0)


async def test_a_pause_for_lack_of_viewers_is_not_reported_to_clients() -> None:
    async with over_http(viewer_grace_s=0.05) as served:
        owned = await served.create()
        session = served.session(owned)
        async with connected(owned) as socket:
            await until(lambda: not session.run_state.active)
            with session.media.frames.subscribe() as viewer:
                await viewer.next()
            await owned.request("POST", "reset", json={})
            received = json.loads(await socket.recv())
            assert received["event"] == "reset_done"


async def test_keys_are_released_when_the_last_client_leaves_and_not_before() -> None:
    async with over_http() as served:
        owned = await served.create()
        session = served.session(owned)
        async with connected(owned) as one:
            async with connected(owned) as other:
                await other.send(message("controls", seq=1, keys=["KeyW"]))
                await frame_where(session, lambda color: color[1] == HELD)
            await until(lambda: len(session.connections) == 1)
            assert session.controls.state.window().held("KeyW")
            await one.send(message("ping", seq=1))
            await one.recv()
        await frame_where(session, lambda color: color[1] == FREE)
        assert not session.controls.state.window().held("KeyW")


async def test_unauthorized_handshakes_are_refused() -> None:
    async with over_http() as served:
        owned = await served.create()
        url = owned.url("controls", "ws")
        for address, headers, status in (
            (url + "x", {}, 401),
            (url.partition("?")[0], {}, 401),
            (url.replace(owned.id, "unknown"), {}, 404),
        ):
            with pytest.raises(InvalidStatus) as refused:
                async with connect(address, additional_headers=headers):
                    pass
            assert refused.value.response.status_code == status
        own = str(served.client.base_url).rstrip("/")
        async with connected(owned, additional_headers={"Origin": own}) as socket:
            await socket.send(message("ping", seq=1))
            await socket.recv()
        await owned.request("DELETE", "self")
        with pytest.raises(InvalidStatus) as refused:
            async with connect(url):
                pass
        assert refused.value.response.status_code == 410


class Stuck:
    """A WebSocket whose client sends nothing and reads nothing."""

    def __init__(self) -> None:
        self.code: int | None = None

    async def receive(self) -> dict[str, Any]:
        return await asyncio.get_running_loop().create_future()

    async def send_text(self, text: str) -> None:
        await asyncio.get_running_loop().create_future()

    async def close(self, code: int) -> None:
        self.code = code


async def test_a_client_that_reads_nothing_is_disconnected() -> None:
    async with in_process() as served:
        session = served.session(await served.create())
        socket = Stuck()
        running = asyncio.create_task(
            ControlsConnection(cast(WebSocket, socket), session, session.access.owner, asyncio.Event()).run()
        )
        await until(lambda: len(session.connections) == 1)
        for _ in range(300):
            session.connections.broadcast({"type": "event"})
        await running
        assert len(session.connections) == 0 and socket.code == 1013


async def test_connecting_and_disconnecting_leaks_nothing() -> None:
    async with over_http() as served:
        owned = await served.create()
        session = served.session(owned)
        async with connected(owned):
            pass
        await until(lambda: len(session.connections) == 0)
        before = len(asyncio.all_tasks())
        for cycle in range(100):
            async with connected(owned) as socket:
                await socket.send(message("controls", seq=cycle, keys=["KeyW"]))
                if cycle % 2:
                    socket.transport.abort()
        await until(lambda: len(session.connections) == 0)
        await until(lambda: len(asyncio.all_tasks()) <= before)
        assert session.controls.state.window().keys == ()


class Flood(Stuck):
    """A client that sends too much, and disconnects after ``length`` messages."""

    def __init__(self, text: str, length: int) -> None:
        super().__init__()
        self._text = text
        self._left = length
        self.sent = 0

    async def receive(self) -> dict[str, Any]:
        if not self._left:
            return {"type": "websocket.disconnect"}
        self._left -= 1
        return {"type": "websocket.receive", "text": self._text}

    async def send_text(self, text: str) -> None:
        self.sent += 1


async def test_a_flood_of_messages_is_throttled_and_blocks_no_other_client() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with in_process() as served:
        session = served.session(await served.create())
        running = asyncio.create_task(others())
        begun = time.monotonic()
        for text, count in ((message("blur", seq=1), 150), (message("blur", seq=1) + " " * 30_000, 5)):
            await ControlsConnection(
                cast(WebSocket, Flood(text, count)), session, session.access.owner, asyncio.Event()
            ).run()
        running.cancel()
    assert turns >= 50 and time.monotonic() - begun >= (50 + 50) / 500


async def test_replies_wait_for_a_client_that_reads() -> None:
    async with in_process() as served:
        session = served.session(await served.create())
        socket = Flood("{", 600)
        await ControlsConnection(cast(WebSocket, socket), session, session.access.owner, asyncio.Event()).run()
        assert socket.sent == 600 and socket.code == 1001


async def test_a_client_that_reads_no_replies_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realtime_engine.server.routes.controls._SEND_TIMEOUT_S", 0.05)
    async with in_process() as served:
        session = served.session(await served.create())
        socket = Flood("{", 10_000)
        monkeypatch.setattr(socket, "send_text", Stuck().send_text)
        await ControlsConnection(cast(WebSocket, socket), session, session.access.owner, asyncio.Event()).run()
        assert socket.code == 1013


async def test_a_request_has_one_message_or_several() -> None:
    async with in_process() as served:
        owned = await served.create()
        session = served.session(owned)
        assert await owned.send(1, keys=["KeyW"]) == []
        walking = await frame_where(session, lambda color: color[1] == HELD)
        assert walking.id.action_id == 1
        several = [{"v": 1, "type": "ping", "seq": 8}, {"v": 1, "type": "blur", "seq": 2}, {"v": 1, "type": "dance"}]
        replies = (await owned.request("POST", "actions", json=several)).json()
        assert [reply["type"] for reply in replies] == ["pong", "error"]
        assert (await frame_where(session, lambda color: color[1] == FREE)).id.action_id == 2


async def test_a_body_of_the_wrong_type_is_refused() -> None:
    async with in_process() as served:
        owned = await served.create()
        for body, pointers in ((5, ["#"]), ([5], ["#/0"]), ([{}, None, []], ["#/1", "#/2"]), ("text", ["#"])):
            refused = await owned.request("POST", "actions", json=body)
            assert refused.status_code == 422
            assert [error["pointer"] for error in refused.json()["errors"]] == pointers
        assert (await owned.request("POST", "actions", content=b"{")).status_code == 400


async def test_the_messages_of_a_request_are_limited() -> None:
    async with in_process() as served:
        owned = await served.create()
        pings = [{"v": 1, "type": "ping", "seq": seq} for seq in range(65)]
        assert len((await owned.request("POST", "actions", json=pings[:64])).json()) == 64
        for body in (pings, [1] * 1000):
            refused = await owned.request("POST", "actions", json=body)
            assert refused.status_code == 422 and len(refused.content) < 5000
        assert (await owned.request("POST", "actions", json=[1] * 200_000)).status_code == 413


async def test_a_handshake_behind_a_proxy_that_replaces_the_host_is_accepted() -> None:
    async with over_http() as served:
        owned = await served.create()
        origin = "https://demo.example"
        async with connect(owned.url("controls", "ws"), additional_headers={"Origin": origin}) as socket:
            await socket.send(json.dumps({"v": 1, "type": "ping", "seq": 0}))
            assert json.loads(await socket.recv())["type"] == "pong"
