"""The serve coroutine with a real thread, clock and event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from realtime_engine import (
    Action,
    AdmissionError,
    Attach,
    Attached,
    Chunk,
    Detach,
    Detached,
    EngineContractError,
    EngineManifest,
    Finished,
    Inbox,
    MonotonicClock,
    Outbox,
    OutboxClosed,
    Rejected,
    Reset,
    ServeMonitor,
    SessionInit,
    SetActive,
    StepResult,
    default_serve,
    run_engine,
)
from realtime_engine.core.clock import Wakeup
from realtime_engine.testing import FaultPlan, FaultyEngine, ScriptedEngine

TIMEOUT_S = 60.0


class CountingClock(MonotonicClock):
    """The system's clock; reports when the loop sleeps without a deadline."""

    def __init__(self) -> None:
        self.waits = 0
        self.idle = threading.Event()

    def wait(self, wakeup: Wakeup, until_ns: int | None) -> None:
        self.waits += 1
        if until_ns is None:
            self.idle.set()
        super().wait(wakeup, until_ns)


class GatedEngine(ScriptedEngine):
    """A step blocks until the test opens the gate."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.entered = threading.Event()
        self.gate = threading.Event()

    def step(self, due: Mapping[str, Any]) -> list[StepResult]:
        self.entered.set()
        assert self.gate.wait(TIMEOUT_S)
        return super().step(due)


class Running:
    def __init__(self, task: asyncio.Task[None], inbox: Inbox, outbox: Outbox, stop: asyncio.Event) -> None:
        self.task, self.inbox, self.outbox, self.stop = task, inbox, outbox, stop

    async def end(self) -> None:
        self.stop.set()
        await asyncio.wait_for(asyncio.shield(self.task), TIMEOUT_S)


@contextlib.asynccontextmanager
async def running(
    engine: Any, serve: Callable[..., Any] = default_serve, maxsize: int = 0, **options: Any
) -> AsyncIterator[Running]:
    inbox, outbox, stop = Inbox(), Outbox(maxsize), asyncio.Event()
    served = Running(asyncio.create_task(serve(engine, inbox, outbox, stop=stop, **options)), inbox, outbox, stop)
    try:
        yield served
    finally:
        if isinstance(engine, GatedEngine):
            engine.gate.set()
        if not served.task.done():
            await served.end()


async def in_time(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, TIMEOUT_S)


async def set_in_time(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, TIMEOUT_S)


async def rest_of(outbox: Outbox, session_id: str) -> list[Any]:
    with outbox.session(session_id) as items:
        return [item async for item in items]


# -- rate and idleness


async def test_no_chunk_comes_before_the_rate_of_the_manifest_says() -> None:
    async with running(ScriptedEngine(rate_hz=200.0)) as served:
        served.inbox.put_nowait(Attach("a"))
        chunks = [await in_time(served.outbox.get()) for _ in range(61)]
    seconds = (chunks[-1].stamps.step_begin - chunks[0].stamps.step_begin) / 1e9
    assert seconds >= 59 / 200, "chunks came faster than the declared rate"


async def test_tick_interval_overrides_the_rate() -> None:
    async with running(ScriptedEngine(rate_hz=0.001), tick_interval_s=0.002) as served:
        served.inbox.put_nowait(Attach("a"))
        for _ in range(5):
            await in_time(served.outbox.get())


@pytest.mark.parametrize("interval", [-1.0, float("nan"), float("inf")])
async def test_an_interval_out_of_range_is_refused(interval: float) -> None:
    with pytest.raises(ValueError, match="tick_interval_s"):
        await default_serve(ScriptedEngine(), Inbox(), Outbox(), stop=asyncio.Event(), tick_interval_s=interval)


async def test_input_wakes_an_idle_loop_at_once() -> None:
    clock = CountingClock()
    async with running(ScriptedEngine(rate_hz=0.01), clock=clock) as served:
        await set_in_time(clock.idle)
        served.inbox.put_nowait(Attach("a"))
        await in_time(served.outbox.get())  # a tick is 100 s: only a wake-up brings this in time


async def test_an_idle_loop_does_not_wake_up() -> None:
    clock, monitor = CountingClock(), ServeMonitor()
    async with running(ScriptedEngine(rate_hz=1000.0), clock=clock, monitor=monitor) as served:
        await set_in_time(clock.idle)
        served.inbox.put_nowait(Attach("a"))
        served.inbox.put_nowait(SetActive("a", False))
        with served.outbox.session("a") as items:
            while not isinstance(await in_time(items.get()), Attached):
                pass
            await in_time(items.get())
        clock.idle.clear()
        served.inbox.put_nowait(Action("a", {"x": 1}))
        await set_in_time(clock.idle)
        waits, steps = clock.waits, monitor.steps
        await asyncio.to_thread(time.sleep, 0.05)  # a span in which something might happen, not a synchronisation
        assert (clock.waits, monitor.steps) == (waits, steps)


async def test_input_from_another_thread_wakes_it_too() -> None:
    clock = CountingClock()
    async with running(ScriptedEngine(rate_hz=0.01), clock=clock) as served:
        await set_in_time(clock.idle)
        threading.Thread(target=served.inbox.put_nowait, args=(Attach("a"),)).start()
        await in_time(served.outbox.get())


# -- threads


async def test_every_engine_call_is_on_one_thread_and_not_on_the_event_loops() -> None:
    class Everything(ScriptedEngine):
        def manifest(self) -> EngineManifest:
            self._record("manifest", None)
            return super().manifest()

        def reset(self, init: SessionInit) -> None:
            self._record("reset", init.session_id)

    engine = Everything()
    async with running(engine, tick_interval_s=0.001) as served:
        for msg in (Attach("a"), Attach("b"), Action("a", {"x": 1}), Reset("a"), Detach("b")):
            served.inbox.put_nowait(msg)
        await in_time(served.outbox.get())
    assert {call.hook for call in engine.calls} == {"manifest", "attach", "reset", "step", "finalize", "detach"}
    [thread] = {call.thread for call in engine.calls}
    assert thread != threading.get_ident()


async def test_the_event_loop_runs_on_while_a_step_blocks() -> None:
    engine = GatedEngine()
    async with running(engine) as served:
        served.inbox.put_nowait(Attach("a"))
        await set_in_time(engine.entered)
        turns = 0
        for _ in range(1000):
            await asyncio.sleep(0)
            turns += 1
        assert turns == 1000 and not served.task.done()


# -- the ends


async def test_stop_finishes_the_tick_detaches_everyone_and_closes_the_outbox() -> None:
    engine = GatedEngine()
    async with running(engine) as served:
        served.inbox.put_nowait(Attach("a"))
        served.inbox.put_nowait(Attach("b"))
        await set_in_time(engine.entered)
        served.stop.set()
        served.inbox.put_nowait(Attach("late"))
        engine.gate.set()
        await in_time(asyncio.shield(served.task))
        assert engine.active_sessions == 0
        items = await rest_of(served.outbox, "a")
        assert [type(item) for item in items] == [Attached, Chunk, Detached]
        [refused] = await rest_of(served.outbox, "late")
        assert isinstance(refused, Rejected) and "stopping" in refused.reason
        with pytest.raises(OutboxClosed):
            while True:
                served.outbox.get_nowait()


async def test_stop_that_is_set_before_the_start() -> None:
    engine, inbox, outbox, stop = ScriptedEngine(), Inbox(), Outbox(), asyncio.Event()
    stop.set()
    inbox.put_nowait(Attach("a"))
    await in_time(default_serve(engine, inbox, outbox, stop=stop))
    assert outbox.closed and engine.active_sessions == 0
    items = await rest_of(outbox, "a")
    assert type(items[-1]) in (Rejected, Detached)


async def test_every_waiter_gets_outbox_closed_at_the_end() -> None:
    async with running(ScriptedEngine()) as served:
        claimed = served.outbox.session("x")
        waiters = [asyncio.create_task(served.outbox.get()) for _ in range(3)]
        waiters.append(asyncio.create_task(claimed.get()))
        await asyncio.sleep(0)
        await served.end()
        results = await in_time(asyncio.gather(*waiters, return_exceptions=True))
        assert [type(result) for result in results] == [OutboxClosed] * 4


async def test_cancelling_waits_for_the_tick_without_blocking_the_event_loop() -> None:
    engine = GatedEngine()
    async with running(engine) as served:
        served.inbox.put_nowait(Attach("a"))
        await set_in_time(engine.entered)
        served.task.cancel()
        for _ in range(100):
            await asyncio.sleep(0)
        assert not served.task.done(), "the task ended with a step under way"
        engine.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await in_time(served.task)
        assert served.outbox.closed and engine.active_sessions == 0


async def test_a_second_cancel_does_not_wait_for_the_tick() -> None:
    engine = GatedEngine()
    async with running(engine) as served:
        served.inbox.put_nowait(Attach("a"))
        await set_in_time(engine.entered)
        served.task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        served.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await in_time(served.task)
        assert not engine.gate.is_set() and not served.outbox.closed
        engine.gate.set()
        with pytest.raises(OutboxClosed):  # the thread ends cleanly
            while True:
                await in_time(served.outbox.get())
        assert engine.active_sessions == 0


async def test_an_outbox_closed_by_its_reader_ends_the_task() -> None:
    engine = ScriptedEngine()
    async with running(engine, tick_interval_s=0.001) as served:
        for name in "abc":
            served.inbox.put_nowait(Attach(name))
        await in_time(served.outbox.get())
        served.outbox.close()
        await in_time(served.task)
    assert engine.active_sessions == 0


@pytest.mark.parametrize("error", [OSError("no device"), StopIteration("odd"), RuntimeError("x")], ids=repr)
async def test_a_manifest_that_raises_is_raised_with_the_outbox_closed(error: Exception) -> None:
    class Broken(ScriptedEngine):
        def manifest(self) -> EngineManifest:
            raise error

    outbox = Outbox()
    task = asyncio.create_task(default_serve(Broken(), Inbox(), outbox, stop=asyncio.Event()))
    done, _ = await asyncio.wait({task}, timeout=TIMEOUT_S)
    if not done:  # the first cancel waits for a thread that has ended already
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
    assert done, "default_serve hangs"
    assert isinstance(task.exception(), (type(error), RuntimeError))
    assert outbox.closed


async def test_an_async_manifest_is_refused() -> None:
    class Broken(ScriptedEngine):
        async def manifest(self) -> EngineManifest:  # type: ignore[override]
            return super().manifest()

    with pytest.raises(TypeError, match="async def"):
        await in_time(default_serve(Broken(), Inbox(), Outbox(), stop=asyncio.Event()))


async def test_the_loop_outlives_exceptions_of_every_hook() -> None:
    plan = FaultPlan(lambda hook, ids: SystemExit(1) if hook == "step" and "bad" in ids else None)
    async with running(FaultyEngine(ScriptedEngine(), plan), tick_interval_s=0.001) as served:
        served.inbox.put_nowait(Attach("bad"))
        served.inbox.put_nowait(Attach("good"))
        for _ in range(20):
            assert (await in_time(served.outbox.get())).session_id == "good"
        assert not served.task.done()


# -- run_engine


class OwnLoop(ScriptedEngine):
    """Level 2: serves itself."""

    def __init__(self) -> None:
        super().__init__()
        self.options: dict[str, Any] = {}

    async def serve(self, inbox: Inbox, outbox: Outbox, *, stop: asyncio.Event, **options: Any) -> None:
        self.options = options
        outbox.put_nowait(Chunk("a", "by myself"))
        await stop.wait()


async def test_run_engine_prefers_the_engines_own_serve_and_closes_the_outbox() -> None:
    engine = OwnLoop()
    async with running(engine, run_engine, tick_interval_s=0.5) as served:
        assert (await in_time(served.outbox.get())).output == "by myself"
        await served.end()
        assert served.outbox.closed
        assert engine.calls == [] and engine.options == {"tick_interval_s": 0.5}


class MonitoredLoop(OwnLoop):
    """Level 2, with the optional parameters."""

    async def serve(  # type: ignore[override]
        self,
        inbox: Inbox,
        outbox: Outbox,
        *,
        stop: asyncio.Event,
        monitor: ServeMonitor | None = None,
        max_chunks: int | None = None,
    ) -> None:
        await super().serve(inbox, outbox, stop=stop, monitor=monitor, max_chunks=max_chunks)


async def test_an_own_serve_gets_the_monitor_and_the_limit_that_it_accepts() -> None:
    engine, monitor = MonitoredLoop(), ServeMonitor()
    async with running(engine, run_engine, monitor=monitor, max_chunks=3) as served:
        await in_time(served.outbox.get())
        assert engine.options == {"monitor": monitor, "max_chunks": 3}


class PlainLoop(OwnLoop):
    """Level 2, with the required parameters only."""

    async def serve(self, inbox: Inbox, outbox: Outbox, *, stop: asyncio.Event) -> None:  # type: ignore[override]
        await super().serve(inbox, outbox, stop=stop)


async def test_an_own_serve_without_a_monitor_is_called_without_one() -> None:
    engine = PlainLoop()
    async with running(engine, run_engine, monitor=ServeMonitor()) as served:
        await in_time(served.outbox.get())
        assert engine.options == {}


async def test_a_limit_that_an_own_serve_cannot_keep_is_refused() -> None:
    outbox = Outbox()
    with pytest.raises(EngineContractError, match="PlainLoop.serve does not accept max_chunks"):
        await run_engine(PlainLoop(), Inbox(), outbox, stop=asyncio.Event(), max_chunks=3)
    assert outbox.closed


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_out_of_range_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="max_chunks must be 1 or more"):
        await run_engine(ScriptedEngine(), Inbox(), Outbox(), stop=asyncio.Event(), max_chunks=limit)


async def test_the_limit_finishes_a_session() -> None:
    async with running(ScriptedEngine(rate_hz=500), run_engine, max_chunks=2) as served:
        reader = served.outbox.session("a")
        served.inbox.put_nowait(Attach("a"))
        items = [await in_time(reader.get()) for _ in range(4)]
        assert [type(item) for item in items] == [Attached, Chunk, Chunk, Finished]


async def test_run_engine_closes_the_outbox_when_serve_raises_or_is_cancelled() -> None:
    class Broken(OwnLoop):
        async def serve(self, *args: Any, **options: Any) -> None:
            raise OSError("own loop")

    outbox = Outbox()
    with pytest.raises(OSError, match="own loop"):
        await run_engine(Broken(), Inbox(), outbox, stop=asyncio.Event())
    assert outbox.closed

    async with running(OwnLoop(), run_engine) as served:
        await in_time(served.outbox.get())
        served.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await in_time(served.task)
        assert served.outbox.closed


async def test_run_engine_falls_back_to_the_default_loop() -> None:
    engine = ScriptedEngine()
    engine.serve = None  # type: ignore[attr-defined]
    async with running(engine, run_engine, tick_interval_s=0.001) as served:
        served.inbox.put_nowait(Attach("a"))
        assert (await in_time(served.outbox.get())).session_id == "a"
    assert served.outbox.closed


class Unreadable:
    def __str__(self) -> str:
        raise ValueError("no text")


async def test_an_admission_error_whose_text_raises_is_a_rejection() -> None:
    class Picky(ScriptedEngine):
        def attach(self, init: SessionInit) -> None:
            if init.session_id == "b":
                raise AdmissionError(Unreadable())
            super().attach(init)

    inbox, outbox, stop = Inbox(), Outbox(), asyncio.Event()
    task = asyncio.create_task(default_serve(Picky(rate_hz=200), inbox, outbox, stop=stop))
    readers = {name: outbox.session(name) for name in "ab"}
    for name in "ab":
        inbox.put_nowait(Attach(name))
    assert isinstance(await asyncio.wait_for(readers["b"].get(), TIMEOUT_S), Rejected)
    assert isinstance(await asyncio.wait_for(readers["a"].get(), TIMEOUT_S), Attached)
    stop.set()
    await asyncio.wait_for(task, TIMEOUT_S)


@pytest.mark.parametrize("stop", [None, threading.Event(), True], ids=["none", "threading", "bool"])
async def test_a_stop_that_is_no_asyncio_event_is_refused_before_anything_runs(stop: Any) -> None:
    engine, outbox = ScriptedEngine(), Outbox()
    before = threading.active_count()
    with pytest.raises(TypeError, match="asyncio.Event"):
        await run_engine(engine, Inbox(), outbox, stop=stop)
    assert threading.active_count() == before
    assert outbox.closed


@pytest.mark.parametrize("options", [{"tick_interval_s": -1}, {"no_such": 1}], ids=str)
async def test_run_engine_closes_the_outbox_however_it_ends(options: dict[str, Any]) -> None:
    outbox = Outbox()
    with pytest.raises((ValueError, TypeError)):
        await run_engine(ScriptedEngine(), Inbox(), outbox, stop=asyncio.Event(), **options)
    assert outbox.closed


async def test_a_closed_outbox_is_refused() -> None:
    outbox = Outbox()
    outbox.close()
    with pytest.raises(ValueError, match="needs a new one"):
        await default_serve(ScriptedEngine(), Inbox(), outbox, stop=asyncio.Event())


async def test_a_serve_that_is_not_async_is_named() -> None:
    class Sync(ScriptedEngine):
        def serve(self, inbox: Inbox, outbox: Outbox, *, stop: asyncio.Event) -> None:
            """Runs, and returns nothing to wait for."""

    with pytest.raises(EngineContractError, match="Sync.serve must be async def"):
        await run_engine(Sync(), Inbox(), Outbox(), stop=asyncio.Event())


async def test_a_manifest_of_another_kind_is_named() -> None:
    class Odd(ScriptedEngine):
        def manifest(self) -> Any:
            return {"max_sessions": 1}

    with pytest.raises(EngineContractError, match="must return an EngineManifest"):
        await default_serve(Odd(), Inbox(), Outbox(), stop=asyncio.Event())


async def test_an_interval_of_centuries_is_accepted() -> None:
    engine, inbox, outbox, stop = ScriptedEngine(), Inbox(), Outbox(), asyncio.Event()
    task = asyncio.create_task(default_serve(engine, inbox, outbox, stop=stop, tick_interval_s=1e10))
    inbox.put_nowait(Attach("a"))
    chunk = await asyncio.wait_for(outbox.get(), TIMEOUT_S)
    assert chunk.seq == 0
    stop.set()
    await asyncio.wait_for(task, TIMEOUT_S)
