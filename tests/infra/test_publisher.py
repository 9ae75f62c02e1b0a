from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from realtime_engine.infra.frame import Frame
from realtime_engine.infra.publisher import (
    FramePublisher,
    FrameSubscription,
    PublisherClosed,
    SubscriptionClosed,
    SubscriptionEnded,
)

from .pictures import make_frame


async def start(waiting: Coroutine[Any, Any, Frame]) -> asyncio.Task[Frame]:
    """A task that has come to its first wait."""
    task = asyncio.create_task(waiting)
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_a_viewer_gets_the_newest_frame_at_once_and_each_frame_once() -> None:
    publisher = FramePublisher()
    publisher.publish(make_frame(0))
    publisher.publish(make_frame(1))
    with publisher.subscribe() as viewer:
        assert (await viewer.next()).id.seq == 1
        assert viewer.next_nowait() is None
        waiting = await start(viewer.next())
        publisher.publish(make_frame(2))
        assert (await waiting).id.seq == 2
        assert (viewer.seen, viewer.dropped) == (2, 0)


async def test_skipped_frames_are_counted() -> None:
    publisher = FramePublisher()
    with publisher.subscribe() as viewer:
        for seq in range(5):
            publisher.publish(make_frame(seq))
        assert (await viewer.next()).id.seq == 4
        assert (viewer.seen, viewer.dropped) == (1, 4)
    counts = publisher.statistics()
    assert (counts.published, counts.seen, counts.dropped, counts.viewers) == (5, 1, 4, 0)


async def test_viewers_share_the_very_same_frame() -> None:
    publisher = FramePublisher()
    with publisher.subscribe() as one, publisher.subscribe() as two:
        waiting = [await start(one.next()), await start(two.next())]
        frame = make_frame()
        publisher.publish(frame)
        assert all(got is frame for got in await asyncio.gather(*waiting))


async def test_publish_from_another_thread_wakes_every_viewer() -> None:
    publisher = FramePublisher()
    with publisher.subscribe() as one, publisher.subscribe() as two:
        waiting = [await start(one.next()), await start(two.next())]
        asyncio.get_running_loop().set_debug(True)  # calls from a wrong thread raise
        assert await asyncio.to_thread(publisher.publish, make_frame(7))
        got = await asyncio.wait_for(asyncio.gather(*waiting), 10)
    assert [frame.id.seq for frame in got] == [7, 7]


async def test_frames_from_a_busy_thread_arrive_in_order_up_to_the_last() -> None:
    publisher = FramePublisher()
    last = 2000

    def publish_all() -> None:
        for seq in range(last + 1):
            publisher.publish(make_frame(seq))

    thread = threading.Thread(target=publish_all)
    with publisher.subscribe() as viewer:
        thread.start()
        seqs = [(await asyncio.wait_for(viewer.next(), 10)).id.seq]
        while seqs[-1] != last:
            seqs.append((await asyncio.wait_for(viewer.next(), 10)).id.seq)
        thread.join()
        assert seqs == sorted(set(seqs))
        assert viewer.seen + viewer.dropped == last + 1


async def test_a_slow_viewer_does_not_delay_fifty_others() -> None:
    publisher = FramePublisher()
    viewers = [publisher.subscribe() for _ in range(50)]
    slow = publisher.subscribe()

    async def watch(viewer: FrameSubscription) -> list[int]:
        return [frame.id.seq async for frame in viewer]

    watching = [asyncio.create_task(watch(viewer)) for viewer in viewers]
    await asyncio.sleep(0)
    for seq in range(20):
        publisher.publish(make_frame(seq))
        await asyncio.sleep(0)
    publisher.close()
    assert all(seqs == list(range(20)) for seqs in await asyncio.gather(*watching))
    assert (await slow.next()).id.seq == 19
    assert (slow.seen, slow.dropped) == (1, 19)
    for viewer in viewers:
        viewer.close()
    slow.close()
    assert publisher.statistics().seen == 50 * 20 + 1


async def test_a_viewer_cancelled_while_it_waits_can_wait_again() -> None:
    publisher = FramePublisher()
    with publisher.subscribe() as viewer:
        waiting = await start(viewer.next())
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        publisher.publish(make_frame(3))
        assert (await viewer.next()).id.seq == 3


async def test_a_viewer_cancelled_at_its_wake_up_loses_nothing() -> None:
    publisher = FramePublisher()
    with publisher.subscribe() as viewer:
        waiting = await start(viewer.next())
        publisher.publish(make_frame(3))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await viewer.next()).id.seq == 3


async def test_closing_ends_waiting_viewers_after_the_last_frame() -> None:
    publisher = FramePublisher()
    with publisher.subscribe() as waiting_viewer, publisher.subscribe() as late_viewer:
        publisher.publish(make_frame(0))
        await waiting_viewer.next()
        waiting = await start(waiting_viewer.next())
        publisher.close()
        publisher.close()
        with pytest.raises(PublisherClosed, match="session has ended"):
            await waiting
        assert (await late_viewer.next()).id.seq == 0
        with pytest.raises(PublisherClosed):
            await late_viewer.next()
    assert publisher.closed
    assert not publisher.publish(make_frame(1))
    with pytest.raises(PublisherClosed):
        publisher.subscribe()


