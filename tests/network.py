"""A network that can be impaired: two namespaces, a link between them, and faults on it.

``netem`` is not in every kernel, so loss comes from iptables, a bottleneck from a token bucket, delay and jitter from
``tests.delay_relay``. Namespaces need root.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

_TOOLS = ("ip", "iptables", "tc")
_TIMEOUT_S = 60.0
_numbers = itertools.count()


@dataclass(frozen=True)
class End:
    """One end of the link: a namespace with one address."""

    name: str
    address: str
    device: str

    def command(self, *command: str) -> list[str]:
        """The command that runs ``command`` in this namespace."""
        return ["ip", "netns", "exec", self.name, *command]

    def run(self, *command: str) -> None:
        """Run ``command`` in this namespace.

        Raises:
            RuntimeError: it failed; has its output.
        """
        _run(*self.command(*command))


@dataclass(frozen=True)
class Network:
    """Made by :func:`network`. Faults last until their context exits or the network is removed."""

    server: End
    client: End

    @property
    def ends(self) -> tuple[End, End]:
        return self.server, self.client

    @contextlib.contextmanager
    def loss(self, probability: float) -> Iterator[None]:
        """Drop each UDP packet, in both directions, with this probability."""
        with self._dropping("-p", "udp", "-m", "statistic", "--mode", "random", "--probability", str(probability)):
            yield

    @contextlib.contextmanager
    def without_udp(self) -> Iterator[None]:
        """Drop all UDP packets, as a firewall does."""
        with self._dropping("-p", "udp"):
            yield

    @contextlib.contextmanager
    def blackout(self) -> Iterator[None]:
        """Drop all packets, in both directions."""
        with self._dropping():
            yield

    @contextlib.contextmanager
    def translated(self, public_address: str) -> Iterator[None]:
        """The client reaches the server's UDP ports by ``public_address``, as through a NAT that forwards them."""
        route = [f"{public_address}/32", "via", self.server.address]
        rule = ["OUTPUT", "-d", public_address, "-p", "udp", "-j", "DNAT", "--to-destination", self.server.address]
        self.client.run("ip", "route", "add", *route)
        self.client.run("iptables", "-w", "-t", "nat", "-A", *rule)
        try:
            yield
        finally:
            self.client.run("iptables", "-w", "-t", "nat", "-D", *rule)
            self.client.run("ip", "route", "delete", *route)

    @contextlib.contextmanager
    def limit(self, kbit: int, queue_ms: int) -> Iterator[None]:
        """A bottleneck towards the client, of ``kbit`` kb/s, with a queue that holds ``queue_ms`` of it."""
        root = ["dev", self.server.device, "root"]
        bucket = ["tbf", "rate", f"{kbit}kbit", "burst", "4kb", "latency", f"{queue_ms}ms"]
        self.server.run("tc", "qdisc", "add", *root, *bucket)
        try:
            yield
        finally:
            self.server.run("tc", "qdisc", "delete", *root)

    @contextlib.contextmanager
    def _dropping(self, *match: str) -> Iterator[None]:
        rule = ["INPUT", "-i", "v+", *match, "-j", "DROP"]
        with contextlib.ExitStack() as undo:
            for end in self.ends:
                end.run("iptables", "-w", "-A", *rule)
                undo.callback(end.run, "iptables", "-w", "-D", *rule)
            yield


@contextlib.contextmanager
def network() -> Iterator[Network]:
    """Two connected namespaces; removed afterwards, with the processes inside."""
    _check_possible()
    _remove_leftovers()
    name = f"rt{os.getpid()}x{next(_numbers)}"
    server, client = (End(f"{name}{side}", f"10.77.0.{n}", f"v{name}{side}") for n, side in enumerate("sc", 1))
    with contextlib.ExitStack() as undo:
        for end in (server, client):
            _run("ip", "netns", "add", end.name)
            undo.callback(_remove, end.name)
        _run("ip", "link", "add", server.device, "type", "veth", "peer", "name", client.device)
        for end in (server, client):
            _run("ip", "link", "set", end.device, "netns", end.name)
            # Without an IPv6 address that comes a second or two later: a browser drops what it loads when one does.
            end.run("ip", "link", "set", "dev", end.device, "addrgenmode", "none")
            end.run("ip", "address", "add", f"{end.address}/24", "dev", end.device)
            end.run("ip", "link", "set", end.device, "up")
            end.run("ip", "link", "set", "lo", "up")
        yield Network(server, client)


def _check_possible() -> None:
    """Skip the test where namespaces are not available; in CI, root without the tools is a failure."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root: network faults are not tested")
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if not missing:
        return
    reason = f"{', '.join(missing)} not found (apt install iproute2 iptables)"
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, and network faults must be tested in CI")
    pytest.skip(f"{reason}: network faults are not tested")


def _remove_leftovers() -> None:
    """Remove the namespaces of test runs that were killed."""
    for path in Path("/run/netns").glob("rt*x*"):
        found = re.fullmatch(r"rt(\d+)x\d+[sc]", path.name)
        if found and not Path("/proc", found[1]).exists():
            _remove(path.name)


def _remove(name: str) -> None:
    """Kill the processes of a namespace and delete it, which also removes its end of the link."""
    pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, timeout=_TIMEOUT_S)
    for pid in pids.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), 9)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=_TIMEOUT_S)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
