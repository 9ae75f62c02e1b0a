"""A server and a viewer at the two ends of an impaired network, and the pictures that reach the viewer."""

from __future__ import annotations

import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..extras import skip_without
from ..network import End, Network
from .scene_picture import expected_thumbnail

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
PORT, RELAY_PORT = 50_000, 51_000
_TIMEOUT_S = 60.0
_MAX_WRONG = 25
_NS = 1e9


@dataclass(frozen=True)
class Seen:
    """A picture as the viewer received it.

    Attributes:
        at_s: when it was received, on the clock of :func:`time.monotonic`.
        delay_s: seconds since it was published.
        is_right: whether it is the picture that was sent.
    """

    at_s: float
    delay_s: float
    is_right: bool


class Process:
    """A module of the tests at one end of the network, which prints JSON lines."""

    def __init__(self, end: End, module: str, *arguments: str) -> None:
        skip_without("serve")
        command = end.command(sys.executable, "-W", "ignore", "-m", f"tests.{module}", *arguments)
        self.records: list[dict[str, Any]] = []
        self._errors: list[str] = []
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self._process = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, text=True, **pipes)
        self._readers = [
            threading.Thread(target=self._read, args=(stream, take), daemon=True)
            for stream, take in ((self._process.stdout, self._take), (self._process.stderr, self._errors.append))
        ]
        for reader in self._readers:
            reader.start()

    def send(self, message: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def wait_for(self, *names: str) -> dict[str, Any]:
        """The first record with one of these members."""
        return self.until(lambda: next((record for record in self.records if set(names) & set(record)), None))

    def until(self, condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + _TIMEOUT_S
        while not (found := condition()):
            running = self._process.poll() is None or any(reader.is_alive() for reader in self._readers)
            assert running and time.monotonic() < deadline, f"no such record: {''.join(self._errors)[-2000:]}"
            time.sleep(0.005)
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.wait(_TIMEOUT_S)
        for reader in self._readers:
            reader.join(_TIMEOUT_S)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def _take(self, line: str) -> None:
        self.records.append(json.loads(line) if line.startswith("{") else {line.strip(): True})

    def _read(self, stream: Any, take: Callable[[str], None]) -> None:
        for line in stream:
            take(line)


class Scene:
    """Made by :func:`scene`."""

    def __init__(self, server: Process, viewer: Process) -> None:
        self._server = server
        self._viewer = viewer

    def seen(self, begin_s: float = 0.0, end_s: float = float("inf")) -> list[Seen]:
        """The pictures received in an interval, oldest first."""
        sent = {r["rtp"]: r for r in self._server.records if "seq" in r}
        received = [r for r in self._viewer.records if "thumbnail" in r and begin_s <= r["t"] / _NS < end_s]
        return [_seen(record, sent[record["rtp"]]) for record in received if record["rtp"] in sent]

    def sent_rate(self, begin_s: float, end_s: float) -> float:
        """Bits per second that the server sent in an interval."""
        reports = [r for r in self._server.records if "sent_bytes" in r and begin_s <= r["t"] / _NS <= end_s]
        first, last = reports[0], reports[-1]
        return 8 * (last["sent_bytes"] - first["sent_bytes"]) / ((last["t"] - first["t"]) / _NS)

    def is_over(self) -> bool:
        """Whether one end has closed the connection."""
        return any({"closed", "lost"} & set(record) for record in self._server.records + self._viewer.records)

    def wait_for_picture(self, after_s: float) -> Seen:
        """The first right picture received after ``after_s``."""
        return self.wait_for_pictures(1, after_s)[0]

    def wait_for_pictures(self, count: int, after_s: float) -> list[Seen]:
        """The first ``count`` right pictures received after ``after_s``."""

        def found() -> list[Seen] | None:
            right = [seen for seen in self.seen(after_s) if seen.is_right]
            return right[:count] if len(right) >= count else None

        pictures: list[Seen] = self._viewer.until(found)
        return pictures

    def wait_for_rate(self, max_rate: float) -> None:
        """Wait until the server has sent at most ``max_rate`` bits per second for a second."""

        def is_reached() -> bool:
            now_s = time.monotonic()
            reports = [r for r in self._server.records if "sent_bytes" in r and r["t"] / _NS >= now_s - 1]
            return len(reports) > 1 and self.sent_rate(now_s - 1, now_s) <= max_rate

        self._server.until(is_reached)


@contextlib.contextmanager
def scene(
    network: Network, *, delay_ms: int = 0, jitter_ms: int = 0, codec: str = "VP8", **options: Any
) -> Iterator[Scene]:
    """A scene that plays; with a delay, both directions go through a relay.

    The offer has no candidates, so that the server learns the viewer's address from its packets.
    """
    with contextlib.ExitStack() as undo:

        def start(end: End, module: str, *arguments: str) -> Process:
            process = Process(end, module, *arguments)
            undo.callback(process.end)
            return process

        settings = {"codec": codec, "udp_ports": str(PORT), **options}
        server = start(network.server, "faults.scene_server", json.dumps(settings))
        viewer = start(network.client, "faults.scene_viewer", codec)
        if delay_ms:
            ends = [f"{network.server.address}:{port}" for port in (RELAY_PORT, PORT)]
            start(network.server, "delay_relay", *ends, str(delay_ms), str(jitter_ms)).wait_for("ready")
        offer = viewer.wait_for("offer")["offer"]
        server.send(_without_candidates(offer))
        answer = server.wait_for("answer")["answer"]
        viewer.send(re.sub(rf"(a=candidate:.*) {PORT} typ", rf"\1 {RELAY_PORT} typ", answer) if delay_ms else answer)
        playing = Scene(server, viewer)
        playing.wait_for_picture(0.0)
        yield playing


def answer_to_blocked(network: Network, codec: str, **options: object) -> dict[str, Any]:
    """The server's reply to an offer while UDP is blocked, with an unreachable TURN server configured."""
    servers = [[f"stun:{network.client.address}"], [f"turn:{network.client.address}", "ann", "pass"]]
    settings = {"codec": codec, "udp_ports": str(PORT), "servers": servers, **options}
    server = Process(network.server, "faults.scene_server", json.dumps(settings))
    viewer = Process(network.client, "faults.scene_viewer", codec)
    try:
        with network.without_udp():
            server.send(viewer.wait_for("offer")["offer"])
            return server.wait_for("answer", "refused")
    finally:
        server.end()
        viewer.end()


def gaps_s(pictures: Sequence[Seen], begin_s: float, end_s: float) -> list[float]:
    """Seconds between right pictures, and between them and the ends of the interval."""
    moments = [begin_s, *(picture.at_s for picture in pictures if picture.is_right), end_s]
    return [after - before for before, after in zip(moments, moments[1:], strict=False)]


def median_delay_s(pictures: Sequence[Seen]) -> float:
    return statistics.median(picture.delay_s for picture in pictures)


def _seen(received: dict[str, Any], sent: dict[str, Any]) -> Seen:
    wrong = max(abs(a - b) for a, b in zip(received["thumbnail"], expected_thumbnail(sent["seq"]), strict=True))
    return Seen(received["t"] / _NS, (received["t"] - sent["shown"]) / _NS, wrong <= _MAX_WRONG)


def _without_candidates(sdp: str) -> str:
    return "\r\n".join(line for line in sdp.splitlines() if not line.startswith("a=candidate")) + "\r\n"