async def test_closing_from_another_thread_wakes_viewers() -> None:
    publisher = FramePublisher()
    with publisher.subscribe() as viewer:
        waiting = await start(viewer.next())
        asyncio.get_running_loop().set_debug(True)
        await asyncio.to_thread(publisher.close)
        with pytest.raises(SubscriptionEnded):
            await asyncio.wait_for(waiting, 10)


async def test_closing_a_subscription_ends_its_wait() -> None:
    publisher = FramePublisher()
    viewer = publisher.subscribe()
    waiting = await start(viewer.next())
    viewer.close()
    viewer.close()
    with pytest.raises(SubscriptionClosed):
        await waiting
    assert viewer.closed
    assert publisher.viewers == 0
    assert [frame async for frame in viewer] == []


async def test_a_wait_can_time_out() -> None:
    publisher = FramePublisher()
    with publisher.subscribe() as viewer:
        for timeout_s in (0.0, 0.001):
            with pytest.raises(TimeoutError, match="no new picture"):
                await viewer.next(timeout_s)
        publisher.publish(make_frame(1))
        assert (await viewer.next(0.0)).id.seq == 1


async def test_two_tasks_on_one_subscription_are_an_error() -> None:
    publisher = FramePublisher()
    with publisher.subscribe() as viewer:
        waiting = await start(viewer.next())
        with pytest.raises(RuntimeError, match="subscribe once for each viewer"):
            await viewer.next()
        publisher.publish(make_frame(5))
        assert (await waiting).id.seq == 5


async def test_after_a_reset_no_older_frame_is_delivered() -> None:
    publisher = FramePublisher()
    publisher.publish(make_frame(0, epoch=1))
    with publisher.subscribe() as unread, publisher.subscribe() as waits:
        await waits.next()
        waiting = await start(waits.next())
        publisher.begin_epoch(2)
        assert publisher.latest is None
        assert not publisher.publish(make_frame(1, epoch=1))
        assert unread.next_nowait() is None
        with publisher.subscribe() as new:
            assert new.next_nowait() is None
        assert publisher.publish(make_frame(2, epoch=2))
        assert (await waiting).id.seq == 2
        assert (await unread.next()).id.seq == 2
    assert publisher.statistics().refused == 1


async def test_a_frame_of_a_new_epoch_starts_it() -> None:
    publisher = FramePublisher()
    publisher.publish(make_frame(0, epoch=5))
    publisher.begin_epoch(3)
    assert publisher.epoch == 5
    assert publisher.latest is not None
    assert not publisher.publish(make_frame(1, epoch=4))


async def test_clear_forgets_the_picture_and_keeps_the_epoch() -> None:
    publisher = FramePublisher()
    publisher.publish(make_frame(0, epoch=2))
    publisher.clear()
    with publisher.subscribe() as viewer:
        assert viewer.next_nowait() is None
        assert publisher.epoch == 2


@pytest.mark.parametrize("thread", [False, True])
async def test_a_polling_reader_is_called_for_each_update_and_for_the_end(thread: bool) -> None:
    publisher = FramePublisher()
    updated = asyncio.Event()
    loop_thread = threading.get_ident()

    def on_update() -> None:
        assert threading.get_ident() == loop_thread
        updated.set()

    with publisher.subscribe(on_update) as viewer:
        await asyncio.to_thread(publisher.publish, make_frame(0)) if thread else publisher.publish(make_frame(0))
        assert thread or updated.is_set(), "on the loop it is called within publish"
        await updated.wait()
        updated.clear()
        assert viewer.next_nowait().id.seq == 0  # type: ignore[union-attr]
        publisher.close()
        assert updated.is_set()
        with pytest.raises(PublisherClosed):
            viewer.next_nowait()
        updated.clear()
    assert not updated.is_set(), "closing a subscription is no update"


async def test_a_rewound_subscription_delivers_the_newest_frame_once_more() -> None:
    publisher = FramePublisher()
    with publisher.subscribe() as viewer:
        viewer.rewind()
        assert viewer.next_nowait() is None
        for seq in range(2):
            publisher.publish(make_frame(seq))
        for _ in range(2):
            assert viewer.next_nowait().id.seq == 1  # type: ignore[union-attr]
            assert viewer.next_nowait() is None
            viewer.rewind()
        publisher.clear()
        assert viewer.next_nowait() is None


async def test_the_first_and_the_last_viewer_are_reported() -> None:
    reported: list[bool] = []
    publisher = FramePublisher(on_watched=reported.append)
    with publisher.subscribe():
        with publisher.subscribe():
            assert publisher.viewers == 2
        assert reported == [True]
    assert reported == [True, False]
    publisher.subscribe().close()
    assert reported == [True, False, True, False]


async def test_a_hook_that_raises_is_logged_and_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    def hook(watched: bool) -> None:
        raise ValueError("broken hook")

    publisher = FramePublisher(on_watched=hook)
    with caplog.at_level(logging.ERROR), publisher.subscribe() as viewer:
        publisher.publish(make_frame(1))
        assert (await viewer.next()).id.seq == 1
    assert "broken hook" in caplog.text
    assert publisher.viewers == 0


def test_a_publisher_needs_a_loop() -> None:
    with pytest.raises(RuntimeError):
        FramePublisher()
