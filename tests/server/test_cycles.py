"""Clients that connect, reload and leave, over and over: ``scripts/cycles`` runs 200 of them."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from realtime_engine.client import RealtimeClient

from .support import OwnedSession, PaintEngine, Served, over_http, paint_demo, until

CYCLES = int(os.environ.get("CYCLES", "6"))
WARM_UP = 12 + CYCLES // 2  # imports, thread pools, the arenas of malloc
MAX_GROWTH_MB = 10.0


@dataclass(frozen=True)
class Resources:
    """What this process, which runs the server and its clients, holds."""

    tasks: int
    threads: int
    files: int
    resident_mb: float

    @classmethod
    def now(cls) -> Resources:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return cls(
            len(asyncio.all_tasks()),
            threading.active_count(),
            len(os.listdir("/proc/self/fd")),
            pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        )


@pytest.fixture
def quiet() -> Iterator[None]:
    """Nothing is logged, because pytest keeps all records."""
    logging.disable(logging.INFO)
    yield
    logging.disable(logging.NOTSET)


async def settled() -> Resources:
    """The resources once the clients are gone: their transports close in later passes of the loop."""
    for _ in range(3):
        gc.collect()
        await asyncio.sleep(0.1)
    return Resources.now()


async def play(served: Served, transport: str) -> None:
    """Connect, see a frame if there are any, and leave."""
    async with RealtimeClient.connect(str(served.client.base_url), transport=transport) as client:  # type: ignore[arg-type]
        client.press("KeyW")
        if transport != "none":
            await client.next_frame(30)


async def reload_page(served: Served) -> None:
    """Connect as the page does, reload it three times, and close it."""
    owned = await served.create()
    for _ in range(3):
        async with connect(owned.url("controls", "ws")) as controls, connect(owned.url("video", "ws")) as video:
            await controls.send(json.dumps({"v": 1, "type": "ping", "seq": 0}))
            await controls.recv()
            await video.recv()
        assert (await owned.request("POST", "leave")).status_code == 204
    assert (await owned.request("DELETE", "self")).status_code == 204


async def wait_in_line(served: Served) -> None:
    """Take the places, take a ticket and follow it, and leave the line."""
    playing = [await served.create() for _ in range(2)]
    ticket = (await served.client.post("/api/sessions", json={})).json()
    async with served.client.stream("GET", ticket["links"]["events"]) as events:
        await anext(events.aiter_lines())
    assert (await served.client.delete(ticket["links"]["self"])).status_code == 204
    for owned in playing:
        await owned.request("DELETE", "self")


async def join(served: Served) -> None:
    """Watch a session and control it with another client; both leave after their owner."""
    owned = await served.create()
    guests = []
    for role in ("viewer", "controller"):
        made = await served.client.post(owned.links["invitations"], json={"role": role}, headers=owned.auth)
        joined = (await served.client.post("/api/invitations", json={"token": made.json()["token"]})).json()
        guests.append(OwnedSession(served.client, joined["session_id"], joined["token"], joined["links"]))
    async with connect(guests[0].url("video", "ws")) as video, connect(guests[1].url("controls", "ws")) as controls:
        await controls.send(json.dumps({"v": 1, "type": "controls", "seq": 1, "keys": ["KeyW"]}))
        await video.recv()
        await owned.request("DELETE", "self")


@pytest.mark.timeout(60 + 5 * CYCLES)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the files of the process are counted in /proc")
async def test_cycles_of_connecting_reloading_and_leaving_leave_nothing_behind(
    capsys: pytest.CaptureFixture[str], quiet: None
) -> None:
    engine = PaintEngine(max_sessions=2)
    async with over_http(paint_demo(engine)) as served:

        async def cycle(number: int) -> None:
            await [
                lambda: play(served, "webrtc"),
                lambda: reload_page(served),
                lambda: play(served, "mjpeg"),
                lambda: wait_in_line(served),
                lambda: play(served, "none"),
                lambda: join(served),
            ][number % 6]()
            await until(lambda: served.runtime.sessions.occupied == 0)
            engine.calls.clear()

        for number in range(WARM_UP):
            await cycle(number)
        before = await settled()
        for number in itertools.islice(itertools.count(), CYCLES):
            await cycle(number)
        after = await settled()
        with capsys.disabled():
            sys.stdout.write(f"\n{CYCLES} cycles: {before} -> {after}\n")
        assert served.runtime.admission.waiting == 0
        assert after.tasks <= before.tasks and after.threads <= before.threads and after.files <= before.files
        assert after.resident_mb - before.resident_mb < MAX_GROWTH_MB
