from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from realtime_engine.core.clock import NS_PER_S
from realtime_engine.core.monitor import ServeMonitor
from realtime_engine.core.streaming.serving import RolloutCallbacks, ServedSession, SessionEnvironment
from realtime_engine.testing import ManualClock

MS = NS_PER_S // 1000


class SlowPipeline:
    """A pipeline and rollout whose pushes take the given times on a manual clock."""

    complete = False

    def __init__(self, takes_ms: list[float]) -> None:
        self.clock = ManualClock()
        self.pushed_ms: list[float] = []
        self.done = asyncio.Event()
        self._takes_ms = takes_ms

    async def push_inputs(self, session_id: str, sequence_id: int, inputs: object) -> None:
        if not self._takes_ms:
            self.done.set()
            await asyncio.Event().wait()
        self.clock.advance_ns(round(self._takes_ms.pop(0) * MS))
        self.pushed_ms.append(self.clock.now_ns() / MS)

    async def outputs(self, session_id: str) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield

    def next_request(self) -> tuple[int, dict[str, object]]:
        return len(self.pushed_ms), {}


async def pushes(monkeypatch: pytest.MonkeyPatch, takes_ms: list[float]) -> tuple[list[float], ServeMonitor]:
    pipeline: Any = SlowPipeline(takes_ms)
    monitor = ServeMonitor()

    async def sleep_until(self: ServedSession, moment_ns: int) -> None:
        pipeline.clock.advance_ns(max(0, moment_ns + MS // 4 - pipeline.clock.now_ns()))  # sleeps end late
        await asyncio.sleep(0)

    monkeypatch.setattr(ServedSession, "_sleep_until", sleep_until)
    callbacks = RolloutCallbacks(*(lambda *_: None for _ in range(3)))
    environment = SessionEnvironment(pipeline, 10 * MS, callbacks, monitor, pipeline.clock)
    session = ServedSession("a", {}, (1, 0), environment)
    session.run(pipeline)
    await pipeline.done.wait()
    await session.stop()
    return pipeline.pushed_ms, monitor


async def test_the_beat_does_not_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    pushed_ms, monitor = await pushes(monkeypatch, [0.0] * 50)
    assert pushed_ms == [10 * number + 0.25 for number in range(50)]
    assert (monitor.ticks, monitor.overruns) == (50, 0)


async def test_a_stall_is_followed_by_one_chunk_at_once_and_no_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    pushed_ms, monitor = await pushes(monkeypatch, [0, 0, 35, 0, 0, 0])
    assert pushed_ms == [0.25, 10.25, 55.25, 55.25, 60.25, 70.25]
    assert (monitor.ticks, monitor.overruns) == (6, 3)
