"""A network of our own that can be made bad: two namespaces, a wire between them, and faults on it.

``netem`` is not in every kernel, so loss comes from iptables, a bottleneck from a token bucket, delay and jitter from
``tests.delay_relay``. Namespaces need root.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

_TOOLS = ("ip", "iptables", "tc")
_PATIENCE_S = 10.0
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
    def limit(self, kbit: int, queue_ms: int = 100) -> Iterator[None]:
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
    name = f"rt{os.getpid()}x{next(_numbers)}"
    server = End(f"{name}s", "10.77.0.1", f"v{name}s"[:15])
    client = End(f"{name}c", "10.77.0.2", f"v{name}c"[:15])
    with contextlib.ExitStack() as undo:
        for end in (server, client):
            _run("ip", "netns", "add", end.name)
            undo.callback(_remove, end)
        _run("ip", "link", "add", server.device, "type", "veth", "peer", "name", client.device)
        for end in (server, client):
            _run("ip", "link", "set", end.device, "netns", end.name)
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


def _remove(end: End) -> None:
    """The wire goes with its namespace, and that when its last process has gone."""
    pids = subprocess.run(["ip", "netns", "pids", end.name], capture_output=True, text=True, timeout=_PATIENCE_S)
    for pid in pids.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), 9)
    subprocess.run(["ip", "netns", "delete", end.name], capture_output=True, timeout=_PATIENCE_S)


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S)
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {ended.stderr.strip()}")
