from __future__ import annotations

import asyncio

import pytest

from realtime_engine import (
    Action,
    ActiveChanged,
    Attach,
    Attached,
    Detach,
    Detached,
    Failed,
    Finished,
    Rejected,
    Reset,
    ResetDone,
    SetActive,
)
from realtime_engine.server.problems import Problem
from realtime_engine.server.sessions.engine_requests import RequestRefused, SessionOver

from ..support import message, until
from .support import session_bench


async def test_a_session_attaches_and_its_first_step_has_the_fields() -> None:
    async with session_bench() as bench:
        await bench.attached()
        attach, action = bench.inbox.messages
        assert isinstance(attach, Attach) and attach.context == {}
        assert isinstance(action, Action) and action.conditioning["seed"] == 0
        assert bench.session.epoch == 1 and bench.session.run_state.name == "running"
        assert bench.events() == ["attached"]


async def test_a_refused_session_ends() -> None:
    async with session_bench() as bench:
        attaching = bench.attach()
        bench.send(Rejected(bench.session.id, "no room"))
        with pytest.raises(RequestRefused, match="no room"):
            await attaching
        await bench.session.wait_ended(10)
        assert bench.ended and bench.session.epoch == 0


async def test_an_engine_that_does_not_respond_to_an_attach_ends_the_session() -> None:
    async with session_bench({"stall_timeout_s": 0.01}) as bench:
        with pytest.raises(Problem) as raised:
            await bench.attach()
        assert raised.value.kind == "stalled"
        assert bench.session.is_ending and bench.inbox.of(Detach)


async def test_a_reset_that_the_engine_refuses_changes_no_field() -> None:
    async with session_bench() as bench:
        session = bench.session
        await bench.attached()
        resetting = asyncio.create_task(session.reset({"seed": 7}))
        await until(lambda: bench.inbox.of(Reset))
        bench.send(Rejected(session.id, "ValueError: not now", epoch=1))
        with pytest.raises(RequestRefused, match="not now"):
            await resetting
        assert session.controls.state.window().field_values["seed"] == 0
        assert bench.inbox.of(Action)[-1].conditioning["seed"] == 0
        assert bench.events()[-1] == "rejected"


async def test_invalid_fields_of_a_reset_reach_no_engine() -> None:
    async with session_bench() as bench:
        await bench.attached()
        with pytest.raises(Problem) as raised:
            await bench.session.reset({"seed": -1})
        assert raised.value.kind == "invalid-context" and not bench.inbox.of(Reset)


async def test_a_reset_waits_for_the_reply_to_an_earlier_one_whose_caller_is_gone() -> None:
    async with session_bench() as bench:
        session = bench.session
        await bench.attached()
        first = asyncio.create_task(session.reset({"seed": 7}))
        await until(lambda: bench.inbox.of(Reset))
        first.cancel()
        await asyncio.wait({first})
        second = asyncio.create_task(session.reset({"prompt": "ice"}))
        await asyncio.wait({second}, timeout=0)
        assert len(bench.inbox.of(Reset)) == 1
        bench.send(ResetDone(session.id, epoch=2))
        await until(lambda: len(bench.inbox.of(Reset)) == 2)
        bench.send(ResetDone(session.id, epoch=3))
        await second
        assert [reset.context for reset in bench.inbox.of(Reset)] == [{"seed": 7}, {"seed": 7, "prompt": "ice"}]
        assert session.controls.state.window().field_values == {"seed": 7, "prompt": "ice"}


async def test_a_pause_by_a_client_is_confirmed_by_the_engine_and_broadcast() -> None:
    async with session_bench() as bench:
        session = bench.session
        await bench.attached()
        pausing = asyncio.create_task(session.set_paused(True))
        await bench.confirm_active()
        await pausing
        assert bench.inbox.of(SetActive) == [SetActive(session.id, False)]
        assert bench.events() == ["attached", "active_changed"] and session.run_state.name == "paused"


