from __future__ import annotations

import asyncio
import errno

import pytest

from realtime_engine.infra.webrtc.udp_ports import UdpPorts, binding_within

from .free_ports import free_ports


async def bind(port: int = 0) -> asyncio.DatagramTransport:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, local_addr=("127.0.0.1", port))
    return transport


def port_of(transport: asyncio.DatagramTransport) -> int:
    port: int = transport.get_extra_info("sockname")[1]
    return port


@pytest.mark.parametrize(("text", "ports"), [("50000-50100", (50000, 50100)), (" 7 - 8 ", (7, 8)), ("9", (9, 9))])
def test_a_range_is_parsed(text: str, ports: tuple[int, int]) -> None:
    assert UdpPorts.parse(text) == UdpPorts(*ports)


@pytest.mark.parametrize("text", ["", "a-b", "50000:50100", "5-", "-5", "0-5", "9-8", "1-65536", "1-2-3"])
def test_an_invalid_range_is_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="udp_ports must") as error:
        UdpPorts.parse(text)
    assert f"got '{text}'" in str(error.value)


def test_each_port_is_tried_once() -> None:
    assert {tuple(sorted(UdpPorts(5, 9).shuffled())) for _ in range(20)} == {(5, 6, 7, 8, 9)}


async def test_all_ports_of_the_range_are_used_and_no_others() -> None:
    ports = free_ports(3)
    with binding_within(ports):
        bound = [await bind() for _ in range(3)]
        with pytest.raises(OSError, match=f"all UDP ports of {ports} are taken") as error:
            await bind()
    assert error.value.errno == errno.EADDRINUSE
    assert {port_of(transport) for transport in bound} == set(range(ports.first, ports.last + 1))
    bound.pop().close()
    await asyncio.sleep(0)
    with binding_within(ports):
        bound.append(await bind())
    for transport in bound:
        transport.close()


async def test_only_binds_to_port_0_in_the_same_task_are_affected() -> None:
    ports = free_ports(2)
    elsewhere = ports.last + 1

    async def bind_outside() -> int:
        transport = await bind()
        transport.close()
        return port_of(transport)

    outside = asyncio.create_task(bind_outside())
    with binding_within(ports):
        chosen = await bind(elsewhere)
        assert port_of(chosen) == elsewhere
        assert await outside not in (ports.first, ports.last)
    after = await bind()
    assert port_of(after) not in (ports.first, ports.last)
    chosen.close()
    after.close()


async def test_an_unsupported_event_loop_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sealed:
        __slots__ = ()

        def create_datagram_endpoint(self) -> None:
            """As loops in C have it."""

    monkeypatch.setattr("asyncio.get_running_loop", Sealed)
    with pytest.raises(RuntimeError, match="event loop of asyncio, got Sealed"), binding_within(UdpPorts(1, 2)):
        pass
