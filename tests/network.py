"""A network of our own that can be made bad: two namespaces, a wire between them, and faults on it.

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
    """One end of the wire: a namespace with one address."""

    name: str
    address: str
    device: str

    def command(self, *command: str) -> list[str]:
        """``command`` as it is run in this namespace."""
        return ["ip", "netns", "exec", self.name, *command]

    def run(self, *command: str) -> None:
        """Run ``command`` here. Errors: ``RuntimeError`` with what it said."""
        _run(*self.command(*command))


@dataclass(frozen=True)
class Network:
    """Made by :func:`network`. Faults hold until they are taken back or the network is torn down."""

    server: End
    client: End

    @property
    def ends(self) -> tuple[End, End]:
        return self.server, self.client

    @contextlib.contextmanager
    def loss(self, probability: float) -> Iterator[None]:
        """Each UDP packet, in both directions, is lost with this probability."""
        with self._dropping("-p", "udp", "-m", "statistic", "--mode", "random", "--probability", str(probability)):
            yield

    @contextlib.contextmanager
    def without_udp(self) -> Iterator[None]:
        """As behind a firewall that lets only TCP through."""
        with self._dropping("-p", "udp"):
            yield

    @contextlib.contextmanager
    def blackout(self) -> Iterator[None]:
        """Nothing passes, in either direction."""
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
        place = ["dev", self.server.device, "root"]
        bucket = ["tbf", "rate", f"{kbit}kbit", "burst", "4kb", "latency", f"{queue_ms}ms"]
        self.server.run("tc", "qdisc", "add", *place, *bucket)
        try:
            yield
        finally:
            self.server.run("tc", "qdisc", "delete", *place)

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
    """Two connected namespaces; all of it, with the processes inside, is gone afterwards."""
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
    """Skips the test where namespaces cannot be had; in CI, root without the tools is a failure."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root: no bad network is tested")
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if not missing:
        return
    reason = f"there is no {', '.join(missing)} (apt install iproute2 iptables)"
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, and in CI bad networks must be tested")
    pytest.skip(f"{reason}: no bad network is tested")


def _remove_leftovers() -> None:
    """Of test runs that were killed."""
    for path in Path("/run/netns").glob("rt*x*"):
        found = re.fullmatch(r"rt(\d+)x\d+[sc]", path.name)
        if found and not Path("/proc", found[1]).exists():
            _remove(path.name)


def _remove(name: str) -> None:
    """The wire goes with its namespace, and that when its last process has gone."""
    pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, timeout=_TIMEOUT_S)
    for pid in pids.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), 9)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=_TIMEOUT_S)


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {ended.stderr.strip()}")
