"""What do hundreds of clients in the waiting line cost, and does everybody get a turn?

    python benchmarks/waiting_line.py [--clients 500] [--seconds 30] [--json FILE]

A maze with one session, on loopback. Clients join the line and follow their tickets by server-sent events; the client
at the head claims its place, holds it for a moment and ends its session, as fast as the server allows. Event loop lag
is the server's own measurement over the newest 512 periods; memory is the growth of the server's resident set while
the clients join. A client that is served out of order, twice or never although it was next counts as unfair.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

BUDGET_LAG_MS = 10.0
START_S = 60.0


@dataclass
class Client:
    """One client: its ticket, and what it has seen."""

    http: httpx.AsyncClient
    number: int
    ticket: dict[str, Any] = field(default_factory=dict)
    updates: int = 0

    async def join(self) -> None:
        response = await self.http.post("/api/sessions", json={})
        assert response.status_code == 202, response.text
        self.ticket = response.json()

    async def follow(self, served: list[int]) -> None:
        """Wait for a place, use it, and report it."""
        async with self.http.stream("GET", self.ticket["links"]["events"], timeout=None) as response:
            async for line in response.aiter_lines():
                if not line.startswith("data: "):
                    continue
                self.updates += 1
                if json.loads(line.removeprefix("data: "))["state"] == "reserved":
                    break
        created = await self.http.post("/api/sessions", json={"ticket": self.ticket["ticket"]})
        assert created.status_code == 201, created.text
        served.append(self.number)
        grant = created.json()
        headers = {"Authorization": f"Bearer {grant['token']}"}
        await self.http.delete(grant["links"]["self"], headers=headers)


def resident_kb(process: subprocess.Popen[bytes]) -> int:
    """The resident set of the server, in kB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found.group(1))


async def lag_ms(http: httpx.AsyncClient) -> tuple[float, float]:
    """99th percentile and maximum of the server's event loop lag, in milliseconds."""
    text = (await http.get("/metrics")).text
    quantile = re.search(r'event_loop_lag_seconds\{quantile="0.99"\} (\S+)', text)
    maximum = re.search(r"^realtime_engine_event_loop_lag_max_seconds (\S+)", text, re.MULTILINE)
    assert quantile is not None and maximum is not None
    return float(quantile.group(1)) * 1e3, float(maximum.group(1)) * 1e3


async def wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + START_S
    async with httpx.AsyncClient(base_url=url) as http:
        while True:
            try:
                if (await http.get("/readyz")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            assert time.monotonic() < deadline, "the server did not start"
            await asyncio.sleep(0.1)


async def measure(url: str, process: subprocess.Popen[bytes], clients: int, seconds: float) -> dict[str, float]:
    await wait_until_ready(url)
    async with httpx.AsyncClient(base_url=url) as player:
        playing = (await player.post("/api/sessions", json={})).json()
        idle_lag = await lag_ms(player)
        before_kb = resident_kb(process)
        line = [Client(httpx.AsyncClient(base_url=url, timeout=60), number) for number in range(clients)]
        began = time.perf_counter()
        for client in line:
            await client.join()
        joining_s = time.perf_counter() - began
        served: list[int] = []
        following = [asyncio.create_task(client.follow(served)) for client in line]
        while sum(client.updates > 0 for client in line) < clients:  # noqa: ASYNC110 - polls many clients
            await asyncio.sleep(0.05)
        growth_kb = resident_kb(process) - before_kb
        headers = {"Authorization": f"Bearer {playing['token']}"}
        await player.delete(playing["links"]["self"], headers=headers)
        began = time.perf_counter()
        _, pending = await asyncio.wait(following, timeout=seconds)
        elapsed_s = time.perf_counter() - began
        p99_ms, max_ms = await lag_ms(player)
        for task in pending:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        for client in line:
            await client.http.aclose()
    failures = [task for task in following if task.done() and not task.cancelled() and task.exception() is not None]
    return {
        "clients": clients,
        "joins a second": clients / joining_s,
        "memory a ticket with its stream [kB]": growth_kb / clients,
        "turns a second": len(served) / elapsed_s,
        "served": len(served),
        "served out of order": sum(number != place for place, number in enumerate(served)),
        "failed": len(failures),
        "event loop lag p99, idle [ms]": idle_lag[0],
        "event loop lag p99 [ms]": p99_ms,
        "event loop lag max [ms]": max_ms,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--port", type=int, default=8390)
    parser.add_argument("--json", metavar="FILE", help="write the figures here as well")
    given = parser.parse_args()
    command = [sys.executable, "-m", "realtime_engine", "serve", "maze", "--max-sessions", "1"]
    command += ["--port", str(given.port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        figures = asyncio.run(measure(f"http://127.0.0.1:{given.port}", process, given.clients, given.seconds))
    finally:
        process.terminate()
        process.wait()
    for name, value in figures.items():
        print(f"{name:<44}{value:>12.2f}")
    print(f"budget: event loop lag p99 <= {BUDGET_LAG_MS:g} ms, nothing out of order, nothing failed")
    if given.json:
        Path(given.json).write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
