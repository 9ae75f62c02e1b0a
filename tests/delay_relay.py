"""Forwards UDP with a delay: ``python -m tests.delay_relay 10.77.0.1:51000 10.77.0.1:50000 50 10``.

Packets to the first address are forwarded to the second, and its replies back, in order and with a delay of 50 ms and
up to 10 ms of random jitter. Each sender gets its own socket, as behind a NAT.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from typing import Any

Address = tuple[str, int]


class DelayLine:
    """Delays calls and keeps their order."""

    def __init__(self, delay_s: float, jitter_s: float) -> None:
        self._delay_s = delay_s
        self._jitter_s = jitter_s
        self._last = 0.0

    def put(self, call: Callable[..., None], *given: Any) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + self._delay_s + random.uniform(0, self._jitter_s)
        self._last = max(self._last, at)
        loop.call_at(self._last, call, *given)


class Outside(asyncio.DatagramProtocol):
    """The socket that senders send to."""

    def __init__(self, target: Address, delay_s: float, jitter_s: float) -> None:
        self._target = target
        self._there = DelayLine(delay_s, jitter_s)
        self._back = DelayLine(delay_s, jitter_s)
        self._inside: dict[Address, asyncio.Task[asyncio.DatagramTransport]] = {}
        self._transport: asyncio.DatagramTransport

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, sender: Address) -> None:
        if sender not in self._inside:
            self._inside[sender] = asyncio.create_task(self._open(sender))
        self._there.put(self._forward, sender, data)

    def answer(self, sender: Address, data: bytes) -> None:
        self._back.put(self._transport.sendto, data, sender)

    async def _open(self, sender: Address) -> asyncio.DatagramTransport:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: Inside(self, sender), remote_addr=self._target)
        return transport

    def _forward(self, sender: Address, data: bytes) -> None:
        opened = self._inside[sender]
        if opened.done():
            opened.result().sendto(data)


class Inside(asyncio.DatagramProtocol):
    """The socket that stands for one sender at the target."""

    def __init__(self, outside: Outside, sender: Address) -> None:
        self._outside = outside
        self._sender = sender

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._outside.answer(self._sender, data)


async def main(listen: str, target: str, delay_ms: str, jitter_ms: str = "0") -> None:
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(
        lambda: Outside(_address(target), float(delay_ms) / 1000, float(jitter_ms) / 1000), local_addr=_address(listen)
    )
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
