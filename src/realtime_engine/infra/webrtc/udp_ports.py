"""Restricts WebRTC to a range of UDP ports, such as those that a firewall admits."""

from __future__ import annotations

import asyncio
import errno
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

_LARGEST_PORT = 65535
_BIND = "create_datagram_endpoint"


@dataclass(frozen=True)
class UdpPorts:
    """A range of ports, both ends included. A viewer takes one port on each of this machine's addresses.

    Raises:
        ValueError: not a range.
    """

    first: int
    last: int

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last <= _LARGEST_PORT:
            raise ValueError(
                f"udp_ports must be two ports from 1 to {_LARGEST_PORT}, the lower one first, such as 50000-50100, "
                f"got '{self}'"
            )

    @classmethod
    def parse(cls, text: str) -> UdpPorts:
        """Read ``"50000-50100"``, or a single port.

        Raises:
            ValueError: not a range.
        """
        found = re.fullmatch(r"\s*(\d{1,5})\s*(?:-\s*(\d{1,5})\s*)?", text)
        if found is None:
            raise ValueError(f"udp_ports must look like 50000-50100, got {text!r}")
        first, last = found.groups()
        return cls(int(first), int(last or first))

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    def shuffled(self) -> Iterator[int]:
        """All ports once, from a random one on, so that a port that was just released is not the next one tried."""
        size = self.last - self.first + 1
        start = random.randrange(size)
        return (self.first + (start + step) % size for step in range(size))


_allowed: ContextVar[UdpPorts | None] = ContextVar("the UDP ports of this task", default=None)


@contextmanager
def binding_within(ports: UdpPorts) -> Iterator[None]:
    """Inside this context, sockets that the current task binds to port 0 get one of ``ports``.

    Other tasks of the event loop are not affected. When all ports are taken, binding fails as for a port in use.

    Raises:
        RuntimeError: the running event loop does not support that.
    """
    _patch(asyncio.get_running_loop())
    token = _allowed.set(ports)
    try:
        yield
    finally:
        _allowed.reset(token)


def _patch(loop: asyncio.AbstractEventLoop) -> None:
    """Replace the method with which aioice binds to port 0; there is no other way to choose its ports."""
    bind: Any = getattr(loop, _BIND)
    if hasattr(bind, "supports_ranges"):
        return

    async def bind_within(protocol_factory: Any, local_addr: Any = None, *args: Any, **options: Any) -> Any:
        ports = _allowed.get()
        if ports is None or local_addr is None or local_addr[1] != 0:
            return await bind(protocol_factory, local_addr, *args, **options)
        for port in ports.shuffled():
            try:
                return await bind(protocol_factory, (local_addr[0], port), *args, **options)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
        raise OSError(errno.EADDRINUSE, f"all UDP ports of {ports} are taken on {local_addr[0]}")

    bind_within.supports_ranges = True  # type: ignore[attr-defined]
    try:
        setattr(loop, _BIND, bind_within)
    except AttributeError as error:
        raise RuntimeError(f"a range of UDP ports needs an event loop of asyncio, got {type(loop).__name__}") from error
