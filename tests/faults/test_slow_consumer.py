"""Slow readers and busy senders affect no other session."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from realtime_engine import (
    Action,
    Attach,
    Chunk,
    Detached,
    Inbox,
    Outbox,
    Rejected,
    ServeMonitor,
    SetActive,
    StepResult,
    default_serve,
)
from realtime_engine.testing import ScriptedEngine
from tests.serving import Served

SENDERS = 8
MESSAGES = 100_000
TIMEOUT_S = 60.0


async def test_a_consumer_20_times_slower_costs_the_others_no_chunk() -> None:
    inbox, outbox, stop = Inbox(), Outbox(maxsize=64), asyncio.Event()
    monitor = ServeMonitor()
    engine = ScriptedEngine(rate_hz=100.0)
    task = asyncio.create_task(default_serve(engine, inbox, outbox, stop=stop, monitor=monitor))
    seen: dict[str, list[int]] = {"slow": [], "quick": [], "keen": []}
    enough, turns = asyncio.Event(), asyncio.Semaphore(0)

    async def read(name: str) -> None:
        async for item in outbox.session(name):
            if isinstance(item, Chunk):
                seen[name].append(item.seq)
                if name == "slow":
                    await turns.acquire()
                elif name == "quick" and len(seen[name]) % 20 == 0:
                    turns.release()
                    if len(seen[name]) == 200:
                        enough.set()

    readers = {name: asyncio.create_task(read(name)) for name in seen}
    for name in seen:
        inbox.put_nowait(Attach(name))
    await asyncio.wait_for(enough.wait(), TIMEOUT_S)
    stop.set()
    await asyncio.wait_for(task, TIMEOUT_S)
    await asyncio.wait_for(asyncio.gather(readers["quick"], readers["keen"]), TIMEOUT_S)
    readers["slow"].cancel()
    await asyncio.wait([readers["slow"]])
    for name in ("quick", "keen"):
        assert seen[name] == list(range(len(engine.calls_of("step"))))
    assert list(monitor.snapshot().dropped) == ["slow"]
    assert len(seen["slow"]) < 20


def test_only_the_slow_consumer_loses_chunks_oldest_first() -> None:
    with Served(ScriptedEngine(), maxsize=5) as served:
        slow = served.outbox.session("slow")
        served.inbox.put_nowait(Attach("slow"))
        served.do(Attach("quick"))
        for _ in range(40):
            served.pump()
        assert [chunk.seq for chunk in served.chunks("quick")] == list(range(41))
        assert slow.dropped == 36
        assert served.monitor.snapshot().dropped == {"slow": 36}
        items = [slow.get_nowait() for _ in range(6)]
        assert type(items[0]).__name__ == "Attached", "events are never dropped"
        assert [item.seq for item in items[1:]] == [36, 37, 38, 39, 40]  # type: ignore[union-attr]


def test_a_consumer_that_never_reads_holds_a_bounded_number_of_chunks_and_every_event() -> None:
    with Served(ScriptedEngine(), maxsize=3) as served:
        stuck = served.outbox.session("stuck")
        served.inbox.put_nowait(Attach("stuck"))
        served.pump()
        for number in range(200):
            served.inbox.put_nowait(SetActive("stuck", number % 2 == 1))
            served.pump(2)
        assert served.outbox.statistics().chunks == 3
        items = [stuck.get_nowait() for _ in range(201 + 3)]
        assert sum(not isinstance(item, Chunk) for item in items) == 201
        assert stuck.dropped > 50


class Tally(ScriptedEngine):
    """Records the edges by session, and sets ``complete`` when all have arrived."""

    def __init__(self, expected: int) -> None:
        super().__init__(max_sessions=SENDERS)
        self.edges: dict[str, list[int]] = {}
        self.complete = threading.Event()
        self._missing = expected

    def step(self, due: Mapping[str, Any]) -> list[StepResult]:
        for session_id, given in due.items():
            edges = given.get("events", ())
            self.edges.setdefault(session_id, []).extend(edges)
            self._missing -= len(edges)
        if self._missing <= 0:
            self.complete.set()
        return [StepResult(session_id, None) for session_id in due]


async def test_eight_threads_put_a_hundred_thousand_messages_and_none_is_lost() -> None:
    """A quarter are actions with one edge, the others are refused; each is accounted for."""
    each = MESSAGES // SENDERS
    edges = each // 4  # fewer than a session holds between two steps, however long a step takes here
    engine, inbox, outbox, stop = Tally(edges * SENDERS), Inbox(), Outbox(maxsize=2), asyncio.Event()
    monitor = ServeMonitor()
    task = asyncio.create_task(default_serve(engine, inbox, outbox, stop=stop, tick_interval_s=0.001, monitor=monitor))
    names = [f"s{number}" for number in range(SENDERS)]
    for name in names:
        inbox.put_nowait(Attach(name))

    def send(name: str) -> None:
        for number in range(each):
            if number % 4 == 0:
                inbox.put_nowait(Action(name, {}, events=[number]))
            else:
                inbox.put_nowait(Action(f"unknown-{name}"))

    refused = dict.fromkeys(names, 0)

    async def count(name: str) -> None:
        async for item in outbox.session(f"unknown-{name}"):
            refused[name] += isinstance(item, Rejected)
            if refused[name] == each - edges:
                return

    counters = [asyncio.create_task(count(name)) for name in names]
    ends = [asyncio.create_task(_last_of(outbox, name)) for name in names]
    threads = [threading.Thread(target=send, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert await asyncio.to_thread(engine.complete.wait, TIMEOUT_S)
    await asyncio.wait_for(asyncio.gather(*counters), TIMEOUT_S)
    stop.set()
    await asyncio.wait_for(task, TIMEOUT_S)
    await asyncio.wait_for(asyncio.gather(*ends), TIMEOUT_S)
    assert engine.edges == {name: list(range(0, each, 4)) for name in names}
    assert monitor.snapshot().rejected == sum(refused.values())
    assert [end.result() for end in ends] == [Detached(name, epoch=1) for name in names]
    assert refused == dict.fromkeys(names, each - edges)


async def _last_of(outbox: Outbox, name: str) -> Any:
    last = None
    async for item in outbox.session(name):
        last = item
    return last
