from __future__ import annotations

import asyncio
import gc
import itertools
import sys
import threading
import weakref
from collections import Counter

import numpy as np
import pytest

from realtime_engine import (
    Action,
    ActiveChanged,
    Attach,
    Attached,
    Chunk,
    Detach,
    Detached,
    Failed,
    Inbox,
    Outbox,
    OutboxClosed,
    Rejected,
    Reset,
    SessionClaimedError,
    SessionEvent,
    SetActive,
)
from realtime_engine.testing import ManualClock

SOON_S = 2.0  # how long a test waits for a wake-up that must come at once


def chunk(session_id: str, seq: int = 0) -> Chunk:
    return Chunk(session_id, seq, seq=seq)


def soon(awaitable):
    return asyncio.wait_for(awaitable, SOON_S)


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(10):
        await asyncio.sleep(0)


async def waiting(coroutine) -> asyncio.Task:
    """A task that has come to its first wait."""
    task = asyncio.create_task(coroutine)
    await settle()
    assert not task.done()
    return task


def run_in_threads(*functions) -> None:
    """Run to the end; the first exception comes out."""
    errors: list[BaseException] = []

    def guarded(function) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


@pytest.fixture
def eager_switching():
    """Threads take turns as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class TestInboxChecks:
    @pytest.mark.parametrize(
        "given", [None, "attach", {"session_id": "a"}, ("a", {}), Attach, Attached("a"), chunk("a")]
    )
    def test_an_object_that_is_no_message_is_refused(self, given):
        inbox = Inbox()
        with pytest.raises(TypeError, match="Attach, Detach, Reset, Action or SetActive"):
            inbox.put_nowait(given)
        assert inbox.empty()

    @pytest.mark.parametrize("session_id", [None, 1, b"a", ("a",)])
    @pytest.mark.parametrize("make", [Attach, Detach, Reset, Action, lambda sid: SetActive(sid, True)])
    def test_a_session_id_that_is_no_string_is_refused(self, make, session_id):
        inbox = Inbox()
        with pytest.raises(TypeError, match="session_id"):
            inbox.put_nowait(make(session_id))
        assert inbox.empty()

    @pytest.mark.parametrize(
        "message",
        [
            Attach("a", None),
            Attach("a", [("seed", 1)]),
            Reset("a", "x"),
            Action("a", None),
            Action("a", [1]),
            Action("a", {}, "press"),
            Action("a", {}, b"press"),
            Action("a", {}, 3),
            Action("a", {}, None),
            Action("a", {}, {"press"}),
            SetActive("a", 1),
            SetActive("a", None),
            SetActive("a", "yes"),
        ],
    )
    def test_a_field_of_the_wrong_type_is_refused(self, message):
        inbox = Inbox()
        with pytest.raises(TypeError):
            inbox.put_nowait(message)
        assert inbox.empty()

    def test_the_reserved_key_is_refused(self):
        with pytest.raises(ValueError, match="events"):
            Inbox().put_nowait(Action("a", {"events": []}))

    def test_conditioning_that_holds_itself_is_refused(self):
        loop: dict[str, object] = {}
        loop["self"] = loop
        with pytest.raises(ValueError, match="refer to itself"):
            Inbox().put_nowait(Action("a", loop))


class TestInboxSnapshots:
    def test_later_changes_by_the_sender_are_not_seen(self):
        inbox, image, events = Inbox(), np.zeros(3), [{"key": "w"}]
        context, conditioning = {"image": image, "list": [1]}, {"image": image, "list": [1]}
        inbox.put_nowait(Attach("a", context))
        inbox.put_nowait(Reset("a", context))
        inbox.put_nowait(Action("a", conditioning, events))
        image[:] = 9
        context["list"].append(2)
        conditioning["list"].append(2)
        conditioning["new"] = 1
        events[0]["key"] = "s"
        events.append("more")
        attach, reset, action = inbox.drain_nowait()
        for taken in (attach.context, reset.context, action.conditioning):
            assert taken["list"] == [1]
            assert not taken["image"].any()
        assert "new" not in action.conditioning
        assert list(action.events) == [{"key": "w"}]

    def test_a_mutable_action_id_is_a_snapshot_too(self):
        inbox, action_id = Inbox(), ["first"]
        inbox.put_nowait(Action("a", action_id=action_id))
        action_id.append("changed")
        assert inbox.drain_nowait()[0].action_id == ["first"]


class TestInboxOrder:
    def test_first_in_first_out(self):
        inbox = Inbox()
        sent = [Attach("a"), Action("a", {"n": 1}, ("e",), 7), SetActive("a", False), Reset("a"), Detach("a")]
        for message in sent:
            inbox.put_nowait(message)
        assert inbox.drain_nowait() == sent
        assert inbox.empty() and inbox.drain_nowait() == []

    def test_messages_carry_their_time_of_arrival(self):
        clock = ManualClock()
        inbox = Inbox(clock=clock)
        inbox.put_nowait(Attach("a"))
        clock.advance_ns(5)
        inbox.put_nowait(Detach("a"))
        assert [stamp for stamp, _ in inbox.drain_stamped()] == [0, 5]

    def test_eight_threads_put_100_000_messages_and_none_is_lost(self, eager_switching):
        inbox, taken = Inbox(), []
        threads, each = 8, 12_500
        producing = threading.Event()
        producing.set()

        def put(name: str) -> None:
            for number in range(each):
                inbox.put_nowait(Action(name, action_id=number))

        def drain() -> None:
            while producing.is_set() or not inbox.empty():
                taken.extend(inbox.drain_nowait())

        def produce() -> None:
            run_in_threads(*(lambda name=f"s{n}": put(name) for n in range(threads)))
            producing.clear()

        run_in_threads(produce, drain)
        assert len(taken) == threads * each
        for n in range(threads):
            assert [message.action_id for message in taken if message.session_id == f"s{n}"] == list(range(each))


class TestInboxListening:
    def test_a_listener_is_called_on_each_put_while_it_listens(self):
        inbox, calls = Inbox(), []
        with inbox.listening(lambda: calls.append(inbox.empty())):
            inbox.put_nowait(Attach("a"))
            inbox.put_nowait(Detach("a"))
        inbox.put_nowait(Attach("b"))
        assert calls == [False, False], "the message is there when the listener is called"

    def test_two_listeners_are_both_called(self):
        inbox, first, second = Inbox(), [], []
        with inbox.listening(lambda: first.append(1)):
            with inbox.listening(lambda: second.append(1)):
                inbox.put_nowait(Attach("a"))
            inbox.put_nowait(Detach("a"))
        assert (len(first), len(second)) == (2, 1)

    def test_listeners_that_come_from_many_threads_at_once_are_all_called(self, eager_switching):
        inbox = Inbox()
        missed = []

        def listen() -> None:
            for _ in range(5000):
                called = threading.Event()
                with inbox.listening(called.set):
                    inbox.put_nowait(Detach("a"))
                if not called.is_set():
                    missed.append(1)

        run_in_threads(*[listen] * 4)
        assert not missed, f"{len(missed)} listeners were forgotten"
        assert inbox._listeners == (), "listeners that have left are still called"

    async def test_wait_returns_at_once_when_a_message_is_queued(self):
        inbox = Inbox()
        inbox.put_nowait(Attach("a"))
        await soon(inbox.wait())
        assert not inbox.empty()

    async def test_wait_is_woken_from_another_thread(self):
        inbox = Inbox()
        waiter = await waiting(inbox.wait())
        await asyncio.to_thread(inbox.put_nowait, Attach("a"))
        await soon(waiter)

    async def test_a_cancelled_wait_leaves_no_listener(self):
        inbox = Inbox()
        waiter = await waiting(inbox.wait())
        waiter.cancel()
        await settle()
        assert waiter.cancelled()
        assert inbox._listeners == ()

    def test_a_wait_on_a_loop_that_was_closed_does_not_raise_in_the_sender(self):
        inbox = Inbox()
        orphan = orphaned(inbox.wait)
        inbox.put_nowait(Attach("a"))
        del orphan
        assert len(inbox.drain_nowait()) == 1


class TestOutboxGet:
    @pytest.mark.parametrize("given", [-1, 1.5, None, "8", True])
    def test_maxsize_must_be_a_count(self, given):
        with pytest.raises(ValueError, match="maxsize"):
            Outbox(maxsize=given)

    @pytest.mark.parametrize("given", [None, 1, Attach("a"), "chunk"])
    def test_an_item_that_is_neither_chunk_nor_event_is_refused(self, given):
        with pytest.raises(TypeError):
            Outbox().put_nowait(given)

    async def test_get_returns_chunks_only(self):
        outbox = Outbox()
        first, second = chunk("a", 0), chunk("a", 1)
        outbox.put_many([Attached("a"), first, ActiveChanged("a", False), second, Detached("a")])
        assert await outbox.get() is first
        assert await outbox.get() is second
        assert outbox.empty()

    def test_get_nowait_raises_when_empty(self):
        outbox = Outbox()
        outbox.put_nowait(Attached("a"))
        with pytest.raises(asyncio.QueueEmpty):
            outbox.get_nowait()
        assert outbox.empty()

    async def test_get_waits_for_a_chunk_and_sleeps_through_events(self):
        outbox = Outbox()
        getter = await waiting(outbox.get())
        outbox.put_nowait(Attached("a"))
        await settle()
        assert not getter.done()
        outbox.put_nowait(chunk("a"))
        assert (await soon(getter)).session_id == "a"

    def test_round_robin_over_sessions(self):
        outbox = Outbox()
        outbox.put_many([chunk("a", n) for n in range(100)])
        outbox.put_many([chunk("b", n) for n in range(2)])
        outbox.put_many([chunk("c", n) for n in range(2)])
        order = [outbox.get_nowait().session_id for _ in range(7)]
        assert order == ["a", "b", "c", "a", "b", "c", "a"]

    def test_a_session_that_floods_between_gets_does_not_starve_another(self):
        outbox, served = Outbox(), Counter()
        outbox.put_many([chunk("quiet", n) for n in range(50)])
        for n in range(100):
            outbox.put_many([chunk("loud", 3 * n + k) for k in range(3)])
            served[outbox.get_nowait().session_id] += 1
        assert served["quiet"] == 50

    def test_order_within_a_session(self):
        outbox = Outbox()
        outbox.put_many(itertools.chain.from_iterable((chunk("a", n), chunk("b", n)) for n in range(10)))
        got = [outbox.get_nowait() for _ in range(20)]
        for name in "ab":
            assert [item.seq for item in got if item.session_id == name] == list(range(10))

    async def test_each_of_several_getters_is_woken(self):
        outbox = Outbox()
        getters = [await waiting(outbox.get()) for _ in range(3)]
        outbox.put_many([chunk("a", n) for n in range(3)])
        got = await soon(asyncio.gather(*getters))
        assert sorted(item.seq for item in got) == [0, 1, 2]

    async def test_a_bad_item_in_the_middle_does_not_cost_the_waiting_reader_the_good_ones(self):
        outbox = Outbox()
        getter = await waiting(outbox.get())
        with pytest.raises(TypeError):
            outbox.put_many([chunk("a"), "junk"])
        if outbox.empty():  # all or nothing is fine as well
            outbox.put_nowait(chunk("a"))
        assert (await soon(getter)).session_id == "a"


class TestOutboxBounds:
    def test_the_oldest_chunk_of_the_slow_session_alone_is_dropped(self):
        outbox = Outbox(maxsize=2)
        outbox.put_many([chunk("slow", n) for n in range(5)])
        outbox.put_many([chunk("quick", n) for n in range(2)])
        assert outbox.statistics().dropped == {"slow": 3}
        assert outbox.statistics().dropped_total == 3
        assert outbox.statistics().chunks == 4
        got = [outbox.get_nowait() for _ in range(4)]
        assert [item.seq for item in got if item.session_id == "slow"] == [3, 4]
        assert [item.seq for item in got if item.session_id == "quick"] == [0, 1]

    def test_zero_is_no_bound(self):
        outbox = Outbox()
        outbox.put_many([chunk("a", n) for n in range(10_000)])
        assert outbox.statistics().chunks == 10_000
        assert outbox.statistics().dropped == {}

    def test_events_are_never_dropped_and_keep_their_place(self):
        outbox = Outbox(maxsize=2)
        reader = outbox.session("a")
        outbox.put_many(
            [
                Attached("a", epoch=1),
                chunk("a", 0),
                chunk("a", 1),
                ActiveChanged("a", False, epoch=1),
                chunk("a", 2),
                ActiveChanged("a", True, epoch=1),
                chunk("a", 3),
                Detached("a", epoch=1),
            ]
        )
        names = [item.seq if isinstance(item, Chunk) else type(item).__name__ for item in drain(reader)]
        assert names == ["Attached", "ActiveChanged", 2, "ActiveChanged", 3, "Detached"]
        assert reader.dropped == 2

    def test_a_claimed_session_keeps_every_event(self):
        outbox = Outbox(maxsize=1)
        reader = outbox.session("a")
        outbox.put_many([Rejected("a", str(n)) for n in range(20_000)])
        assert [item.reason for item in drain(reader)] == [str(n) for n in range(20_000)]

    def test_a_bound_of_one_keeps_the_newest(self):
        outbox = Outbox(maxsize=1)
        for n in range(10):
            outbox.put_nowait(chunk("a", n))
        assert outbox.get_nowait().seq == 9
        assert outbox.empty()


class TestOutboxMemory:
    def test_unclaimed_sessions_that_ended_are_bounded(self):
        outbox = Outbox()
        for n in range(5000):
            outbox.put_many([Attached(f"s{n}", epoch=1), Detached(f"s{n}", epoch=1)])
        assert outbox.statistics().sessions <= 1024
        assert [type(item) for item in drain(outbox.session("s4999"))] == [Attached, Detached]

    def test_ids_that_were_only_rejected_are_bounded(self):
        outbox = Outbox()
        for n in range(5000):
            outbox.put_nowait(Rejected(f"s{n}", "full"))
        assert outbox.statistics().sessions <= 1024

    def test_a_fatal_failure_ends_a_session_and_another_does_not(self):
        outbox = Outbox()
        outbox.put_many([Attached("steady", epoch=1), Failed("steady", "x", epoch=1)])
        for n in range(5000):
            outbox.put_many([Attached(f"s{n}", epoch=1), Failed(f"s{n}", "x", True, epoch=1)])
        assert outbox.statistics().sessions <= 1025
        assert len(drain(outbox.session("steady"))) == 2

    def test_readers_that_close_leave_nothing_behind(self):
        outbox = Outbox()
        for n in range(3000):
            with outbox.session(f"s{n}") as reader:
                outbox.put_many([Attached(f"s{n}", epoch=1), chunk(f"s{n}"), Detached(f"s{n}", epoch=1)])
                drain(reader)
        assert outbox.statistics().sessions == 0

    def test_claims_of_sessions_that_were_never_attached_leave_nothing_behind(self):
        outbox = Outbox()
        for n in range(3000):
            outbox.session(f"s{n}").close()
        assert outbox.statistics().sessions == 0

    def test_ended_sessions_that_get_has_read_are_bounded(self):
        outbox = Outbox()
        for n in range(3000):
            outbox.put_many([Attached(f"s{n}", epoch=1), chunk(f"s{n}"), Detached(f"s{n}", epoch=1)])
            assert outbox.get_nowait().session_id == f"s{n}"
        assert outbox.statistics().sessions <= 1024

    def test_events_of_an_unclaimed_session_are_bounded(self):
        outbox = Outbox()
        outbox.put_nowait(Attached("a", epoch=1))
        for n in range(12_000):
            outbox.put_nowait(ActiveChanged("a", bool(n % 2), epoch=1))
        assert len(drain(outbox.session("a"))) == 10_000

    def test_events_that_get_has_skipped_are_bounded(self):
        outbox = Outbox()
        for n in range(12_000):
            outbox.put_many([ActiveChanged("a", bool(n % 2), epoch=1), chunk("a", n)])
            outbox.get_nowait()
        assert len(drain(outbox.session("a"))) <= 10_001

    def test_ended_sessions_with_unread_chunks_are_bounded(self):
        """A reader that leaves early (a closed tab) leaves chunks behind; without get() they would stay."""
        outbox = Outbox(maxsize=2)
        for n in range(5000):
            with outbox.session(f"s{n}"):
                outbox.put_many([Attached(f"s{n}", epoch=1), chunk(f"s{n}"), Detached(f"s{n}", epoch=1)])
        assert outbox.statistics().sessions <= 1100


def drain(reader) -> list:
    items = []
    while True:
        try:
            items.append(reader.get_nowait())
        except (asyncio.QueueEmpty, OutboxClosed):
            return items


class TestClaims:
    def test_a_claim_before_the_attach_gets_everything(self):
        outbox = Outbox()
        reader = outbox.session("a")
        sent = [Attached("a", epoch=1), chunk("a"), Detached("a", epoch=1)]
        outbox.put_many(sent)
        assert drain(reader) == sent

    def test_a_claim_after_the_attach_gets_unread_items_and_the_events_that_get_has_skipped(self):
        outbox = Outbox()
        outbox.put_many([Attached("a", epoch=1), chunk("a", 0), ActiveChanged("a", True, epoch=1), chunk("a", 1)])
        assert outbox.get_nowait().seq == 0
        reader = outbox.session("a")
        assert outbox.empty()
        assert [getattr(item, "seq", type(item)) for item in drain(reader)] == [Attached, ActiveChanged, 1]

    def test_get_does_not_serve_a_claimed_session(self):
        outbox = Outbox()
        outbox.put_nowait(chunk("a"))
        reader = outbox.session("a")
        outbox.put_many([chunk("a", 1), chunk("b")])
        assert outbox.get_nowait().session_id == "b"
        assert outbox.empty()
        assert len(drain(reader)) == 2

    def test_a_second_claim_is_refused(self):
        outbox = Outbox()
        reader = outbox.session("a")
        with pytest.raises(SessionClaimedError, match="'a'"):
            outbox.session("a")
        reader.close()
        outbox.session("a")

    @pytest.mark.parametrize("given", [None, 1, b"a"])
    def test_a_session_id_must_be_a_string(self, given):
        with pytest.raises(TypeError, match="session_id"):
            Outbox().session(given)

    def test_of_many_threads_that_claim_one_wins(self, eager_switching):
        outbox, wins, losses = Outbox(), [], []

        def claim() -> None:
            for n in range(200):
                try:
                    wins.append(outbox.session(f"s{n}").session_id)
                except SessionClaimedError:
                    losses.append(n)

        run_in_threads(*[claim] * 4)
        assert sorted(wins) == sorted(f"s{n}" for n in range(200))
        assert len(losses) == 600

    def test_get_serves_what_a_closed_reader_left(self):
        outbox = Outbox()
        reader = outbox.session("a")
        outbox.put_many([Attached("a", epoch=1), chunk("a", 0), chunk("a", 1)])
        reader.get_nowait(), reader.get_nowait()
        reader.close()
        reader.close()
        assert outbox.get_nowait().seq == 1

    async def test_a_getter_that_waits_is_woken_by_chunks_that_a_closed_reader_left(self):
        outbox = Outbox()
        reader = outbox.session("a")
        getters = [await waiting(outbox.get()), await waiting(outbox.get())]
        outbox.put_many([chunk("a", 0), chunk("a", 1)])
        await settle()
        assert not any(getter.done() for getter in getters)
        reader.close()
        assert {item.seq for item in await soon(asyncio.gather(*getters))} == {0, 1}

    async def test_closing_a_claim_ends_its_waiting_readers(self):
        outbox = Outbox()
        reader = outbox.session("a")
        waiters = [await waiting(reader.get()), await waiting(anext(reader))]
        reader.close()
        for waiter in waiters:
            with pytest.raises(OutboxClosed):
                await soon(waiter)

    async def test_closing_a_claim_from_another_thread_ends_its_waiting_reader(self):
        outbox = Outbox()
        reader = outbox.session("a")
        waiter = await waiting(reader.get())
        await asyncio.to_thread(reader.close)
        with pytest.raises(OutboxClosed):
            await soon(waiter)

    async def test_a_closed_reader_does_not_take_from_its_successor(self):
        outbox = Outbox()
        old = outbox.session("a")
        waiter = await waiting(old.get())
        old.close()
        new = outbox.session("a")
        outbox.put_nowait(chunk("a"))
        with pytest.raises(OutboxClosed):
            await soon(waiter)
        with pytest.raises(OutboxClosed):
            old.get_nowait()
        assert (await soon(new.get())).session_id == "a"

    async def test_a_claim_outlives_its_session(self):
        outbox = Outbox()
        reader = outbox.session("a")
        outbox.put_many([Attached("a", epoch=1), Detached("a", epoch=1)])
        assert len(drain(reader)) == 2
        outbox.put_nowait(Attached("a", epoch=2))
        assert (await soon(reader.get())).epoch == 2

    async def test_several_tasks_may_wait_on_one_reader(self):
        outbox = Outbox()
        reader = outbox.session("a")
        waiters = [await waiting(reader.get()) for _ in range(3)]
        outbox.put_many([Attached("a"), chunk("a", 0), chunk("a", 1)])
        got = await soon(asyncio.gather(*waiters))
        assert len({id(item) for item in got}) == 3

    async def test_the_iterator_gives_chunks_and_events_and_ends_with_the_outbox(self):
        outbox = Outbox()
        reader = outbox.session("a")
        sent = [Attached("a", epoch=1), chunk("a"), Detached("a", epoch=1)]
        outbox.put_many(sent)
        outbox.close()
        assert [item async for item in reader] == sent

    async def test_leaving_the_block_releases_the_claim(self):
        outbox = Outbox()
        with outbox.session("a") as reader:
            assert not reader.closed
        assert reader.closed
        outbox.session("a")


class TestWakeUps:
    async def test_a_cancelled_getter_that_was_not_woken_leaves_the_line(self):
        outbox = Outbox()
        first = await waiting(outbox.get())
        second = await waiting(outbox.get())
        first.cancel()
        await settle()
        outbox.put_nowait(chunk("a"))
        assert (await soon(second)).session_id == "a"

    @pytest.mark.parametrize("turns", [0, 1], ids=["before-the-loop-heard", "after-the-loop-heard"])
    async def test_a_getter_cancelled_with_a_wake_up_in_hand_passes_it_on(self, turns):
        outbox = Outbox()
        first = await waiting(outbox.get())
        second = await waiting(outbox.get())
        outbox.put_nowait(chunk("a"))
        for _ in range(turns):
            await asyncio.sleep(0)
        first.cancel()
        got = await soon(asyncio.gather(first, second, return_exceptions=True))
        assert [item for item in got if isinstance(item, Chunk)], "the chunk woke no reader"
        assert outbox.empty()

    @pytest.mark.parametrize("turns", [0, 1])
    async def test_a_reader_cancelled_with_a_wake_up_in_hand_passes_it_on(self, turns):
        outbox = Outbox()
        reader = outbox.session("a")
        first, second = await waiting(reader.get()), await waiting(reader.get())
        outbox.put_nowait(Attached("a"))
        for _ in range(turns):
            await asyncio.sleep(0)
        first.cancel()
        got = await soon(asyncio.gather(first, second, return_exceptions=True))
        assert [item for item in got if isinstance(item, SessionEvent)]

    async def test_a_timeout_on_get_loses_nothing(self):
        outbox = Outbox()
        for n in range(20):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(outbox.get(), 0)
            outbox.put_nowait(chunk("a", n))
            assert (await soon(outbox.get())).seq == n

    async def test_a_loop_that_was_closed_with_a_getter_on_it_swallows_no_wake_up(self):
        outbox = Outbox()
        orphan = await asyncio.to_thread(orphaned, outbox.get)
        getter = await waiting(outbox.get())
        outbox.put_nowait(chunk("a"))
        assert (await soon(getter)).session_id == "a"
        del orphan

    async def test_a_loop_that_was_closed_with_a_reader_on_it_swallows_no_wake_up(self):
        outbox = Outbox()
        reader = outbox.session("a")
        orphan = await asyncio.to_thread(orphaned, reader.get)
        waiter = await waiting(reader.get())
        outbox.put_nowait(Attached("a"))
        assert isinstance(await soon(waiter), Attached)
        del orphan

    async def test_a_claim_takes_the_chunk_that_a_getter_was_woken_for(self):
        outbox = Outbox()
        getter = await waiting(outbox.get())
        outbox.put_nowait(chunk("a"))
        reader = outbox.session("a")
        await settle()
        assert not getter.done()
        assert len(drain(reader)) == 1
        outbox.put_nowait(chunk("b"))
        assert (await soon(getter)).session_id == "b"


def orphaned(get) -> asyncio.Task:
    """A task that waits on a loop which is then closed under it."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(get())
    task._log_destroy_pending = False
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    return task


