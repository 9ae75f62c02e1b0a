"""A served demo for clients to connect to: its pictures are bright while a key is held."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

from realtime_engine import ComposedEngine, EngineManifest, Lane, StageBatch
from realtime_engine.infra.controls import Controls, ControlWindow, KeyBinding
from realtime_engine.infra.demo import Demo
from realtime_engine.server import DemoServer, ServerConfig, create_app

HEIGHT, WIDTH = 64, 96
DARK, BRIGHT = 40, 200
TIMEOUT_S = 60.0


class LampModel:
    """One stage; ``explode`` in the conditioning makes every step of its session fail."""

    lane = Lane.HOT

    def __init__(self, max_sessions: int) -> None:
        self._manifest = EngineManifest(max_sessions, chunk_shape=(1, HEIGHT, WIDTH, 3), rate_hz=30)

    def manifest(self) -> EngineManifest:
        return self._manifest

    def stages(self) -> list[LampModel]:
        return [self]

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        """A lamp has no state."""

    def detach(self, row: int, session_id: str) -> None:
        """Nor anything to release."""

    def heavy_keys(self) -> Collection[str]:
        return ()

    def __call__(self, batch: StageBatch) -> None:
        for row in batch.rows_in_order():
            session = batch.session_at(row)
            assert session is not None
            hands = batch.conditioning[session]
            if hands.get("explode"):
                raise RuntimeError("the lamp is broken")
            level = BRIGHT if hands.get("on") else DARK
            batch.outputs[session] = np.full((1, HEIGHT, WIDTH, 3), level, np.uint8)


class Fields(BaseModel):
    seed: int = Field(0, ge=0, le=99)
    explode: bool = False


def to_conditioning(window: ControlWindow) -> dict[str, Any]:
    return {"on": window.held("KeyW"), "explode": window.field_values["explode"]}


def lamp(players: int = 2) -> Demo:
    return Demo(
        name="lamp",
        title="A lamp",
        build=lambda options: ComposedEngine(LampModel(players), pipeline=False),
        controls=Controls(keys=(KeyBinding("KeyW", "On"), KeyBinding("Space", "Nothing")), fields=Fields),
        to_conditioning=to_conditioning,
    )


class Running:
    """A server on a thread of its own."""

    def __init__(self, demo: Demo, **settings: Any) -> None:
        config = ServerConfig(port=0, shutdown_timeout_s=4.0, **settings)
        self.app = create_app(demo, config)
        self._server = DemoServer(self.app, config, log_level="warning")
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self.url = self._server.url

    def __enter__(self) -> Running:
        self._thread.start()
        wait_for(lambda: self._server.started and self.app.state.runtime.host.manifest is not None, "the server")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """As a signal would."""
        self._server.should_exit = True
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), "the server did not end"

    @property
    def sessions(self) -> set[str]:
        return {session.id for session in self.app.state.runtime.sessions.all()}


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {TIMEOUT_S} s for {what}"
        time.sleep(0.01)
