"""Two sessions in one batch, stepped by hand and then served through the queues.

Run it: ``python -m realtime_engine.examples.quick_start``
"""

from __future__ import annotations

import asyncio
import sys

from realtime_engine import (
    Action,
    Attach,
    Chunk,
    ComposedEngine,
    Inbox,
    Outbox,
    SessionInit,
    run_engine,
)
from realtime_engine.examples import CpuStageModel

CHUNKS = 30


def step_by_hand() -> None:
    """The engine as a plain object."""
    engine = ComposedEngine(CpuStageModel(max_sessions=2), pipeline=False)
    engine.attach(SessionInit("alice", {"seed": 1, "prompt": "a castle"}))
    engine.attach(SessionInit("bob", {"seed": 2, "prompt": "a desert"}))
    results = engine.step({"alice": {"move": 1}, "bob": {"move": -1}})
    for result in results:
        _say(f"{result.session_id:>6}  chunk {result.output.shape}  {dict(result.stats)}")
    engine.finalize([result.session_id for result in results])
    engine.detach("alice")
    engine.detach("bob")


async def serve_through_queues() -> None:
    """The engine behind its inbox and outbox, at the rate that it declares."""
    inbox, outbox, stop = Inbox(), Outbox(maxsize=8), asyncio.Event()
    serving = asyncio.create_task(run_engine(ComposedEngine(CpuStageModel(max_sessions=2)), inbox, outbox, stop=stop))
    readers = [asyncio.create_task(_watch(outbox, name)) for name in ("alice", "bob")]
    for name, seed in (("alice", 1), ("bob", 2)):
        inbox.put_nowait(Attach(name, {"seed": seed, "prompt": "a castle"}))
    inbox.put_nowait(Action("alice", {"move": 1}, events=["jump"], action_id="first key"))
    await asyncio.gather(*readers)
    stop.set()
    await serving


async def _watch(outbox: Outbox, name: str) -> None:
    chunks: list[Chunk] = []
    with outbox.session(name) as items:
        async for item in items:
            if not isinstance(item, Chunk):
                _say(f"{name:>6}  {item}")
                continue
            chunks.append(item)
            if len(chunks) == CHUNKS:
                break
    seconds = (chunks[-1].stamps.emitted - chunks[0].stamps.emitted) / 1e9
    _say(f"{name:>6}  {CHUNKS} chunks at {(CHUNKS - 1) / seconds:.1f} a second, last action {chunks[-1].action_id!r}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    step_by_hand()
    asyncio.run(serve_through_queues())
