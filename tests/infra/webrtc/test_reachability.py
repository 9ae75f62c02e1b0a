from __future__ import annotations

import asyncio
from typing import Any

import pytest

from realtime_engine.infra.webrtc import IceConfig, IceServer, ReachabilityKind, find_reachability

UNREACHABLE = "192.0.2.254:9"


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """This machine's own, for the test to choose; loopback stands for one that others reach."""
    chosen = ["127.0.0.1"]
    monkeypatch.setattr("aioice.ice.get_host_addresses", lambda **_: chosen)
    return chosen


async def test_without_a_network_viewers_are_local(addresses: list[str]) -> None:
    addresses.clear()
    route = await find_reachability(IceConfig())
    assert (route.kind, route.addresses) == (ReachabilityKind.LOOPBACK, ("127.0.0.1",))
    assert str(route) == "viewers on this machine only (127.0.0.1)"


async def test_a_network_address_serves_the_lan_unless_the_page_is_local() -> None:
    route = await find_reachability(IceConfig())
    if route.kind is ReachabilityKind.LOOPBACK:
        pytest.skip("this machine has no network")
    assert route.kind is ReachabilityKind.LAN and not route.silent
    assert (await find_reachability(IceConfig(), page_on_loopback=True)).kind is ReachabilityKind.LOOPBACK


async def test_a_public_address_is_reported(addresses: list[str]) -> None:
    route = await find_reachability(IceConfig(public_address="203.0.113.5"))
    assert (route.kind, route.addresses) == (ReachabilityKind.PUBLIC, ("203.0.113.5",))


async def test_silent_servers_are_reported(addresses: list[str]) -> None:
    servers = [IceServer(f"stun:{UNREACHABLE}"), IceServer(f"turn:{UNREACHABLE}", "a", "b")]
    route = await find_reachability(IceConfig(servers, gather_deadline_s=0.05))
    assert route.kind is ReachabilityKind.LOOPBACK
    assert str(route).endswith(f"; turn:{UNREACHABLE} gave no address; stun:{UNREACHABLE} gave no address")


async def test_relay_only_without_the_relay_is_unreachable() -> None:
    ice = IceConfig([IceServer(f"turn:{UNREACHABLE}", "a", "b")], relay_only=True, gather_deadline_s=0.05)
    route = await find_reachability(ice)
    assert (route.kind, route.addresses, route.silent) == (ReachabilityKind.NONE, (), (f"turn:{UNREACHABLE}",))
    assert "over HTTP" in str(route)


async def test_a_network_failure_is_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: bool) -> list[str]:
        raise OSError("no interfaces")

    monkeypatch.setattr("aioice.ice.get_host_addresses", broken)
    assert (await find_reachability(IceConfig())).kind is ReachabilityKind.NONE


async def test_a_busy_machine_leaves_no_socket_open(addresses: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    loop, opened = asyncio.get_running_loop(), []
    create = loop.create_datagram_endpoint

    async def create_slowly(*arguments: Any, **given: Any) -> Any:
        opened.append(made := await create(*arguments, **given))
        await asyncio.sleep(0.5)
        return made

    monkeypatch.setattr(loop, "create_datagram_endpoint", create_slowly)
    assert (await find_reachability(IceConfig(gather_deadline_s=0.05))).kind is ReachabilityKind.LOOPBACK
    assert opened and all(transport.is_closing() for transport, _ in opened)


async def test_nothing_is_left_running() -> None:
    before = asyncio.all_tasks()
    await find_reachability(IceConfig())
    assert asyncio.all_tasks() <= before
