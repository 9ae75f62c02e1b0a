"""Served at its own rate: does every chunk come in time, and what does somebody who joins cost the others?"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from dataclasses import dataclass
from typing import Any

from realtime_engine.core.contract import RealtimeInterface
from realtime_engine.core.inbox import Inbox
from realtime_engine.core.messages import Action, Attach, Chunk, Detach, Failed, Rejected
from realtime_engine.core.outbox import Outbox
from realtime_engine.core.serve import run_engine
from realtime_engine.infra.demo import Demo
from realtime_engine.infra.offline import CapacityPoint, measure_capacity

from .sessions import WALK

_TIMEOUT_S = 60.0


def live_points(engine: RealtimeInterface, demo: Demo, seconds: float, most: int) -> list[CapacityPoint]:
    """With 1, 2, 4 ... sessions, as long as they are in time."""

    async def measure() -> list[CapacityPoint]:
        return [point async for point in measure_capacity(engine, demo, fields={"seed": 1}, seconds=seconds, most=most)]

    return asyncio.run(measure())


@dataclass(frozen=True)
class Joining:
    """Milliseconds, medians over joins.

    Attributes:
        first_chunk: from the Attach of a newcomer whose place was never seen before to its first chunk.
        longest_gap: between two chunks of a resident around that.
        usual_gap: the 95th percentile otherwise.
    """

    first_chunk: float
    longest_gap: float
    usual_gap: float


class Guests:
    """Residents of an engine, and when their chunks came."""

    def __init__(self, inbox: Inbox, outbox: Outbox) -> None:
        self._inbox, self._outbox = inbox, outbox
        self._tasks: list[asyncio.Task[None]] = []
        self.moments: dict[str, list[float]] = {}

    async def enter(self, name: str, seed: int) -> float:
        """Seconds until the first chunk."""
        began = time.perf_counter()
        self.moments[name] = []
        first = asyncio.Event()
        self._tasks.append(asyncio.create_task(self._read(name, first)))
        self._inbox.put_nowait(Attach(name, {"seed": seed}))
        self._inbox.put_nowait(Action(name, WALK))
        await asyncio.wait_for(first.wait(), _TIMEOUT_S)
        return self.moments[name][0] - began

    def leave(self, name: str) -> None:
        self._inbox.put_nowait(Detach(name))

    async def _read(self, name: str, first: asyncio.Event) -> None:
        with self._outbox.session(name) as items:
            async for item in items:
                if isinstance(item, Chunk):
                    self.moments[name].append(time.perf_counter())
                    first.set()
                elif isinstance(item, Rejected | Failed):
                    raise RuntimeError(f"{name}: {item}")

    def gaps(self, names: list[str], since: float) -> list[float]:
        """Between chunks of these since then, in milliseconds."""
        return [
            (after - before) * 1e3
            for name in names
            for before, after in zip(self.moments[name], self.moments[name][1:], strict=False)
            if after >= since
        ]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def measure_joining(engine: Any, joins: int, rest_s: float, seed: int) -> Joining:
    """Of an engine for at least three sessions, two of which are residents; nobody has had a seed from ``seed`` on."""

    async def measure() -> Joining:
        inbox, outbox, stop = Inbox(), Outbox(maxsize=256), asyncio.Event()
        serving = asyncio.create_task(run_engine(engine, inbox, outbox, stop=stop))
        guests, residents = Guests(inbox, outbox), ["resident-0", "resident-1"]
        for number, name in enumerate(residents):
            await guests.enter(name, number)
        first, longest, usual = [], [], []
        for number in range(joins):
            await asyncio.sleep(rest_s / 2)
            since = time.perf_counter()
            await asyncio.sleep(rest_s)
            usual += guests.gaps(residents, since)
            since = time.perf_counter()
            first.append(await guests.enter(f"guest-{number}", seed + number) * 1e3)
            await asyncio.sleep(rest_s / 2)
            longest.append(max(guests.gaps(residents, since), default=math.inf))
            guests.leave(f"guest-{number}")
        await guests.close()
        stop.set()
        await serving
        p95 = sorted(usual)[int(len(usual) * 0.95)] if usual else math.inf
        return Joining(statistics.median(first), statistics.median(longest), p95)

    return asyncio.run(measure())
