"""Our server with an engine that counts key presses into a barcode, in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from latency_rig.barcode import FPS, HEIGHT, WIDTH, Barcode
from latency_rig.process import run_until_told
from realtime_engine import AdmissionError, EngineManifest, SessionInit, StepResult
from realtime_engine.infra.controls import Controls, ControlWindow, KeyBinding
from realtime_engine.infra.demo import Demo
from realtime_engine.server import DemoServer, ServerConfig, create_app

_SEATS = 4


class BarcodeEngine:
    """Chunks of one frame; each shows how often a key has gone down."""

    def __init__(self) -> None:
        self._barcode = Barcode()
        self._presses: dict[str, int] = {}
        self._frames: dict[str, int] = {}
        self.steps = 0
        self.spent_s = 0.0

    def manifest(self) -> EngineManifest:
        return EngineManifest(_SEATS, (1, HEIGHT, WIDTH, 3), rate_hz=FPS)

    def attach(self, init: SessionInit) -> None:
        if len(self._presses) == _SEATS:
            raise AdmissionError(f"all {_SEATS} seats are taken")
        self._presses.setdefault(init.session_id, 0)
        self._frames.setdefault(init.session_id, 0)

    def step(self, due: Mapping[str, Mapping[str, Any]]) -> list[StepResult]:
        began = time.perf_counter()
        results = [self._advance(session_id, due[session_id]) for session_id in due if session_id in self._presses]
        self.spent_s += time.perf_counter() - began
        self.steps += bool(results)
        return results

    def _advance(self, session_id: str, conditioning: Mapping[str, Any]) -> StepResult:
        edges = conditioning.get("events", ())
        self._presses[session_id] += sum(edge["kind"] == "key_down" for edge in edges)
        self._frames[session_id] += 1
        picture = self._barcode.picture(self._frames[session_id], self._presses[session_id])
        return StepResult(session_id, picture[None])

    def finalize(self, session_ids: list[str]) -> None:
        """Nothing is kept of a chunk."""

    def detach(self, session_id: str) -> None:
        self._presses.pop(session_id, None)
        self._frames.pop(session_id, None)


def _no_conditioning(window: ControlWindow) -> Mapping[str, Any]:
    return {}


def main(pipe: Connection) -> None:
    """Serve until the pipe says that it is enough; then answer with the milliseconds of a step."""
    engine = BarcodeEngine()
    demo = Demo(
        name="barcode",
        title="Barcode",
        build=lambda options: engine,
        controls=Controls(keys=(KeyBinding("KeyW", "Count"),)),
        to_conditioning=_no_conditioning,
    )
    config = ServerConfig(port=0)
    server = DemoServer(create_app(demo, config), config, log_config=None)
    run_until_told(server, server.listener, pipe)
    pipe.send(1e3 * engine.spent_s / max(engine.steps, 1))