class TestClose:
    async def test_what_is_queued_can_still_be_read(self):
        outbox = Outbox()
        reader = outbox.session("a")
        outbox.put_many([chunk("a"), chunk("b")])
        outbox.close()
        assert outbox.closed
        assert (await outbox.get()).session_id == "b"
        assert (await reader.get()).session_id == "a"
        for read in (outbox.get, reader.get):
            with pytest.raises(OutboxClosed):
                await soon(read())
        for read in (outbox.get_nowait, reader.get_nowait):
            with pytest.raises(OutboxClosed):
                read()

    async def test_close_ends_every_waiter(self):
        outbox = Outbox()
        reader = outbox.session("a")
        waiters = [await waiting(call()) for call in (outbox.get, outbox.get, reader.get, reader.get)]
        await asyncio.to_thread(outbox.close)
        for result in await soon(asyncio.gather(*waiters, return_exceptions=True)):
            assert isinstance(result, OutboxClosed)

    async def test_close_right_after_a_put_loses_nothing(self):
        outbox = Outbox()
        waiters = [await waiting(outbox.get()) for _ in range(2)]
        outbox.put_nowait(chunk("a"))
        outbox.close()
        results = await soon(asyncio.gather(*waiters, return_exceptions=True))
        assert sorted(type(result).__name__ for result in results) == ["Chunk", "OutboxClosed"]

    def test_nothing_can_be_put_after_close(self):
        outbox = Outbox()
        outbox.close()
        outbox.close()
        with pytest.raises(OutboxClosed):
            outbox.put_nowait(chunk("a"))

    async def test_a_claim_after_close_ends_at_once(self):
        outbox = Outbox()
        outbox.close()
        with pytest.raises(OutboxClosed):
            await soon(outbox.session("a").get())

    async def test_an_iterator_that_waits_ends_when_the_outbox_closes(self):
        outbox = Outbox()
        reader = outbox.session("a")

        async def collect() -> list:
            return [item async for item in reader]

        collecting = await waiting(collect())
        outbox.close()
        assert await soon(collecting) == []


