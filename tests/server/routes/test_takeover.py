import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from realtime_engine.server.sessions.access import Role

from ..support import OwnedSession, Served, in_process, over_http, stop_idle_clock, until
from .test_invitations import TYPE, invite, join


async def controller(served: Served, owned: OwnedSession) -> OwnedSession:
    return await join(served.client, (await invite(owned, role="controller"))["token"], "controller")


async def role_of(client: OwnedSession) -> str:
    return str((await client.request("GET", "self")).json()["role"])


@asynccontextmanager
async def connected(client: OwnedSession) -> AsyncIterator[ClientConnection]:
    async with connect(client.url("controls", "ws")) as socket:
        await socket.send(json.dumps({"v": 1, "type": "ping", "seq": 0}))
        await received(socket, "pong")  # the server has added the connection
        yield socket


async def received(socket: ClientConnection, kind: str) -> dict[str, Any]:
    while True:
        message: dict[str, Any] = json.loads(await socket.recv())
        if message["type"] == kind:
            return message


async def answer(owner: OwnedSession, member: str, accept: bool) -> int:
    response = await owner.client.post(
        f"{owner.links['takeover']}/{member}", json={"accept": accept}, headers=owner.auth
    )
    return response.status_code


async def test_the_owner_consents() -> None:
    async with over_http() as served:
        owned = await served.create()
        viewer = await join(served.client, (await invite(owned))["token"])
        async with connected(owned) as owner_socket, connected(viewer) as viewer_socket:
            asked = await viewer.request("POST", "takeover")
            assert (asked.status_code, asked.json()) == (202, {"state": "asked", "role": "viewer"})
            assert (await viewer.request("POST", "takeover")).status_code == 202  # and the owner is not asked again
            message = await received(owner_socket, "takeover")
            assert message["state"] == "asked"
            assert await answer(viewer, message["member"], True) == 403
            assert await answer(owned, message["member"], True) == 204
            assert (await received(owner_socket, "role"))["role"] == "controller"
            assert (await received(viewer_socket, "role"))["role"] == "owner"
            assert (await role_of(owned), await role_of(viewer)) == ("controller", "owner")
            assert (await viewer.request("POST", "reset", json={})).status_code == 200
            refused = await owned.request("POST", "reset", json={})
            assert (refused.status_code, refused.json()["type"]) == (403, TYPE + "role")
            assert await answer(viewer, message["member"], True) == 204  # it does not ask any more: no effect
            assert await role_of(viewer) == "owner"
            assert await viewer.send(1, keys=["KeyW"]) == [] and await owned.send(1, keys=["KeyW"]) == []


async def test_the_owner_refuses_and_is_not_asked_again_at_once() -> None:
    async with over_http() as served:
        owned = await served.create()
        guest = await controller(served, owned)
        async with connected(owned) as owner_socket, connected(guest) as guest_socket:
            assert (await guest.request("POST", "takeover")).status_code == 202
            member = (await received(owner_socket, "takeover"))["member"]
            assert await answer(owned, member, False) == 204
            assert (await received(guest_socket, "takeover")) == {
                "v": 1,
                "type": "takeover",
                "state": "refused",
                "member": member,
            }
            again = await guest.request("POST", "takeover")
            assert (again.status_code, again.json()["type"]) == (429, TYPE + "too-many")
            assert (await role_of(owned), await role_of(guest)) == ("owner", "controller")


async def test_open_requests_are_repeated_and_end_with_their_client() -> None:
    async with over_http() as served:
        owned = await served.create()
        invitation = await invite(owned)
        viewer = await join(served.client, invitation["token"])
        await viewer.request("POST", "takeover")
        async with connect(owned.url("controls", "ws")) as socket:
            assert (await received(socket, "takeover"))["state"] == "asked"
            await served.client.delete(f"{owned.links['invitations']}/{invitation['id']}", headers=owned.auth)
            assert (await received(socket, "takeover"))["state"] == "withdrawn"


async def test_a_controller_takes_over_from_an_owner_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = stop_idle_clock(monkeypatch)
    async with over_http(idle_timeout_s=60, reconnect_grace_s=20) as served:
        owned = await served.create()
        viewer = await join(served.client, (await invite(owned))["token"])
        guest = await controller(served, owned)
        session = served.session(owned)
        async with connected(guest), connected(viewer):
            async with connected(owned):
                assert (await guest.request("POST", "takeover")).status_code == 202
            await until(lambda: not session.access.creator.is_connected)
            clock.advance(19)
            assert (await guest.request("POST", "takeover")).status_code == 202
            clock.advance(2)
            assert (await viewer.request("POST", "takeover")).status_code == 202  # viewers need consent
            granted = await guest.request("POST", "takeover")
            assert (granted.status_code, granted.json()) == (200, {"state": "granted", "role": "owner"})
            assert session.access.creator.role is Role.CONTROLLER
            assert (await guest.request("POST", "takeover")).json() == {"state": "granted", "role": "owner"}


async def test_a_controller_takes_over_from_an_owner_that_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = stop_idle_clock(monkeypatch)
    async with over_http(idle_timeout_s=60) as served:
        owned = await served.create()
        guest = await controller(served, owned)
        async with connected(owned), connected(guest):
            clock.advance(59)
            assert (await guest.request("POST", "takeover")).status_code == 202
            await owned.send(1)
            clock.advance(59)
            assert (await guest.request("POST", "takeover")).status_code == 202
            clock.advance(2)
            assert (await guest.request("POST", "takeover")).status_code == 200


async def test_a_session_whose_owner_closes_the_page_stays_while_a_controller_is_connected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = stop_idle_clock(monkeypatch)
    async with over_http() as served:
        owned = await served.create()
        guest = await controller(served, owned)
        session = served.session(owned)
        async with connected(guest):
            assert (await owned.request("POST", "leave")).status_code == 204
            clock.advance(6)
            session.idle.on_snapshot()  # a review of the timer
            assert not session.is_ending
            assert (await guest.request("POST", "takeover")).status_code == 200
            assert await role_of(guest) == "owner"
        await guest.request("POST", "leave")
        clock.advance(6)
        session.idle.on_snapshot()
        assert session.is_ending


async def test_a_controller_that_leaves_gives_its_slot_up_and_keeps_its_access() -> None:
    async with in_process() as served:
        owned = await served.create()
        first, second = await controller(served, owned), await controller(served, owned)
        group = served.session(owned).controls.state
        await first.send(1, keys=["KeyW"])
        await second.send(1)
        assert group.slots == (0, 1, 2)
        assert (await first.request("POST", "leave")).status_code == 204
        assert group.slots == (0, 2) and group.window().keys == ()
        third = await controller(served, owned)
        await third.send(1)
        await first.send(2, keys=["KeyW"])
        assert group.slots == (0, 1, 2, 3) and group.window().keys == ("KeyW",)


async def test_slots_of_clients_that_have_vanished_are_freed_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = stop_idle_clock(monkeypatch)
    async with in_process(reconnect_grace_s=20, idle_timeout_s=1000) as served:
        owned = await served.create()
        guests = [await controller(served, owned) for _ in range(16)]
        for guest in guests[:15]:
            assert await guest.send(1) == []
        (refused,) = await guests[15].send(1)
        assert refused["error"]["code"] == "not_allowed" and "16" in refused["error"]["detail"]
        clock.advance(21)
        assert await guests[15].send(2) == []
        assert served.session(owned).controls.state.slots == (0, 1)
