"""Sessions that walk about: chunks of an engine as fast as it makes them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from realtime_engine.core.composed import ComposedEngine
from realtime_engine.core.contract import RealtimeInterface, SessionInit
from realtime_engine.core.replica import ReplicaEngine
from realtime_engine.core.streaming import ChunkRequest, StreamingEngine
from realtime_engine.core.streaming.rollout import SessionInput
from realtime_engine.integrations.dream.model import DreamModel
from realtime_engine.integrations.dream.weights import Weights
from realtime_engine.integrations.dream_stages.pipeline import build_engine

WALK = {"forward": 1.0, "turn": 0.3}
PLAIN, PIPELINED, STAGES, STAGES_DUE = "batch", "batch, pipelined", "stage graph", "stage graph, rows due"
WIDE, WIDE_DUE, REPLICAS = "batch of 8, all rows", "batch of 8, rows due", "replicas"
WAYS = (PLAIN, PIPELINED, STAGES, STAGES_DUE, WIDE, WIDE_DUE, REPLICAS)


@dataclass(frozen=True)
class Flow:
    """Frames per second of all sessions together, milliseconds a chunk of every session, and CPU ms a frame."""

    fps: float
    step_ms: float
    cpu_ms: float


def flow_of(sessions: int, frames: int, seconds: float, cpu_seconds: float) -> Flow:
    """Of what happened in a stretch of time."""
    return Flow(frames / seconds, seconds / frames * sessions * 1e3, cpu_seconds / frames * 1e3)


class Stepped:
    """A Level 1 engine, stepped again and again with everybody due."""

    def __init__(self, engine: RealtimeInterface, sessions: int) -> None:
        self._engine = engine
        self._names = [f"walker-{index}" for index in range(sessions)]
        for seed, name in enumerate(self._names):
            engine.attach(SessionInit(name, {"seed": seed}))
        self.run(0.0)

    def run(self, seconds: float) -> Flow:
        for _ in range(2):
            self._step()
        frames, began, cpu = 0, time.perf_counter(), time.process_time()
        while (elapsed := time.perf_counter() - began) < seconds or not frames:
            frames += self._step()
        return flow_of(len(self._names), frames, elapsed, time.process_time() - cpu)

    def _step(self) -> int:
        return len(self._engine.step(dict.fromkeys(self._names, WALK)))

    def close(self) -> None:
        for name in self._names:
            self._engine.detach(name)


class Flowing:
    """A graph of stages, each session fed as fast as the graph takes it."""

    def __init__(self, engine: StreamingEngine, sessions: int) -> None:
        self._pipeline = engine.pipeline
        self._close = engine.close
        self._next = dict.fromkeys((f"walker-{index}" for index in range(sessions)), 0)
        self._total = self._goal = 0
        self._reached = asyncio.Event()
        for name in self._next:
            self._pipeline.create_session(name)
            self._pipeline.set_control(name, "theme_request", {})
            self._pipeline.set_control(name, "motion", WALK)

    def run(self, seconds: float) -> Flow:
        return asyncio.run(self._run(seconds))

    async def _run(self, seconds: float) -> Flow:
        self._goal, self._reached = self._total + 2 * len(self._next), asyncio.Event()
        tasks = [asyncio.create_task(self._play(seed, name)) for seed, name in enumerate(self._next)]
        await self._reached.wait()
        frames, began, cpu = self._total, time.perf_counter(), time.process_time()
        await asyncio.sleep(seconds)
        elapsed, cpu = time.perf_counter() - began, time.process_time() - cpu
        frames = self._total - frames
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return flow_of(len(self._next), max(frames, 1), elapsed, cpu)

    async def _play(self, seed: int, name: str) -> None:
        player = SessionInput({"seed": seed})
        reading = asyncio.create_task(self._read(name))
        try:
            while True:
                request = ChunkRequest(name, self._next[name], player)
                await self._pipeline.push_inputs(name, self._next[name], {"request": request})
                self._next[name] += 1
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self, name: str) -> None:
        async for _ in self._pipeline.outputs(name):
            self._total += 1
            if self._total >= self._goal:
                self._reached.set()

    def close(self) -> None:
        self._close()


class Ways:
    """Makes engines; each model once."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._models: dict[tuple[int, str], DreamModel] = {}

    def model(self, sessions: int, rows: str = "all") -> DreamModel:
        if (sessions, rows) not in self._models:
            self._models[sessions, rows] = DreamModel(self._weights, sessions, rows=rows)  # type: ignore[arg-type]
        return self._models[sessions, rows]

    def open(self, way: str, sessions: int) -> Stepped | Flowing:
        make: dict[str, Callable[[], Any]] = {
            PLAIN: lambda: ComposedEngine(self.model(sessions), pipeline=False),
            PIPELINED: lambda: ComposedEngine(self.model(sessions), pipeline=True, lanes="thread"),
            STAGES: lambda: build_engine(self.model(sessions)),
            STAGES_DUE: lambda: build_engine(self.model(sessions, "occupied")),
            WIDE: lambda: ComposedEngine(self.model(8), pipeline=False),
            WIDE_DUE: lambda: ComposedEngine(self.model(8, "occupied"), pipeline=False),
            REPLICAS: lambda: ReplicaEngine(self._replica, max_sessions=sessions),
        }
        engine = make[way]()
        return Flowing(engine, sessions) if isinstance(engine, StreamingEngine) else Stepped(engine, sessions)

    def _replica(self) -> RealtimeInterface:
        return ComposedEngine(DreamModel(self._weights, 1), pipeline=False)