class TestThreads:
    async def test_a_consumer_on_a_loop_and_producers_on_threads(self, eager_switching):
        outbox, each = Outbox(), 1500

        def produce(name: str) -> None:
            for n in range(each):
                outbox.put_nowait(chunk(name, n))

        async def consume() -> dict[str, list[int]]:
            got: dict[str, list[int]] = {name: [] for name in "abcd"}
            for _ in range(4 * each):
                item = await outbox.get()
                got[item.session_id].append(item.seq)
            return got

        consuming = asyncio.create_task(consume())
        await asyncio.to_thread(run_in_threads, *(lambda name=name: produce(name) for name in "abcd"))
        got = await asyncio.wait_for(consuming, WAIT_S)
        assert got == {name: list(range(each)) for name in "abcd"}

    def test_consumers_on_two_loops_share_one_outbox(self, eager_switching):
        outbox, total = Outbox(), 4000
        got: list[list[int]] = [[], []]

        def consume(mine: list[int]) -> None:
            async def run() -> None:
                try:
                    while True:
                        mine.append((await outbox.get()).seq)
                except OutboxClosed:
                    return

            asyncio.run(asyncio.wait_for(run(), WAIT_S))

        def produce() -> None:
            for n in range(total):
                outbox.put_nowait(chunk(f"s{n % 3}", n))
            outbox.close()

        run_in_threads(lambda: consume(got[0]), lambda: consume(got[1]), produce)
        assert sorted(got[0] + got[1]) == list(range(total))

    def test_one_reader_per_session_on_loops_of_their_own(self, eager_switching):
        outbox, total = Outbox(), 1000
        readers = {f"s{n}": outbox.session(f"s{n}") for n in range(3)}
        got: dict[str, list[int]] = {}

        def consume(name: str) -> None:
            async def run() -> None:
                got[name] = [item.seq async for item in readers[name]]

            asyncio.run(asyncio.wait_for(run(), WAIT_S))

        def produce() -> None:
            for n in range(total):
                outbox.put_many([chunk(name, n) for name in readers])
            outbox.close()

        run_in_threads(*(lambda name=name: consume(name) for name in readers), produce)
        assert got == {name: list(range(total)) for name in readers}

    async def test_getters_that_are_cancelled_all_the_time_lose_no_wake_up(self, eager_switching):
        outbox, total = Outbox(), 400
        got: list[int] = []

        async def get_one() -> None:
            item = await outbox.get()
            got.append(item.seq)

        async def consume() -> None:
            while len(got) < total:
                tasks = [asyncio.create_task(get_one()) for _ in range(3)]
                await asyncio.sleep(0)
                tasks[0].cancel()
                await asyncio.sleep(0)
                tasks[1].cancel()
                remaining = total - len(got)
                if remaining > 0:
                    await asyncio.wait(tasks[2:], timeout=0.0005)
                tasks[2].cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        def produce() -> None:
            for n in range(total):
                outbox.put_nowait(chunk("a", n))

        consuming = asyncio.create_task(consume())
        await asyncio.to_thread(produce)
        await asyncio.wait_for(consuming, WAIT_S)
        assert sorted(got) == list(range(total))

    def test_claims_come_and_go_while_chunks_arrive(self, eager_switching):
        outbox, total = Outbox(), 3000
        seen: list[int] = []
        lock, produced = threading.Lock(), threading.Event()

        def produce() -> None:
            for n in range(total):
                outbox.put_nowait(chunk("a", n))
            produced.set()

        def claim() -> None:
            while not produced.is_set():
                with outbox.session("a") as reader, lock:
                    seen.extend(item.seq for item in drain(reader))

        def get() -> None:
            while True:
                try:
                    seq = outbox.get_nowait().seq
                except asyncio.QueueEmpty:
                    if produced.is_set():
                        return
                    continue
                with lock:
                    seen.append(seq)

        run_in_threads(produce, claim, get)
        seen.extend(item.seq for item in drain(outbox.session("a")))
        assert sorted(seen) == list(range(total))


WAIT_S = 10.0


class Picture:
    """An output that weak references can watch."""


def test_the_chunks_of_closed_readers_are_released():
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


def test_get_does_not_serve_a_session_claimed_after_its_first_chunk():
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
