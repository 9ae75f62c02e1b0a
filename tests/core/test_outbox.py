"""What an outbox holds on to, and what may run while it holds its lock."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from realtime_engine import Attached, Chunk, Detached, Outbox

WAIT_S = 10.0


class Picture:
    """An output that weak references can watch."""


def test_the_chunks_of_departed_readers_are_let_go():
    outbox = Outbox(maxsize=2)
    watched = []
    for number in range(3000):
        name = f"s{number}"
        reader = outbox.session(name)
        outbox.put_nowait(Attached(name, epoch=1))
        for _ in range(3):
            picture = Picture()
            watched.append(weakref.ref(picture))
            outbox.put_nowait(Chunk(name, picture))
            del picture
        reader.close()
        outbox.put_nowait(Detached(name, epoch=1))
    gc.collect()
    alive = sum(reference() is not None for reference in watched)
    assert alive == outbox.backlog == outbox.statistics().chunks
    assert alive <= 2 * 1024


def test_a_session_that_was_claimed_after_its_first_chunk_is_not_gets_any_more():
    outbox = Outbox()
    outbox.put_nowait(Chunk("a", 1))
    with outbox.session("a") as reader:
        assert outbox.empty()
        assert reader.get_nowait().output == 1
        outbox.put_nowait(Chunk("a", 2))
        assert outbox.empty()
    assert outbox.get_nowait().output == 2


@pytest.mark.parametrize("kind", ["iterator that asks the outbox", "output whose destructor asks the outbox"])
def test_code_that_runs_in_the_middle_of_a_put_may_use_the_outbox(kind):
    outbox = Outbox(maxsize=1)

    class Pooled:
        def __del__(self) -> None:
            outbox.statistics()

    def put() -> None:
        if kind.startswith("iterator"):
            outbox.put_many(Chunk("a", outbox.empty()) for _ in "xy")
        else:
            outbox.put_nowait(Chunk("a", Pooled()))
            outbox.put_nowait(Chunk("a", Pooled()))

    thread = threading.Thread(target=put, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert not thread.is_alive(), "put_many waits for itself"
    assert outbox.backlog == 1
