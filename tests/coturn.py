"""A TURN server (coturn) on loopback, for the duration of a test."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

_TIMEOUT_S = 60.0
_HOST = "127.0.0.1"


@dataclass(frozen=True)
class Coturn:
    """A running server."""

    port: int
    folder: Path

    @property
    def url(self) -> str:
        """Its URL for a list of ICE servers."""
        return f"turn:{_HOST}:{self.port}?transport=udp"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()


@contextlib.contextmanager
def coturn(*options: str) -> Iterator[Coturn]:
    """Run turnserver with these options, such as ``--user=ann:secret`` or ``--static-auth-secret=north``."""
    path = turnserver_path()
    port = _free_port()
    with tempfile.TemporaryDirectory() as folder:
        server = Coturn(port, Path(folder))
        with (server.folder / "log").open("w") as log:
            process = subprocess.Popen([path, *_options(server), *options], stdout=log, stderr=log, cwd=folder)
        try:
            _wait_for(port, process, server)
            yield server
        finally:
            process.kill()
            process.wait(_TIMEOUT_S)


def turnserver_path() -> str:
    """Skip the test where coturn is not installed; in CI that is a failure."""
    path = shutil.which("turnserver")
    if path is not None:
        return path
    if os.environ.get("CI"):
        pytest.fail("turnserver (coturn) is not on the PATH, and the relay must be tested in CI")
    pytest.skip("turnserver (coturn) is not on the PATH: the relay is not tested")


def _options(server: Coturn) -> list[str]:
    return [
        "-n",
        f"--listening-ip={_HOST}",
        f"--relay-ip={_HOST}",
        f"--listening-port={server.port}",
        "--realm=example.org",
        "--lt-cred-mech",
        "--fingerprint",
        "--allow-loopback-peers",
        "--no-tls",
        "--no-dtls",
        "--no-cli",
        "--relay-threads=1",
        "--min-port=40000",
        "--max-port=40999",
        f"--pidfile={server.folder / 'pid'}",
        f"--userdb={server.folder / 'db'}",
        "--log-file=stdout",
    ]


def _free_port() -> int:
    """A port that is free for TCP and UDP; coturn listens on both."""
    while True:
        with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            tcp.bind((_HOST, 0))
            port: int = tcp.getsockname()[1]
            with contextlib.suppress(OSError):
                udp.bind((_HOST, port))
                return port


def _wait_for(port: int, process: subprocess.Popen[bytes], server: Coturn) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((_HOST, port), 0.5):
            return
        time.sleep(0.02)
    raise RuntimeError(f"coturn does not respond:\n{server.log}")
