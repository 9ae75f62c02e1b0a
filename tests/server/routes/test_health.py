from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from realtime_engine import StepResult

from ..support import PaintEngine, in_process, paint_demo, until

TYPE = "urn:realtime-engine:problem:"


class HangingEngine(PaintEngine):
    """Its steps end only while it is let go."""

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


async def test_a_step_that_hangs_keeps_nobody_waiting_and_is_told() -> None:
    engine = HangingEngine()
    async with in_process(paint_demo(engine), stall_timeout_s=1.0, shutdown_timeout_s=0.2) as served:
        place = await served.take()
        with served.session(place).media.frames.subscribe():
            engine.go.clear()
            try:
                await until(lambda: engine.hangs)
                for answer in (
                    await place.request("POST", "reset", json={}),
                    await place.request("POST", "reset", json={}),
                    await place.request("PATCH", "self", json={"active": False}),
                    await served.client.post("/api/sessions", json={}),
                    await served.client.get("/readyz"),
                ):
                    assert (answer.status_code, answer.json()["type"]) == (503, TYPE + "stalled")
                    assert int(answer.headers["retry-after"]) > 0
                for _ in range(2):
                    assert (await place.request("DELETE", "self")).status_code == 202
                assert served.runtime.sessions.occupied == 2
            finally:
                engine.go.set()
            await until(lambda: served.runtime.sessions.occupied == 0)
            assert (await place.request("DELETE", "self")).status_code == 204
            assert (await served.client.get("/readyz")).status_code == 200
            assert engine.active_sessions == 0


async def test_a_hanging_step_is_told_though_nobody_asks_for_anything() -> None:
    engine = HangingEngine()
    async with in_process(paint_demo(engine), stall_timeout_s=1.0, shutdown_timeout_s=0.2) as served:
        place = await served.take()
        with served.session(place).media.frames.subscribe():
            engine.go.clear()
            await until(lambda: served.runtime.is_stalled)
            engine.go.set()
            await until(lambda: not served.runtime.is_stalled)


async def test_a_session_that_is_paused_is_owed_nothing() -> None:
    async with in_process() as served:
        place = await served.take()
        session = served.session(place)
        assert session.stalled_s > 0
        await place.request("PATCH", "self", json={"active": False})
        assert session.stalled_s == 0


async def test_why_the_model_failed_is_told_to_those_who_have_the_token() -> None:
    def build(options: object) -> PaintEngine:
        raise OSError("no such file: /secret")

    async with in_process(paint_demo(build=build), token="open sesame") as served:
        stranger = await served.client.get("/readyz")
        friend = await served.client.get("/readyz", headers={"Authorization": "Bearer open sesame"})
    assert stranger.status_code == friend.status_code == 500
    assert "secret" not in stranger.text and "/secret" in friend.json()["detail"]
