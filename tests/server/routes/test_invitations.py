"""Invitations over HTTP, and what a viewer may do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from realtime_engine.core.clock import NS_PER_S

from ..support import HELD, OwnedSession, frame_where, in_process, over_http, stop_idle_clock, until

TYPE = "urn:realtime-engine:problem:"


async def invite(owned: OwnedSession, **body: Any) -> dict[str, Any]:
    response = await owned.client.post(f"{owned.links['self']}/invitations", json=body, headers=owned.auth)
    assert response.status_code == 201, response.text
    answer = response.json()
    assert isinstance(answer, dict)
    return answer


async def join(client: httpx.AsyncClient, token: str, role: str = "viewer") -> OwnedSession:
    response = await client.post("/api/invitations", json={"token": token})
    assert response.status_code == 201, response.text
    joined = response.json()
    assert joined["role"] == role
    return OwnedSession(client, joined["session_id"], joined["token"], joined["links"])


def close_code(error: ConnectionClosed) -> int | None:
    return None if error.rcvd is None else error.rcvd.code


async def test_an_invited_client_watches_and_controls_nothing() -> None:
    async with in_process() as served:
        owned = await served.create(seed=5)
        invitation = await invite(owned)
        assert (invitation["role"], invitation["uses_left"], invitation["expires_in_s"]) == ("viewer", None, None)
        assert invitation["link"] == f"?watch={invitation['token']}"
        viewer = await join(served.client, invitation["token"])
        assert viewer.id == owned.id and viewer.token not in (owned.token, invitation["token"])
        assert (await viewer.request("GET", "self")).json()["session_id"] == owned.id
        served_session = served.session(owned)
        await frame_where(served_session, lambda color: True)
        assert (await viewer.request("GET", "frame")).status_code == 200
        for method, link, body in (
            ("DELETE", "self", None),
            ("PATCH", "self", {"active": False}),
            ("POST", "reset", {}),
            ("POST", "actions", {"v": 1, "type": "blur", "seq": 1}),
        ):
            refused = await viewer.request(method, link, json=body)
            assert (refused.status_code, refused.json()["type"]) == (403, TYPE + "role"), link
        further = await viewer.client.post(f"{viewer.links['self']}/invitations", json={}, headers=viewer.auth)
        assert further.status_code == 403


async def test_a_viewer_gets_events_and_pongs_and_its_controls_are_refused() -> None:
    async with over_http() as served:
        owned = await served.create()
        viewer = await join(served.client, (await invite(owned))["token"])
        async with connect(viewer.url("controls", "ws")) as socket:
            await socket.send(json.dumps({"v": 1, "type": "ping", "seq": 0, "t": 1.0}))
            assert json.loads(await socket.recv())["type"] == "pong"
            await socket.send(json.dumps({"v": 1, "type": "controls", "seq": 1, "keys": ["KeyW"]}))
            refused = json.loads(await socket.recv())
            assert (refused["type"], refused["error"]["code"], refused["seq"]) == ("error", "not_allowed", 1)
            await owned.request("POST", "reset", json={})
            assert json.loads(await socket.recv())["event"] == "reset_done"
        session = served.session(owned)
        assert (await frame_where(session, lambda color: True)).pixels[0, 0, 1] != HELD


async def test_a_revoked_viewer_is_disconnected() -> None:
    async with over_http() as served:
        owned = await served.create()
        invitation = await invite(owned)
        viewer = await join(served.client, invitation["token"])
        members = f"{owned.links['self']}/invitations"
        async with (
            connect(viewer.url("controls", "ws")) as controls,
            connect(viewer.url("video", "ws")) as video,
            served.client.stream("GET", viewer.url("mjpeg")) as pictures,
        ):
            parts = pictures.aiter_bytes()
            await anext(parts)
            listed = (await served.client.get(members, headers=owned.auth)).json()
            assert [(member["role"], member["connected"]) for member in listed["members"]] == [("viewer", True)]
            assert "token" not in json.dumps(listed)
            for _ in range(2):
                revoked = await served.client.delete(f"{members}/{invitation['id']}", headers=owned.auth)
                assert revoked.status_code == 204
            with pytest.raises(ConnectionClosed) as closed:
                await controls.recv()
            assert close_code(closed.value) == 1001
            with pytest.raises(ConnectionClosed):
                while True:
                    await video.recv()
            async for _ in parts:
                pass
        assert (await viewer.request("GET", "self")).status_code == 401
        again = await served.client.post("/api/invitations", json={"token": invitation["token"]})
        assert (again.status_code, again.json()["type"]) == (404, TYPE + "no-invitation")
        assert (await served.client.get(members, headers=owned.auth)).json() == {"invitations": [], "members": []}


async def test_an_invitation_is_used_up_and_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = stop_idle_clock(monkeypatch)
    async with in_process() as served:
        owned = await served.create()
        once, brief = await invite(owned, uses=1), await invite(owned, expires_s=60)
        await join(served.client, once["token"])
        used = await served.client.post("/api/invitations", json={"token": once["token"]})
        assert (used.status_code, used.json()["type"]) == (410, TYPE + "invitation-over")
        await join(served.client, brief["token"])
        clock.advance_ns(60 * NS_PER_S)
        late = await served.client.post("/api/invitations", json={"token": brief["token"]})
        assert (late.status_code, "has expired" in late.json()["detail"]) == (410, True)


@pytest.mark.parametrize("body", [{"role": "owner"}, {"uses": 0}, {"expires_s": -1}, {"expires_s": "soon"}, {"x": 1}])
async def test_an_invalid_invitation_is_refused(body: dict[str, Any]) -> None:
    async with in_process() as served:
        owned = await served.create()
        response = await served.client.post(f"{owned.links['self']}/invitations", json=body, headers=owned.auth)
        assert (response.status_code, response.json()["type"]) == (422, TYPE + "invalid-request")


async def test_a_link_is_drawn_as_a_qr_code() -> None:
    async with in_process() as served:
        owned = await served.create()
        codes = [
            await served.client.post(owned.links["qr"], json={"text": text}, headers=owned.auth)
            for text in ("http://127.0.0.1:8000/?watch=a", "http://127.0.0.1:8000/?watch=b", "x" * 1000)
        ]
        assert all(code.headers["content-type"] == "image/svg+xml" for code in codes)
        assert codes[0].text.startswith("<?xml") and codes[0].text != codes[1].text
        for text in ("", "x" * 1001):
            refused = await served.client.post(owned.links["qr"], json={"text": text}, headers=owned.auth)
            assert refused.status_code == 422


@pytest.mark.parametrize("token", ["", "unknown", "no.such", "\u00e9", "x" * 128])
async def test_an_unknown_invitation_is_refused(token: str) -> None:
    async with in_process() as served:
        await served.create()
        response = await served.client.post("/api/invitations", json={"token": token})
        assert (response.status_code, response.json()["type"]) == (404, TYPE + "no-invitation")


async def test_the_invitations_of_a_session_are_limited() -> None:
    async with in_process() as served:
        owned = await served.create()
        for _ in range(64):
            await invite(owned)
        more = await served.client.post(f"{owned.links['self']}/invitations", json={}, headers=owned.auth)
        assert (more.status_code, "64 invitations" in more.json()["detail"]) == (429, True)


async def test_a_session_ends_with_its_owner_although_others_watch() -> None:
    async with over_http(idle_timeout_s=60, reconnect_grace_s=0.2) as served:
        owned = await served.create()
        viewer = await join(served.client, (await invite(owned))["token"])
        async with connect(viewer.url("video", "ws")) as video:
            async with connect(owned.url("controls", "ws")) as controls:
                await controls.send(json.dumps({"v": 1, "type": "ping", "seq": 0}))
                await controls.recv()
                await asyncio.sleep(0.4)
                assert served.runtime.sessions.occupied == 1
            with pytest.raises(ConnectionClosed):
                while True:
                    await video.recv()
        await until(lambda: served.runtime.sessions.occupied == 0)
        gone = await served.client.post("/api/invitations", json={"token": "x"})
        assert gone.status_code == 404
        assert (await viewer.request("GET", "self")).status_code == 410
