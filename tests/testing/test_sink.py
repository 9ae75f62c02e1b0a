from __future__ import annotations

import asyncio

import pytest

from realtime_engine import Attached, Chunk, Detached, Outbox, SessionClaimedError
from realtime_engine.testing import RecordingSink


def test_it_keeps_chunks_and_events_in_order():
    outbox = Outbox()
    sink = RecordingSink(outbox, "a")
    outbox.put_many([Attached("a", epoch=1), Chunk("a", 1), Chunk("b", 2)])
    assert sink.drain() == [Attached("a", epoch=1), Chunk("a", 1)]
    assert sink.drain() == []
    outbox.put_nowait(Detached("a", epoch=1))
    sink.drain()
    assert sink.items == [Attached("a", epoch=1), Chunk("a", 1), Detached("a", epoch=1)]
    assert (sink.chunks, sink.events) == ([Chunk("a", 1)], [Attached("a", epoch=1), Detached("a", epoch=1)])


async def test_it_records_until_the_outbox_ends():
    outbox = Outbox()
    sink = RecordingSink(outbox, "a")
    running = asyncio.create_task(sink.run())
    outbox.put_many([Chunk("a", n, seq=n) for n in range(5)])
    outbox.close()
    await asyncio.wait_for(running, 5)
    assert [chunk.seq for chunk in sink.chunks] == list(range(5))


def test_it_drains_what_a_closed_outbox_still_holds():
    outbox = Outbox()
    sink = RecordingSink(outbox, "a")
    outbox.put_nowait(Chunk("a", 1))
    outbox.close()
    assert sink.drain() == [Chunk("a", 1)]
    assert sink.drain() == []


def test_it_tells_what_it_was_too_slow_for():
    outbox = Outbox(maxsize=1)
    sink = RecordingSink(outbox, "a")
    outbox.put_many([Chunk("a", n) for n in range(4)])
    assert sink.dropped == 3


def test_it_claims_its_session():
    outbox = Outbox()
    RecordingSink(outbox, "a")
    with pytest.raises(SessionClaimedError):
        RecordingSink(outbox, "a")