async def test_a_session_without_viewers_is_paused() -> None:
    async with session_bench({"viewer_grace_s": 0.01}) as bench:
        session = bench.session
        await bench.attached()
        await bench.confirm_active()
        assert bench.events() == ["attached"], "clients are informed of their own pauses only"
        with session.media.frames.subscribe():
            await bench.confirm_active()
            assert [message.active for message in bench.inbox.of(SetActive)] == [False, True]


async def test_an_idle_session_is_ended() -> None:
    async with session_bench({"idle_timeout_s": 0.01}) as bench:
        await bench.attached()
        await until(lambda: bench.inbox.of(Detach))
        assert bench.session.is_ending
        bench.send(Detached(bench.session.id, epoch=1))
        await bench.session.ended.wait()


async def test_a_fatal_failure_ends_the_session_and_its_pending_reset() -> None:
    async with session_bench() as bench:
        session = bench.session
        await bench.attached()
        resetting = asyncio.create_task(session.reset({}))
        await until(lambda: bench.inbox.of(Reset))
        bench.send(Failed(session.id, "out of memory", fatal=True, epoch=1))
        with pytest.raises(SessionOver, match="out of memory"):
            await resetting
        await session.ended.wait()
        assert bench.received[-1]["fatal"] is True
        with pytest.raises(SessionOver):
            await session.set_paused(True)


async def test_the_end_of_the_engine_is_reported_as_a_fatal_failure() -> None:
    async with session_bench() as bench:
        await bench.attached()
        bench.outbox.close()
        await bench.session.ended.wait()
        last = bench.received[-1]
        assert (last["event"], last["fatal"], last["error"]) == ("failed", True, "the engine has ended")


async def test_keys_are_released_when_the_last_client_disconnects() -> None:
    async with session_bench() as bench:
        session = bench.session
        await bench.attached()
        session.receive(message("controls", seq=1, keys=["KeyW"]))
        session.connections.remove(bench)
        assert bench.inbox.of(Action)[-1].conditioning["forward"] == 0.0


async def test_what_the_engine_owes_is_measured() -> None:
    async with session_bench() as bench:
        session = bench.session
        assert session.stalled_s == 0
        attaching = bench.attach()
        await until(lambda: session.stalled_s > 0)  # a reply
        bench.send(Attached(session.id, epoch=1))
        await attaching
        await until(lambda: session.stalled_s > 0)  # a chunk
        pausing = asyncio.create_task(session.set_paused(True))
        await bench.confirm_active()
        await pausing
        assert session.stalled_s == 0


async def test_the_counts_are_those_of_all_parts() -> None:
    async with session_bench(video_input=True) as bench:
        await bench.attached()
        with bench.session.media.frames.subscribe() as viewer:
            bench.chunk(0, 9)
            assert (await viewer.next()).pixels.max() == 9
        assert bench.session.publishers is not None
        bench.session.publishers.video.drop()
        counts = bench.session.counts()
        assert (counts.published, counts.video_dropped, counts.recordings) == (1, 1, 0)


async def test_a_session_that_the_engine_has_detached_reports_its_end_once() -> None:
    async with session_bench() as bench:
        session = bench.session
        await bench.attached()
        session.end()
        session.end()
        assert len(bench.inbox.of(Detach)) == 1
        bench.send(ActiveChanged(session.id, True, epoch=1), Detached(session.id, epoch=1))
        await session.wait_ended(10)
        assert bench.ended and bench.events() == ["attached", "detached"]


async def test_a_finished_rollout_is_not_stepped_until_a_reset() -> None:
    async with session_bench() as bench:
        session = bench.session
        await bench.attached()
        bench.chunk(0, 7)
        bench.send(Finished(session.id, epoch=1))
        await until(lambda: session.run_state.finished)
        assert bench.received[-1] == {"v": 1, "type": "event", "event": "finished", "epoch": 1}
        assert session.stalled_s == 0 and session.run_state.name == "finished"
        newest = session.media.frames.latest
        assert newest is not None and newest.pixels.max() == 7, "viewers keep the last picture"
        resetting = asyncio.create_task(session.reset({}))
        await until(lambda: bench.inbox.of(Reset))
        bench.send(ResetDone(session.id, epoch=2))
        await resetting
        assert session.run_state.name == "running" and session.media.frames.latest is None
