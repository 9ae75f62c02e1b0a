"""Unused UDP ports, for tests that need several in a row."""

from __future__ import annotations

import contextlib
import random
import socket

from realtime_engine.infra.webrtc.udp_ports import UdpPorts


def free_ports(count: int) -> UdpPorts:
    """``count`` ports below the ephemeral range, all free a moment ago, and the next one too."""
    while True:
        first = random.randrange(20_000, 32_000)
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count + 1):
                    taken = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                    taken.bind(("0.0.0.0", port))
            except OSError:
                continue
        return UdpPorts(first, first + count - 1)
