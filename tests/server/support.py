"""A demo whose frames show what produced them, and servers that serve it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
import pytest
import simplejpeg
from fastapi import FastAPI
from pydantic import BaseModel, Field

from realtime_engine import SessionInit, StepResult
from realtime_engine.core.clock import MONOTONIC
from realtime_engine.infra.controls import Axis, Controls, ControlWindow, KeyBinding
from realtime_engine.infra.demo import Demo
from realtime_engine.infra.frame import Frame
from realtime_engine.server import DemoServer, ServerConfig, create_app
from realtime_engine.server.runtime import Runtime
from realtime_engine.server.sessions.session import DemoSession
from realtime_engine.testing import ManualClock, ScriptedEngine

HEIGHT, WIDTH = 48, 64
HELD, FREE = 200, 100


class Fields(BaseModel):
    prompt: str = Field("", max_length=100_000)
    seed: int = Field(0, ge=0, le=200)


CONTROLS = Controls(
    keys=(KeyBinding("KeyW", "Forward"), KeyBinding("KeyS", "Back")),
    axes=(Axis("forward", negative="KeyS", positive="KeyW"),),
    pointer="lock",
    fields=Fields,
)


class PaintEngine(ScriptedEngine):
    """Each frame has one color: red is the age of the session, green whether it moves forward, blue its seed.

    A conditioning of ``fail`` fails the step; a context of ``prompt="refused"`` is refused.
    """

    def attach(self, init: SessionInit) -> None:
        if init.context.get("prompt") == "refused":
            raise ValueError("this model refuses the prompt")
        super().attach(init)

    def step(self, due: Mapping[str, Mapping[str, Any]]) -> list[StepResult]:
        if any(given.get("prompt") == "fail" for given in due.values()):
            raise RuntimeError("the step failed")
        return [StepResult(result.session_id, _paint(result.output)) for result in super().step(due)]


def _paint(chunk: Any) -> np.ndarray:
    frame = np.empty((1, HEIGHT, WIDTH, 3), np.uint8)
    walks = chunk.conditioning.get("forward", 0.0) > 0
    frame[...] = (chunk.age % 200, HELD if walks else FREE, chunk.context.get("seed", 0))
    return frame


def to_conditioning(window: ControlWindow) -> Mapping[str, Any]:
    values = window.field_values
    if values["prompt"] == "raise":
        raise KeyError("no such word")
    return {"forward": window.axis("forward"), **values}


def paint_demo(engine: ScriptedEngine | None = None, **given: Any) -> Demo:
    declared = {
        "name": "paint",
        "title": "Paint",
        "build": lambda options: engine or PaintEngine(max_sessions=2),
        "controls": CONTROLS,
        "to_conditioning": to_conditioning,
        **given,
    }
    return Demo(**declared)


class SlowBuild:
    """A build that blocks until ``go`` is set."""

    def __init__(self, error: Exception | None = None) -> None:
        self.go = threading.Event()
        self._error = error

    def __call__(self, options: object) -> PaintEngine:
        self.go.wait(10)
        if self._error is not None:
            raise self._error
        return PaintEngine(max_sessions=1)


def stop_idle_clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """Stop the clock of idle sessions; advance the clock that is returned to let their idle time pass."""
    clock = ManualClock(MONOTONIC.now_ns())
    for module in ("session", "media", "recordings"):
        monkeypatch.setattr(f"realtime_engine.server.sessions.{module}.MONOTONIC", clock)
    return clock


async def create_session(runtime: Runtime, context: Mapping[str, Any]) -> DemoSession:
    """A session without a client."""
    prepared = runtime.sessions.prepare(context)
    session = runtime.sessions.add(prepared)
    await runtime.sessions.start(session, prepared)
    return session


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks run until ``condition``; the timeout of the test ends a hopeless wait."""
    while not condition():  # noqa: ASYNC110 - the condition has no event
        await asyncio.sleep(0.002)


def location_of(answer: httpx.Response) -> str:
    """The path that the ``Location`` header of an answer refers to."""
    return answer.url.join(answer.headers["location"]).path


@dataclass
class OwnedSession:
    """A session from its owner's point of view."""

    client: httpx.AsyncClient
    id: str
    token: str
    links: Mapping[str, str]

    @property
    def auth(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    async def request(self, method: str, link: str, **given: Any) -> httpx.Response:
        headers = {**self.auth, **given.pop("headers", {})}
        return await self.client.request(method, self.links[link], headers=headers, **given)

    def url(self, link: str, scheme: str = "http") -> str:
        base = str(self.client.base_url).rstrip("/").replace("http", scheme, 1)
        return f"{base}/{self.links[link]}?token={self.token}"

    async def send(self, seq: int, **given: Any) -> list[dict[str, Any]]:
        response = await self.request("POST", "actions", json={"v": 1, "type": "controls", "seq": seq, **given})
        assert response.status_code == 200, response.text
        return response.json()


@dataclass
class Served:
    """A running application and a client of it."""

    app: FastAPI
    client: httpx.AsyncClient
    server: DemoServer | None = None

    @property
    def runtime(self) -> Runtime:
        return self.app.state.runtime

    async def ready(self) -> None:
        await until(lambda: self.runtime.host.state.value != "loading")

    async def create(self, **context: Any) -> OwnedSession:
        response = await self.client.post("/api/sessions", json={"context": context})
        assert response.status_code == 201, response.text
        answer = response.json()
        return OwnedSession(self.client, answer["session_id"], answer["token"], answer["links"])

    def session(self, owned: OwnedSession) -> DemoSession:
        return self.runtime.session(owned.id, owned.token)


@asynccontextmanager
async def in_process(demo: Demo | None = None, *, ready: bool = True, **config: Any) -> AsyncIterator[Served]:
    """A served demo without a socket, for tests without streams."""
    app = create_app(demo or paint_demo(), ServerConfig(**config))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            served = Served(app, client)
            if ready:
                await served.ready()
            yield served


@asynccontextmanager
async def over_http(demo: Demo | None = None, **config: Any) -> AsyncIterator[Served]:
    """A served demo on a free port."""
    settings = ServerConfig(port=0, **config)
    app = create_app(demo or paint_demo(), settings)
    server = DemoServer(app, settings, log_level="warning")
    running = asyncio.create_task(_serve(server))
    await until(lambda: server.started or running.done())
    try:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            served = Served(app, client, server)
            await served.ready()
            yield served
    finally:
        server.should_exit = True
        await running


async def _serve(server: DemoServer) -> None:
    """Without uvicorn's signal handlers, which belong to a process."""
    await server._serve([server.listener])


async def frame_where(session: DemoSession, condition: Callable[[tuple[int, int, int]], bool]) -> Frame:
    """Watch until a frame has the wanted color, and return it."""
    with session.media.frames.subscribe() as viewer:
        while True:
            frame = await viewer.next()
            if condition(color(frame.pixels)):
                return frame


def color(pixels: np.ndarray) -> tuple[int, int, int]:
    red, green, blue = pixels[HEIGHT // 2, WIDTH // 2]
    return int(red), int(green), int(blue)


def jpeg_color(data: bytes) -> tuple[int, int, int]:
    return color(simplejpeg.decode_jpeg(data))


def message(kind: str, **given: Any) -> str:
    return json.dumps({"v": 1, "type": kind, **given})
