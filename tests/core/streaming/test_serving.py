from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from realtime_engine.core.clock import NS_PER_S
from realtime_engine.core.streaming import serving as served_session
from realtime_engine.core.streaming.serving import ServedSession

MS = NS_PER_S // 1000


class Time:
    """A clock, and a pipeline that takes as long for a push as it is told."""

    def __init__(self, takes_ms: list[float]) -> None:
        self.now = 0
        self.pushed_ms: list[float] = []
        self._takes_ms = takes_ms
        self.done = asyncio.Event()

    def now_ns(self) -> int:
        return self.now

    async def push_inputs(self, session_id: str, sequence_id: int, inputs: object) -> None:
        if not self._takes_ms:
            self.done.set()
            await asyncio.Event().wait()
        self.now += round(self._takes_ms.pop(0) * MS)
        self.pushed_ms.append(self.now / MS)

    async def outputs(self, session_id: str) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield

    def next_request(self) -> tuple[int, dict[str, object]]:
        return len(self.pushed_ms), {}


async def pushes(monkeypatch: pytest.MonkeyPatch, takes_ms: list[float]) -> list[float]:
    time: Any = Time(takes_ms)

    async def sleep_until(self: ServedSession, moment_ns: int) -> None:
        time.now = max(time.now, moment_ns + MS // 4)  # sleeps end late
        await asyncio.sleep(0)

    monkeypatch.setattr(served_session, "MONOTONIC", time)
    monkeypatch.setattr(ServedSession, "_sleep_until", sleep_until)
    session = ServedSession(time, "a", (1, 0), 100.0, lambda item: None, lambda session, error: None)
    session.begin(time, {})
    await time.done.wait()
    await session.end()
    return time.pushed_ms  # type: ignore[no-any-return]


async def test_the_beat_does_not_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await pushes(monkeypatch, [0.0] * 50) == [10 * number + 0.25 for number in range(50)]


async def test_a_stall_is_followed_by_one_chunk_at_once_and_no_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await pushes(monkeypatch, [0, 0, 35, 0, 0, 0]) == [0.25, 10.25, 55.25, 55.25, 60.25, 70.25]
