from __future__ import annotations

import asyncio
import logging
import threading

import numpy as np
import pytest

from realtime_engine import Inbox, Outbox
from realtime_engine.infra.loading import report_loading
from realtime_engine.server.problems import MEDIA_TYPE

from .support import PaintEngine, SlowBuild, in_process, paint_demo, until


async def test_http_is_up_while_the_model_loads() -> None:
    build = SlowBuild()
    async with in_process(paint_demo(build=build), ready=False) as served:
        loading = await served.client.get("/readyz")
        assert loading.status_code == 503 and loading.headers["retry-after"] == "1"
        demo = (await served.client.get("/api/demo")).json()
        assert (demo["state"], demo["manifest"], demo["progress"]["message"]) == ("loading", None, "Loading the model")
        refused = await served.client.post("/api/sessions", json={})
        assert refused.status_code == 503 and refused.json()["type"].endswith(":loading")
        assert (await served.client.get("/healthz")).status_code == 200
        build.go.set()
        await served.ready()
        assert (await served.client.get("/readyz")).json() == {"status": "ready"}
        assert (await served.client.get("/api/demo")).json()["manifest"]["max_sessions"] == 1


async def test_the_progress_of_loading_is_reported() -> None:
    reported, go = threading.Event(), threading.Event()

    def build(options: object) -> PaintEngine:
        report_loading("Compiling", 0.25)
        reported.set()
        assert go.wait(10)
        return PaintEngine()

    async with in_process(paint_demo(build=build), ready=False) as served:
        assert await asyncio.to_thread(reported.wait, 10)
        demo = (await served.client.get("/api/demo")).json()
        assert demo["progress"] == {"message": "Compiling", "fraction": 0.25}
        assert (await served.client.get("/readyz")).json()["detail"] == "The model is loading: Compiling."
        go.set()
        await served.ready()
        assert (await served.client.get("/api/demo")).json()["progress"] == {"message": "Ready", "fraction": 1.0}


async def test_a_model_that_fails_to_load_reports_the_reason() -> None:
    build = SlowBuild(RuntimeError("no weights in /models"))
    build.go.set()
    async with in_process(paint_demo(build=build)) as served:
        failed = await served.client.get("/readyz")
        assert (failed.status_code, failed.headers["content-type"]) == (500, MEDIA_TYPE)
        assert failed.json()["detail"] == "RuntimeError: no weights in /models"
        demo = (await served.client.get("/api/demo")).json()
        assert (demo["state"], demo["error"]) == ("failed", "RuntimeError: no weights in /models")
        assert (await served.client.post("/api/sessions", json={})).status_code == 500
        assert (await served.client.get("/healthz")).status_code == 200


async def test_what_a_model_reports_can_always_be_sent(caplog: pytest.LogCaptureFixture) -> None:
    """A NumPy number and half a surrogate pair, neither of which is JSON."""
    caplog.set_level(logging.CRITICAL, "realtime_engine.server.engine_host")  # pytest-xdist cannot send surrogates
    reported, go = threading.Event(), threading.Event()

    def build(options: object) -> PaintEngine:
        report_loading("part\udcff\n2", np.float32(0.25))  # type: ignore[arg-type]
        reported.set()
        assert go.wait(10)
        raise RuntimeError("no file part\udcff")

    async with in_process(paint_demo(build=build), ready=False) as served:
        assert await asyncio.to_thread(reported.wait, 10)
        assert (await served.client.get("/api/demo")).json()["progress"] == {"message": "part 2", "fraction": 0.25}
        go.set()
        await until(lambda: served.runtime.host.error)
        assert (await served.client.get("/api/demo")).json()["error"] == r"RuntimeError: no file part\udcff"
        assert (await served.client.get("/readyz")).status_code == 500


async def test_a_model_that_exits_while_loading_does_not_end_the_server() -> None:
    def leave(options: object) -> PaintEngine:
        raise SystemExit("no licence")

    async with in_process(paint_demo(build=leave)) as served:
        assert (await served.client.get("/readyz")).json()["detail"] == "RuntimeError: SystemExit: no licence"


async def test_the_server_can_shut_down_while_the_model_loads() -> None:
    build = SlowBuild()
    async with in_process(paint_demo(build=build), ready=False) as served:
        assert served.runtime.host.state.value == "loading"
    build.go.set()


class OwnLoop(PaintEngine):
    """An engine of Level 2 that stops when ``end`` is set."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__()
        self.end = asyncio.Event()
        self._error = error

    async def serve(self, inbox: Inbox, outbox: Outbox, *, stop: asyncio.Event) -> None:
        await self.end.wait()
        if self._error is not None:
            raise self._error


async def test_the_end_of_an_engine_is_reported() -> None:
    for error, text in ((None, "the engine stopped unexpectedly"), (OSError("gone"), "OSError: gone")):
        engine = OwnLoop(error)
        async with in_process(paint_demo(engine)) as served:
            assert (await served.client.get("/readyz")).status_code == 200
            engine.end.set()
            await until(lambda: served.runtime.host.error)
            failed = await served.client.get("/readyz")
            assert (failed.status_code, failed.json()["detail"]) == (500, text)


async def test_sessions_are_informed_of_the_end_of_their_engine() -> None:
    async with in_process() as served:
        owned = await served.create()
        session = served.session(owned)
        received: list[str] = []
        session.connections.add("test", received.append, session.access.owner)
        served.runtime.host.outbox.close()  # the serve loop ends without events
        await session.ended.wait()
        assert '"fatal": true' in received[-1]
        assert (await owned.request("GET", "self")).status_code == 410
        await until(lambda: served.runtime.host.error)
        assert (await served.client.get("/readyz")).status_code == 500


async def test_sessions_are_detached_when_the_server_ends() -> None:
    engine = PaintEngine()
    async with in_process(paint_demo(engine)) as served:
        await served.create()
        await served.create()
        assert engine.active_sessions == 2
    assert engine.active_sessions == 0
