"""The life of one of several demos: loaded at its first use, unloaded when idle, loaded again after a failure."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from realtime_engine.server import ServerConfig
from realtime_engine.server.mounted_demo import DemoState, MountedDemo
from realtime_engine.testing import ManualClock

from .support import PaintEngine, SlowBuild, paint_demo, until

UNLOAD_S = 60.0


class Mounted:
    """A demo that is mounted at ``/demos/paint``, its clock and a client of it."""

    def __init__(self, build: Any, **config: Any) -> None:
        self.clock = ManualClock(10**12)
        settings = {"unload_after_s": UNLOAD_S, **config}
        self.demo = MountedDemo("paint", paint_demo(build=build), ServerConfig(**settings), self.clock)
        parent = FastAPI()
        parent.mount("/demos/paint", self.demo)
        transport = httpx.ASGITransport(parent, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://localhost/demos/paint")

    async def get(self, path: str = "/api/demo") -> httpx.Response:
        return await self.client.get(path)

    async def until(self, state: DemoState) -> None:
        await until(lambda: self.demo.state is state)

    def pass_s(self, seconds: float) -> None:
        self.clock.advance(seconds)


@asynccontextmanager
async def mounted(build: Any = None, **config: Any) -> AsyncIterator[Mounted]:
    given = Mounted(build or (lambda options: PaintEngine(max_sessions=2)), **config)
    yield given
    await given.demo.close()
    await given.client.aclose()


def engine_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(("realtime-engine", "media"))]


async def test_it_is_loaded_by_its_first_request() -> None:
    async with mounted() as paint:
        assert paint.demo.state is DemoState.UNLOADED
        assert (await paint.get("/")).status_code == 200
        assert paint.demo.state is not DemoState.UNLOADED
        await paint.until(DemoState.READY)
        assert (await paint.get()).json()["gallery"] == "../../"
        assert (await paint.client.post("/api/sessions", json={})).status_code == 201


async def test_monitoring_does_not_load_it() -> None:
    async with mounted() as paint:
        for path in ("/healthz", "/readyz", "/metrics"):
            response = await paint.get(path)
            assert (response.status_code, response.json()["type"]) == (503, "urn:realtime-engine:problem:unloaded")
        assert paint.demo.state is DemoState.UNLOADED and paint.demo.metrics() == []
        await paint.get()
        await paint.until(DemoState.READY)
        assert (await paint.get("/readyz")).status_code == 200


async def test_an_idle_demo_is_unloaded_and_its_engine_is_released() -> None:
    engines: list[weakref.ref[PaintEngine]] = []

    def build(options: object) -> PaintEngine:
        engine = PaintEngine(max_sessions=2)
        engines.append(weakref.ref(engine))
        return engine

    async with mounted(build) as paint:
        before = engine_threads()
        await paint.get()
        await paint.until(DemoState.READY)
        paint.pass_s(UNLOAD_S - 1)
        await paint.demo.review()
        assert paint.demo.state is DemoState.READY
        paint.pass_s(1)
        await paint.demo.review()
        assert paint.demo.state is DemoState.UNLOADED
        await until(lambda: engine_threads() == before)
        gc.collect()
        assert engines[0]() is None
        await paint.get()
        await paint.until(DemoState.READY)
        assert len(engines) == 2


async def test_it_stays_without_a_limit() -> None:
    async with mounted(unload_after_s=None) as paint:
        await paint.get()
        await paint.until(DemoState.READY)
        paint.pass_s(10**6)
        await paint.demo.review()
        assert paint.demo.state is DemoState.READY


async def test_sessions_and_tickets_keep_it() -> None:
    async with mounted(lambda options: PaintEngine(max_sessions=1)) as paint:
        await paint.get()
        await paint.until(DemoState.READY)
        grant = (await paint.client.post("/api/sessions", json={})).json()
        other = httpx.AsyncClient(transport=paint.client._transport, base_url=paint.client.base_url)
        ticket = await other.post("/api/sessions", json={})
        assert ticket.status_code == 202
        auth = {"Authorization": f"Bearer {grant['token']}"}
        for step in range(2):
            paint.pass_s(UNLOAD_S + 1)
            await paint.demo.review()
            assert paint.demo.state is DemoState.READY
            if step == 0:
                await paint.client.delete(f"/{grant['links']['self']}", headers=auth)
        await other.delete(f"/{ticket.json()['links']['self']}")
        await until(lambda: paint.demo.runtime is not None and not paint.demo.runtime.is_in_use)
        paint.pass_s(UNLOAD_S + 1)
        await paint.demo.review()
        assert paint.demo.state is DemoState.UNLOADED


async def test_a_demo_that_loads_is_not_idle() -> None:
    build = SlowBuild()
    async with mounted(build) as paint:
        await paint.get()
        paint.pass_s(10 * UNLOAD_S)
        await paint.demo.review()
        assert paint.demo.state is DemoState.LOADING
        build.go.set()
        await paint.until(DemoState.READY)


async def test_an_open_request_keeps_it() -> None:
    async with mounted() as paint:
        await paint.get()
        await paint.until(DemoState.READY)
        entered, go = asyncio.Event(), asyncio.Event()

        async def receive() -> dict[str, Any]:
            entered.set()
            await go.wait()
            return {"type": "http.request", "body": b"{}"}

        async def send(message: Any) -> None:
            pass

        scope = {
            "type": "http", "method": "POST", "path": "/api/sessions", "headers": [], "query_string": b"",
            "client": ("127.0.0.1", 1), "server": ("localhost", 80), "scheme": "http",
        }  # fmt: skip
        request = asyncio.create_task(paint.demo(scope, receive, send))
        await entered.wait()
        paint.pass_s(UNLOAD_S + 1)
        await paint.demo.review()
        assert paint.demo.state is DemoState.READY
        go.set()
        await request


async def test_a_request_during_the_unload_loads_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with mounted() as paint:
        await paint.get()
        await paint.until(DemoState.READY)
        first = paint.demo.runtime
        assert first is not None
        leaving, go = asyncio.Event(), asyncio.Event()
        shut_down = first._shut_down

        async def slowly(engine: asyncio.Task[None]) -> None:
            leaving.set()
            await go.wait()
            await shut_down(engine)

        monkeypatch.setattr(first, "_shut_down", slowly)
        paint.pass_s(UNLOAD_S + 1)
        review = asyncio.create_task(paint.demo.review())
        await leaving.wait()
        requests = [asyncio.create_task(paint.get()) for _ in range(5)]
        await asyncio.sleep(0)
        go.set()
        await review
        assert [response.status_code for response in await asyncio.gather(*requests)] == [200] * 5
        assert paint.demo.runtime is not None and paint.demo.runtime is not first


async def test_an_unload_that_is_interrupted_is_completed_by_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async with mounted() as paint:
        await paint.get()
        await paint.until(DemoState.READY)
        first = paint.demo.runtime
        assert first is not None
        leaving, shut_down = asyncio.Event(), first._shut_down

        async def slowly(engine: asyncio.Task[None]) -> None:
            leaving.set()
            await shut_down(engine)

        monkeypatch.setattr(first, "_shut_down", slowly)
        paint.pass_s(UNLOAD_S + 1)
        review = asyncio.create_task(paint.demo.review())
        await leaving.wait()
        review.cancel()
        assert (await paint.get()).status_code == 200
        assert paint.demo.runtime is not first


async def test_a_failed_load_is_answered_with_the_reason_and_repeated_after_the_back_off() -> None:
    works = False

    def build(options: object) -> PaintEngine:
        if not works:
            raise OSError("no weights at all")
        return PaintEngine(max_sessions=2)

    async with mounted(build) as paint:
        await paint.get()
        await paint.until(DemoState.FAILED)
        assert paint.demo.error == "OSError: no weights at all"
        refused = await paint.client.post("/api/sessions", json={})
        assert refused.status_code == 503 and refused.headers["retry-after"] == "3"
        assert refused.json()["type"].endswith(":demo-failed") and "no weights" in refused.json()["detail"]
        assert (await paint.get("/")).status_code == 200, "the page shows the reason"
        assert (await paint.get()).json()["error"] == paint.demo.error
        paint.pass_s(2)
        await paint.get()
        await paint.until(DemoState.FAILED)
        paint.pass_s(3.9)  # the back-off has doubled
        await paint.get()
        assert paint.demo.state is DemoState.FAILED
        paint.pass_s(0.1)
        works = True
        await paint.get()
        await paint.until(DemoState.READY)
        assert (await paint.client.post("/api/sessions", json={})).status_code == 201


async def test_a_crash_of_the_engine_is_a_failure() -> None:
    crash = asyncio.Event()

    class Crashing(PaintEngine):
        async def serve(self, inbox: Any, outbox: Any, *, stop: asyncio.Event) -> None:
            await crash.wait()
            raise RuntimeError("the driver is gone")

    async with mounted(lambda options: Crashing(max_sessions=1)) as paint:
        await paint.get()
        await paint.until(DemoState.READY)
        crash.set()
        await paint.until(DemoState.FAILED)
        assert paint.demo.error == "RuntimeError: the driver is gone"
        crash.clear()
        paint.pass_s(2)
        await paint.get()
        await paint.until(DemoState.READY)


async def test_an_application_that_cannot_start_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no encoder")

    async with mounted() as paint:
        with monkeypatch.context() as patch:
            patch.setattr("realtime_engine.server.runtime.choose_encoders", refuse)
            assert (await paint.get("/")).status_code == 503
            assert paint.demo.state is DemoState.FAILED and paint.demo.error == "OSError: no encoder"
        assert (await paint.get("/")).status_code == 503
        paint.pass_s(2)
        assert (await paint.get("/")).status_code == 200


async def test_it_is_closed_while_it_loads() -> None:
    build = SlowBuild()
    async with mounted(build) as paint:
        await paint.get()
        await paint.demo.close()
        refused = await paint.get()
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:realtime-engine:problem:closing")
    build.go.set()
