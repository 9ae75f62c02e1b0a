"""How many sessions an engine serves in time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.clock import NS_PER_S
from ...core.contract import EngineManifest, RealtimeInterface
from ...core.inbox import Inbox
from ...core.messages import Action, Attach, Attached, Chunk, Failed, Finished, Rejected, Reset
from ...core.outbox import Outbox, OutboxSession
from ...core.serve import run_engine
from ..control_log import ControlLog
from ..demo import Demo
from .replay import Replay

MAX_MISSES = 0.01  # share of chunks that may come late
_WARM_UP_S = 0.5
_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class CapacityPoint:
    """What was measured with so many sessions at once.

    Attributes:
        sessions: how many.
        chunks: chunks measured, of all sessions.
        period_ms: what a chunk plays, in milliseconds.
        p50_ms, p95_ms, p99_ms: time from one chunk of a session to its next.
        step_ms: mean time from the begin to the end of a step.
        rtf: real-time factor: the 95th percentile of that time over what a chunk plays.
        misses: chunks that came so late that a player who holds one chunk back would have stopped.
        rate_hz: chunks per second of a session.
    """

    sessions: int
    chunks: int
    period_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    step_ms: float
    rtf: float
    misses: int
    rate_hz: float

    @property
    def miss_share(self) -> float:
        return self.misses / self.chunks if self.chunks else 1.0

    @property
    def is_in_time(self) -> bool:
        """Whether at most one chunk in a hundred was missed."""
        return self.miss_share <= MAX_MISSES


async def measure_capacity(
    engine: RealtimeInterface,
    demo: Demo,
    *,
    fields: Mapping[str, Any] | None = None,
    seconds: float = 3.0,
    most: int | None = None,
) -> AsyncIterator[CapacityPoint]:
    """Serve 1, 2, 4, 8 ... sessions at the engine's own rate until chunks come late, or it is full.

    Nobody watches: this is the engine's share, without encoding for viewers.

    Args:
        fields: typed fields that every session begins with.
        seconds: how long each count of sessions is measured.
        most: a bound on sessions, besides the engine's own.

    Raises:
        ValueError: fields that the demo refuses.
        RuntimeError: the engine refused a session, or failed one.
    """
    manifest = engine.manifest()
    top = min(manifest.max_sessions, most or manifest.max_sessions)
    inbox, outbox, stop = Inbox(), Outbox(maxsize=256), asyncio.Event()
    serving = asyncio.create_task(run_engine(engine, inbox, outbox, stop=stop), name="engine")
    try:
        readers: list[_Reader] = []
        for count in _counts(top):
            arriving = [_Reader(outbox.session(f"bench-{n}"), inbox, manifest) for n in range(len(readers), count)]
            for reader in arriving:
                reader.arrive(demo, fields or {})
            readers += arriving
            await asyncio.wait_for(asyncio.gather(*(reader.attached for reader in arriving)), _TIMEOUT_S)
            await _rest(_WARM_UP_S, readers)
            for reader in readers:
                reader.forget()
            await _rest(seconds, readers)
            point = _point(readers, manifest, seconds)
            yield point
            if not point.is_in_time:
                return
    finally:
        for reader in readers:
            reader.close()
        stop.set()
        await serving


def _counts(top: int) -> list[int]:
    """1, 2, 4, 8 ... and ``top``."""
    return [*(1 << power for power in range(top.bit_length()) if 1 << power < top), top]


async def _rest(seconds: float, readers: list[_Reader]) -> None:
    """Let time pass, unless a reader breaks."""
    done, _ = await asyncio.wait([reader.task for reader in readers], timeout=seconds, return_when="FIRST_COMPLETED")
    for task in done:
        task.result()
        raise RuntimeError("the engine ended a session")


class _Reader:
    """Reads one session and records when its chunks came; a rollout that ends is started again."""

    def __init__(self, items: OutboxSession, inbox: Inbox, manifest: EngineManifest) -> None:
        self._items = items
        self._inbox = inbox
        self._manifest = manifest
        self.attached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.emitted_ns: list[int] = []
        self.step_ns: list[int] = []
        self.task = asyncio.create_task(self._read())

    def arrive(self, demo: Demo, fields: Mapping[str, Any]) -> None:
        replay = Replay(demo, ControlLog(), self._items.session_id, rate_hz=self._manifest.rate_hz, fields=fields)
        for message in replay.due(0, 0):
            assert isinstance(message, Attach | Action)
            self._inbox.put_nowait(message)

    def forget(self) -> None:
        self.emitted_ns.clear()
        self.step_ns.clear()

    def close(self) -> None:
        self.task.cancel()
        if self.attached.done() and not self.attached.cancelled():
            self.attached.exception()
        self._items.close()

    async def _read(self) -> None:
        try:
            async for item in self._items:
                self._take(item)
        except Exception as error:
            if not self.attached.done():
                self.attached.set_exception(error)
            raise

    def _take(self, item: Any) -> None:
        if isinstance(item, Chunk):
            self.emitted_ns.append(item.stamps.emitted)
            self.step_ns.append(item.stamps.step_end - item.stamps.step_begin)
        elif isinstance(item, Rejected):
            raise RuntimeError(f"the engine refused a session: {item.reason}")
        elif isinstance(item, Failed):
            raise RuntimeError(f"the engine failed a session: {item.error}")
        elif isinstance(item, Finished):
            self._inbox.put_nowait(Reset(item.session_id))
        elif isinstance(item, Attached):
            self.attached.set_result(None)


def _point(readers: list[_Reader], manifest: EngineManifest, seconds: float) -> CapacityPoint:
    period_ns = NS_PER_S / manifest.rate_hz
    intervals = np.concatenate([np.diff(reader.emitted_ns) for reader in readers]) if readers else np.empty(0)
    steps = [step for reader in readers for step in reader.step_ns]
    chunks = sum(len(reader.emitted_ns) for reader in readers)
    p50, p95, p99 = np.percentile(intervals, (50, 95, 99)) / 1e6 if intervals.size else (math.inf,) * 3
    return CapacityPoint(
        sessions=len(readers),
        chunks=chunks,
        period_ms=period_ns / 1e6,
        p50_ms=float(p50),
        p95_ms=float(p95),
        p99_ms=float(p99),
        step_ms=float(np.mean(steps)) / 1e6 if steps else math.inf,
        rtf=float(p95) / (period_ns / 1e6),
        misses=sum(count_misses(reader.emitted_ns, period_ns) for reader in readers),
        rate_hz=chunks / len(readers) / seconds,
    )


def count_misses(arrivals_ns: list[int], period_ns: float) -> int:
    """How often a player who shows a chunk each ``period_ns``, one period after the soonest so far, had none to show.

    After each time it begins anew, with the chunk that was late.
    """
    misses, due_ns = 0, -math.inf
    for arrival_ns in arrivals_ns:
        if due_ns == -math.inf or arrival_ns < due_ns:
            due_ns = arrival_ns  # sooner than any before: play on this schedule
        elif arrival_ns > due_ns + period_ns:
            misses += 1
            due_ns = arrival_ns
        due_ns += period_ns
    return misses
