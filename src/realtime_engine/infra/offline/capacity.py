"""Measures how many sessions an engine serves in time."""

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

MAX_MISSES = 0.01  # accepted fraction of late chunks
_WARM_UP_S = 0.5
_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class CapacityPoint:
    """The measurement for one number of sessions.

    Attributes:
        sessions: number of sessions.
        chunks: measured chunks of all sessions.
        period_ms: duration of a chunk in milliseconds.
        p50_ms, p95_ms, p99_ms: percentiles of the chunk period in milliseconds.
        step_ms: mean duration of a step in milliseconds.
        rtf: real-time factor: the 95th percentile of the chunk period over the duration of a chunk.
        misses: chunks too late for a playback that buffers one chunk.
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
        """Fraction of missed chunks."""
        return self.misses / self.chunks if self.chunks else 1.0

    @property
    def is_in_time(self) -> bool:
        """Whether at most 1 % of the chunks were missed."""
        return self.miss_share <= MAX_MISSES


async def measure_capacity(
    engine: RealtimeInterface,
    demo: Demo,
    *,
    fields: Mapping[str, Any] | None = None,
    seconds: float = 3.0,
    most: int | None = None,
) -> AsyncIterator[CapacityPoint]:
    """Serve 1, 2, 4, 8 ... sessions at the rate of the engine until chunks are late or the engine is full.

    There are no viewers: the measurement excludes encoding.

    Args:
        engine: the engine.
        demo: the demo of the engine.
        fields: initial typed fields of every session.
        seconds: duration of the measurement for each number of sessions.
        most: maximum number of sessions; by default the maximum of the engine.

    Raises:
        ValueError: the demo refuses the fields.
        RuntimeError: the engine rejected or failed a session.
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
    """Wait for ``seconds``, unless a reader fails."""
    done, _ = await asyncio.wait([reader.task for reader in readers], timeout=seconds, return_when="FIRST_COMPLETED")
    for task in done:
        task.result()
        raise RuntimeError("the engine ended a session")


class _Reader:
    """Reads one session, records the times of its chunks, and restarts a finished rollout."""

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
    """Count the underruns of a playback that shows one chunk per ``period_ns``, one period after the earliest arrival.

    After an underrun the playback restarts with the late chunk.
    """
    misses, due_ns = 0, -math.inf
    for arrival_ns in arrivals_ns:
        if due_ns == -math.inf or arrival_ns < due_ns:
            due_ns = arrival_ns  # earlier than all before: adopt this schedule
        elif arrival_ns > due_ns + period_ns:
            misses += 1
            due_ns = arrival_ns
        due_ns += period_ns
    return misses
