from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from realtime_engine import StepResult

from ..support import PaintEngine, in_process, paint_demo, until

TYPE = "urn:realtime-engine:problem:"


class HangingEngine(PaintEngine):
    """An engine whose steps block while ``go`` is not set."""

    def __init__(self) -> None:
        super().__init__(max_sessions=2)
        self.go = threading.Event()
        self.go.set()
        self.hangs = False

    def step(self, due: Mapping[str, Mapping[str, Any]]) -> list[StepResult]:
        self.hangs = not self.go.is_set()
        self.go.wait(10)
        self.hangs = False
        return super().step(due)


async def test_a_hanging_step_blocks_no_request_and_is_reported() -> None:
    engine = HangingEngine()
    async with in_process(paint_demo(engine), stall_timeout_s=1.0, shutdown_timeout_s=0.2) as served:
        owned = await served.create()
        with served.session(owned).media.frames.subscribe():
            engine.go.clear()
            try:
                await until(lambda: engine.hangs)
                for answer in (
                    await owned.request("POST", "reset", json={}),
                    await owned.request("POST", "reset", json={}),
                    await owned.request("PATCH", "self", json={"active": False}),
                    await served.client.post("/api/sessions", json={}),
                    await served.client.get("/readyz"),
                ):
                    assert (answer.status_code, answer.json()["type"]) == (503, TYPE + "stalled")
                    assert int(answer.headers["retry-after"]) > 0
                for _ in range(2):
                    assert (await owned.request("DELETE", "self")).status_code == 202
                assert served.runtime.sessions.occupied == 1
            finally:
                engine.go.set()
            await until(lambda: served.runtime.sessions.occupied == 0)
            assert (await owned.request("DELETE", "self")).status_code == 204
            assert (await served.client.get("/readyz")).status_code == 200
            assert engine.active_sessions == 0


async def test_a_full_engine_that_does_not_respond_is_not_called_full() -> None:
    engine = HangingEngine()
    async with in_process(paint_demo(engine), stall_timeout_s=0.2, shutdown_timeout_s=0.2) as served:
        owned = [await served.create() for _ in range(2)]
        assert (await served.client.post("/api/sessions", json={})).status_code == 202
        with served.session(owned[0]).media.frames.subscribe():
            engine.go.clear()
            await until(lambda: served.runtime.is_stalled)
            answer = await served.client.post("/api/sessions", json={})
            engine.go.set()
        assert (answer.status_code, answer.json()["type"]) == (503, TYPE + "stalled")


async def test_a_hanging_step_is_reported_without_a_pending_request() -> None:
    engine = HangingEngine()
    async with in_process(paint_demo(engine), stall_timeout_s=1.0, shutdown_timeout_s=0.2) as served:
        owned = await served.create()
        with served.session(owned).media.frames.subscribe():
            engine.go.clear()
            await until(lambda: served.runtime.is_stalled)
            engine.go.set()
            await until(lambda: not served.runtime.is_stalled)


async def test_a_paused_session_is_not_stalled() -> None:
    async with in_process() as served:
        owned = await served.create()
        session = served.session(owned)
        assert session.stalled_s > 0
        await owned.request("PATCH", "self", json={"active": False})
        assert session.stalled_s == 0


async def test_the_reason_of_a_failure_requires_the_token() -> None:
    def build(options: object) -> PaintEngine:
        raise OSError("no such file: /secret")

    async with in_process(paint_demo(build=build), token="open sesame") as served:
        without_token = await served.client.get("/readyz")
        with_token = await served.client.get("/readyz", headers={"Authorization": "Bearer open sesame"})
    assert without_token.status_code == with_token.status_code == 500
    assert "secret" not in without_token.text and "/secret" in with_token.json()["detail"]
