from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal, TypeVar

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
    EngineManifest,
    Failed,
    Finished,
    Inbox,
    InboxMsg,
    Outbox,
    RealtimeInterface,
    Rejected,
    Reset,
    ResetDone,
    SessionInit,
    SetActive,
)
from realtime_engine.core.errors import OutboxClosed, StepFailure
from realtime_engine.core.messages import SessionEvent
from realtime_engine.core.monitor import ServeMonitor
from realtime_engine.core.serve import run_engine
from realtime_engine.core.streaming import (
    ChunkRequest,
    LocalStageActor,
    StreamingEdgeSpec,
    StreamingEngine,
    StreamingStageInvocation,
    StreamingStageSpec,
    serving,
)
from realtime_engine.core.streaming import engine as engine_module
from realtime_engine.core.streaming.errors import StreamingActorFailedError
from realtime_engine.core.streaming.types import StreamingSessionStatus
from realtime_engine.testing import EngineCase, check_engine

from .counting import SPEC, CountingModel, Made, Turnstile, counting_engine
from .workers import TIMEOUT_S

Event = TypeVar("Event", bound=SessionEvent)


class Client:
    """The caller's side of one session."""

    def __init__(self, inbox: Inbox, outbox: Outbox, session_id: str) -> None:
        self.id = session_id
        self.items: list[Chunk | SessionEvent] = []
        self._inbox = inbox
        self._reader = outbox.session(session_id)

    def put(self, *messages: InboxMsg) -> None:
        for message in messages:
            self._inbox.put_nowait(message)

    async def next(self) -> Chunk | SessionEvent:
        self.items.append(await asyncio.wait_for(self._reader.get(), TIMEOUT_S))
        return self.items[-1]

    async def chunk(self) -> Chunk:
        """The next item, which has to be a chunk."""
        item = await self.next()
        assert isinstance(item, Chunk), item
        return item

    async def chunks(self, count: int) -> list[Chunk]:
        return [await self.chunk() for _ in range(count)]

    async def event(self, kind: type[Event]) -> Event:
        """The next event, which has to be of this kind; chunks before it are kept in ``items``."""
        while isinstance(item := await self.next(), Chunk):
            continue
        assert isinstance(item, kind), item
        return item

    async def chunk_with(self, action_id: object) -> Chunk:
        while (chunk := await self.chunk()).action_id != action_id:
            continue
        return chunk


class Harness:
    """An engine being served."""

    def __init__(self, engine: StreamingEngine, maxsize: int = 0, **options: Any) -> None:
        self.engine = engine
        self.inbox, self.outbox, self.stop = Inbox(), Outbox(maxsize), asyncio.Event()
        self.serving = asyncio.create_task(run_engine(engine, self.inbox, self.outbox, stop=self.stop, **options))

    def client(self, session_id: str) -> Client:
        return Client(self.inbox, self.outbox, session_id)

    async def join(self, session_id: str, **context: object) -> Client:
        client = self.client(session_id)
        client.put(Attach(session_id, {"seed": 1, **context}))
        await client.event(Attached)
        return client

    async def end(self) -> None:
        self.stop.set()
        await asyncio.wait_for(self.serving, TIMEOUT_S)


@asynccontextmanager
async def served(
    model: CountingModel, monitor: ServeMonitor | None = None, max_chunks: int | None = None, **options: Any
) -> AsyncIterator[Harness]:
    harness = Harness(counting_engine(model, **options), monitor=monitor, max_chunks=max_chunks)
    try:
        yield harness
    finally:
        await harness.end()
    counts = harness.engine.pipeline.diagnostics()
    assert counts.slot_leaks == counts.cleanup_failures == counts.duplicate_results == 0


@pytest.fixture
def model() -> CountingModel:
    return CountingModel()


@pytest.fixture
def gate(model: CountingModel) -> Iterator[Turnstile]:
    """Holds the second stage for session a."""
    turnstile = model.before_act = Turnstile("a")
    yield turnstile
    turnstile.open()


# -- chunks


async def test_chunks_come_in_order_with_their_identity(model: CountingModel) -> None:
    async with served(model) as harness:
        client = await harness.join("a", seed=7)
        chunks = await client.chunks(20)
    assert [chunk.seq for chunk in chunks] == [chunk.output.sequence_id for chunk in chunks] == list(range(20))
    assert {(chunk.epoch, chunk.action_id, chunk.output.seed) for chunk in chunks} == {(1, None, 7)}
    for chunk in chunks:
        stamps = chunk.stamps
        assert stamps.action_received is None
        assert 0 < stamps.step_begin <= stamps.step_end <= stamps.emitted


async def test_sessions_do_not_mix(model: CountingModel) -> None:
    async with served(model) as harness:
        clients = [await harness.join(name, seed=number) for number, name in enumerate("abcd")]
        for number, client in enumerate(clients):
            client.put(Action(client.id, {"move": number}, action_id="set"))
        for number, client in enumerate(clients):
            first = await client.chunk_with("set")
            later = await client.chunks(5)
            assert [chunk.output.total - first.output.total for chunk in later] == [number * k for k in range(1, 6)]
            assert {(chunk.output.session_id, chunk.output.seed) for chunk in later} == {(client.id, number)}


async def test_stages_overlap(model: CountingModel, gate: Turnstile) -> None:
    async with served(model) as harness:
        client = await harness.join("a")
        await gate.await_entry()
        for _ in range(2):
            await model.await_plan()  # of the chunk that is held in the second stage, and of the next
        gate.open()
        await client.chunks(3)


# -- actions


async def test_a_control_reaches_the_chunk_that_begins_next(model: CountingModel, gate: Turnstile) -> None:
    """At full load, with every place in the pipeline taken, the age of a control is at most one chunk."""
    async with served(model) as harness:
        client = await harness.join("a")
        await gate.await_entry()
        for _ in range(2):
            await model.await_plan()  # all places before it are taken
        for number in range(1, 20):
            client.put(Action("a", {"move": number}, action_id=number), SetActive("a", True))
            await client.event(ActiveChanged)  # the action before it is applied
            gate.let_pass()
            await gate.await_entry()
            chunk = await client.chunk()
            assert (chunk.output.move, chunk.action_id) == (number - 1, number - 1 or None)
        gate.open()
        chunk = await client.chunk()
        assert (chunk.output.move, chunk.action_id) == (19, 19)


async def test_every_event_is_in_exactly_one_chunk_in_order(model: CountingModel) -> None:
    async with served(model) as harness:
        client = await harness.join("a")
        sent = 0
        for burst in range(60):
            events = list(range(sent, sent + burst % 4))
            sent += len(events)
            client.put(Action("a", {"move": 1}, events, action_id=burst))
            if burst % 3 == 0:
                await client.chunk()
        await client.chunk_with(59)
    seen = [event for item in client.items if isinstance(item, Chunk) for event in item.output.events]
    assert seen == list(range(sent))


async def test_events_stay_with_the_controls_of_their_action(model: CountingModel, gate: Turnstile) -> None:
    async with served(model) as harness:
        client = await harness.join("a")
        await gate.await_entry()  # the control is sampled, the events are not read
        client.put(Action("a", {"move": 1}, ["tap"], action_id=1), SetActive("a", True))
        await client.event(ActiveChanged)  # the action is applied
        gate.open()
        first, second = await client.chunks(2)
        assert (first.output.move, first.output.events, first.action_id) == (0, (), None)
        assert (second.output.move, second.output.events, second.action_id) == (1, ("tap",), 1)


class TwoControls:
    """Two stages, each with a control of its own. A chunk is (prompt, move, events)."""

    def __init__(self) -> None:
        self.gate = Turnstile("a")

    def plan(self, work: StreamingStageInvocation) -> Mapping[str, object]:
        self.gate(work)
        return {"plan": work.inputs["prompt"]}

    def act(self, work: StreamingStageInvocation) -> Mapping[str, object]:
        request = work.inputs["request"]
        assert isinstance(request, ChunkRequest)
        return {"chunk": (work.inputs["plan"], work.inputs["move"], request.events)}

    def engine(self) -> StreamingEngine:
        stages = (
            StreamingStageSpec("plan", frozenset({"request", "prompt"}), frozenset({"plan"})),
            StreamingStageSpec("act", frozenset({"request", "plan", "move"}), frozenset({"chunk"})),
        )
        edges = [edge for edge in SPEC.edges if edge.kind != "latest"]
        edges += [StreamingEdgeSpec("prompt", "plan", kind="latest"), StreamingEdgeSpec("move", "act", kind="latest")]
        actors = {"plan": LocalStageActor(self.plan, name="plan"), "act": LocalStageActor(self.act, name="act")}
        spec = replace(SPEC, stages=stages, edges=tuple(edges))
        return StreamingEngine(spec, actors, EngineManifest(1, rate_hz=1000.0), controls=dict)


async def act_while_planning(*actions: Action) -> list[tuple[object, object]]:
    """The outputs and actions of a chunk whose first stage has begun before these actions, and of the next one."""
    model = TwoControls()
    harness = Harness(model.engine())
    try:
        client = await harness.join("a")
        client.put(Action("a", {"prompt": "ice", "move": 0}, action_id=0), SetActive("a", True))
        await client.event(ActiveChanged)
        while True:  # the chunks that have begun before the first action
            await model.gate.await_entry()
            model.gate.let_pass()
            if (await client.chunk()).action_id == 0:
                break
        await model.gate.await_entry()
        client.put(*actions, SetActive("a", True))
        await client.event(ActiveChanged)
        model.gate.open()
        return [(chunk.output, chunk.action_id) for chunk in await client.chunks(2)]
    finally:
        model.gate.open()
        await harness.end()


async def test_an_action_that_changes_controls_of_two_stages_is_in_a_chunk_as_a_whole() -> None:
    first, second = await act_while_planning(Action("a", {"prompt": "lava", "move": 1}, ["tap"], action_id=1))
    assert first == (("ice", 0, ()), 0)
    assert second == (("lava", 1, ("tap",)), 1)


async def test_actions_after_one_that_a_chunk_does_not_see_are_in_later_chunks() -> None:
    first, second = await act_while_planning(
        Action("a", {"prompt": "lava", "move": 0}, action_id=1), Action("a", {"prompt": "lava", "move": 2}, action_id=2)
    )
    assert first == (("ice", 0, ()), 0)
    assert second == (("lava", 2, ()), 2)


async def test_an_action_that_a_later_stage_alone_reads_is_in_the_chunk_that_has_begun() -> None:
    first, _ = await act_while_planning(Action("a", {"prompt": "ice", "move": 3}, ["tap"], action_id=1))
    assert first == (("ice", 3, ("tap",)), 1)


async def test_conditioning_persists_and_is_replaced_whole(model: CountingModel) -> None:
    async with served(model) as harness:
        client = await harness.join("a")
        client.put(Action("a", {"move": 3}, action_id=1))
        first = await client.chunk_with(1)
        assert {chunk.output.move for chunk in [first, *await client.chunks(3)]} == {3}
        client.put(Action("a", {"other": 1}, action_id=2))
        assert (await client.chunk_with(2)).output.move == 0


async def test_an_action_that_changes_nothing_is_shown_too(model: CountingModel) -> None:
    async with served(model) as harness:
        client = await harness.join("a")
        for number in range(5):
            client.put(Action("a", {"move": 1}, action_id=number))
            chunk = await client.chunk_with(number)
            assert chunk.stamps.action_received is not None
            assert chunk.stamps.action_received <= chunk.stamps.step_begin


async def test_messages_to_unknown_sessions_are_rejected(model: CountingModel) -> None:
    async with served(model) as harness:
        client = harness.client("unknown")
        client.put(Action("unknown"), SetActive("unknown", True), Reset("unknown"), Detach("unknown"))
        reasons = [(await client.event(Rejected)).reason for _ in range(3)]
        assert all("not attached" in reason for reason in reasons)
        assert (await client.event(Detached)).epoch == 0


# -- sessions


async def test_attach_twice_is_one_session(model: CountingModel) -> None:
    async with served(model) as harness:
        client = await harness.join("a", seed=5)
        client.put(Attach("a", {"seed": 6}))
        assert (await client.event(Attached)).epoch == 1
        assert (await client.chunk()).output.seed == 5


async def test_places_are_counted_and_given_back(model: CountingModel) -> None:
    async with served(model, max_sessions=2) as harness:
        first, _ = await harness.join("a"), await harness.join("b")
        third = harness.client("c")
        third.put(Attach("c", {"seed": 1}))
        assert (await third.event(Rejected)).reason == "all 2 places are taken"
        first.put(Detach("a"))
        await first.event(Detached)
        third.put(Attach("c", {"seed": 1}))
        assert (await third.event(Attached)).epoch == 1
        await third.chunks(2)


async def test_an_id_that_is_attached_again_continues_counting(model: CountingModel) -> None:
    async with served(model) as harness:
        client = await harness.join("a")
        for epoch in range(1, 6):
            await client.chunks(2)
            client.put(Detach("a"), Attach("a", {"seed": epoch}))
            assert (await client.event(Detached)).epoch == epoch
            assert (await client.event(Attached)).epoch == epoch + 1
            assert (await client.chunk()).output.seed == epoch
    chunks = [item for item in client.items if isinstance(item, Chunk)]
    assert [chunk.seq for chunk in chunks] == list(range(len(chunks)))


async def test_reset_begins_a_new_epoch_and_nothing_of_the_old_one_follows(model: CountingModel) -> None:
    async with served(model) as harness:
        client = await harness.join("a", seed=0)
        client.put(Action("a", {"move": 5}, events=["stale"], action_id="old"))
        for reset in range(1, 40):
            for _ in range(reset % 3):
                await client.next()
            client.put(Reset("a", {"seed": reset}))
            done = await client.event(ResetDone)
            assert done.epoch == reset + 1
            chunk = await client.chunk()
            assert chunk.epoch == reset + 1
            made = chunk.output
            assert (made.seed, made.sequence_id, made.total, made.events, chunk.action_id) == (reset, 0, 0, (), None)
        client.put(Reset("a"))  # an empty context is the last one
        await client.event(ResetDone)
        assert (await client.chunk()).output.seed == 39
    epochs = [item.epoch for item in client.items]
    assert epochs == sorted(epochs)
    chunks = [item for item in client.items if isinstance(item, Chunk)]
    assert [chunk.seq for chunk in chunks] == list(range(len(chunks)))
    assert sorted(model.closed) == sorted((stage, "a", epoch) for stage in ("plan", "act") for epoch in range(1, 42))
    assert model.seeds == model.totals == {}


async def test_a_reset_does_not_wait_for_other_sessions(model: CountingModel, gate: Turnstile) -> None:
    async with served(model) as harness:
        held, free = await harness.join("a"), await harness.join("b")
        await gate.await_entry()
        held.put(Reset("a", {"seed": 2}), Action("a", {"move": 1}, action_id="after"))
        gate.open()
        await held.event(ResetDone)
        assert (await held.chunk_with("after")).epoch == 2
        free.put(Reset("b"))
        await free.event(ResetDone)


# -- pause


async def test_a_paused_session_is_quiet_and_goes_on_where_it_was(model: CountingModel) -> None:
    async with served(model) as harness:
        client, other = await harness.join("a"), await harness.join("b")
        for _ in range(10):
            await client.chunk()
            client.put(SetActive("a", False))
            assert (await client.event(ActiveChanged)).active is False
            await other.chunks(5)
            client.put(SetActive("a", True))
            assert (await client.next()) == ActiveChanged("a", True, epoch=1)
    sequences = [item.output.sequence_id for item in client.items if isinstance(item, Chunk)]
    assert sequences == list(range(len(sequences)))


async def test_a_pause_is_answered_when_the_chunks_in_flight_are_out(model: CountingModel, gate: Turnstile) -> None:
    async with served(model) as harness:
        client = await harness.join("a")
        await gate.await_entry()
        client.put(SetActive("a", False), SetActive("a", True), SetActive("a", False), Detach("a"))
        answers = []
        gate.open()
        while not isinstance(item := await client.next(), Detached):
            answers.append(item)
    assert [item.active for item in answers if isinstance(item, ActiveChanged)] == [False, True, False]


async def test_of_two_pauses_neither_is_answered_before_the_chunks_in_flight(
    model: CountingModel, gate: Turnstile
) -> None:
    async with served(model) as harness:
        client = await harness.join("a")
        await gate.await_entry()
        client.put(SetActive("a", False), SetActive("a", False), Attach("a"))
        other_client = await harness.join("b")  # by then they have been applied
        gate.open()
        while not isinstance(await client.next(), Attached):
            continue
        *chunks, first, second, _ = client.items[1:]
        assert chunks and all(isinstance(item, Chunk) for item in chunks)
        assert first == second == ActiveChanged("a", False, epoch=1)
        assert other_client.items[0] == Attached("b", epoch=1)


async def test_a_reset_keeps_the_pause(model: CountingModel) -> None:
    async with served(model) as harness:
        client = await harness.join("a")
        client.put(SetActive("a", False))
        await client.event(ActiveChanged)
        client.put(Reset("a", {"seed": 9}), SetActive("a", True))
        assert isinstance(await client.next(), ResetDone)
        assert isinstance(await client.next(), ActiveChanged)
        assert (await client.chunk()).output.seed == 9


# -- failures


def failing_at(sequence_id: int, error: BaseException, times: int = 1) -> Callable[[Any], None]:
    """Fails session a at this sequence of its rollout, so many times."""
    left = [times]

    def fail(work: Any) -> None:
        if work.key.session_id == "a" and work.key.sequence_id == sequence_id and left[0]:
            left[0] -= 1
            raise error

    return fail


async def test_a_session_that_fails_starts_again_from_its_seed_and_others_go_on(model: CountingModel) -> None:
    model.before_act = failing_at(3, ValueError("too wet"))
    async with served(model) as harness:
        client, other = await harness.join("a", seed=7), await harness.join("b", seed=8)
        for one in (client, other):
            one.put(Action(one.id, {"move": 2}, action_id="set"))
        assert await client.event(Failed) == Failed("a", "ValueError: too wet", epoch=1)
        before = [item for item in client.items if isinstance(item, Chunk)]
        after = await client.chunks(5)
        assert [chunk.seq for chunk in before + after] == list(range(8))
        assert [chunk.output.sequence_id for chunk in after] == list(range(5))
        assert {(chunk.epoch, chunk.output.seed, chunk.action_id) for chunk in after} == {(1, 7, "set")}
        assert [chunk.output.total for chunk in after] == [2, 4, 6, 8, 10]
        seen = [item.output for item in other.items if isinstance(item, Chunk)]
        seen += [chunk.output for chunk in await other.chunks(20)]
        assert [made.sequence_id for made in seen] == list(range(len(seen)))
        assert all(made.seed == 8 for made in seen)


async def test_events_that_no_chunk_has_shown_survive_a_failure(model: CountingModel, gate: Turnstile) -> None:
    fail = failing_at(0, ValueError("too wet"))

    def hold_and_fail(work: Any) -> None:
        gate(work)
        fail(work)

    model.before_act = hold_and_fail
    async with served(model) as harness:
        client = await harness.join("a")
        await gate.await_entry()
        client.put(Action("a", {"move": 1}, ["tap"]), SetActive("a", True))
        await client.event(ActiveChanged)  # the action is applied
        gate.open()
        await client.event(Failed)
        assert (await client.chunk()).output.events == ("tap",)


async def test_ten_failures_in_a_row_detach_a_session(model: CountingModel) -> None:
    model.before_act = failing_at(0, ValueError("too wet"), times=10)
    monitor = ServeMonitor()
    async with served(model, monitor=monitor) as harness:
        client, other = await harness.join("a"), await harness.join("b")
        failures = [await client.event(Failed) for _ in range(10)]
        assert [failed.fatal for failed in failures] == [False] * 9 + [True]
        assert {(failed.error, failed.epoch) for failed in failures} == {("ValueError: too wet", 1)}
        assert not any(isinstance(item, Chunk) for item in client.items)
        assert monitor.failed == 10
        await other.chunks(5)
        client.put(Attach("a", {"seed": 1}))
        assert (await client.event(Attached)).epoch == 2
        assert [chunk.seq for chunk in await client.chunks(3)] == [0, 1, 2]
    assert sorted(model.closed) == sorted(set(model.closed))


async def test_a_chunk_between_two_failures_starts_the_count_again(model: CountingModel) -> None:
    model.before_act = failing_at(1, ValueError("too wet"), times=25)
    async with served(model) as harness:
        client = await harness.join("a")
        for _ in range(25):
            assert not (await client.event(Failed)).fatal
        await client.chunks(5)


async def test_messages_during_a_restart_are_applied_after_it(model: CountingModel, gate: Turnstile) -> None:
    fail = failing_at(1, ValueError("too wet"))
    model.before_act = fail
    async with served(model) as harness:
        client = await harness.join("a")
        failed = await client.event(Failed)
        client.put(Action("a", {"move": 3}, action_id="new"), SetActive("a", False))
        assert failed.epoch == (await client.event(ActiveChanged)).epoch == 1
        client.put(Reset("a", {"seed": 5}), SetActive("a", True))
        assert (await client.event(ResetDone)).epoch == 2
        await client.event(ActiveChanged)
        assert (await client.chunk()).output.seed == 5


INTERRUPTS = [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit(), StopAsyncIteration()]


@pytest.mark.parametrize("interrupt", INTERRUPTS, ids=repr)
async def test_a_stage_that_raises_an_interrupt_fails_its_session_only(
    model: CountingModel, interrupt: BaseException
) -> None:
    model.before_act = failing_at(1, interrupt)
    async with served(model) as harness:
        client, other = await harness.join("a"), await harness.join("b")
        failed = await client.event(Failed)
        assert not failed.fatal and failed.error.startswith(
            f"StageInterruptError: stage 'act' raised {type(interrupt).__name__}"
        )
        await other.chunks(3)
        await client.chunks(3)


@pytest.mark.parametrize("hook", ["inputs", "controls"])
async def test_a_mapping_that_raises_system_exit_fails_its_session_only(model: CountingModel, hook: str) -> None:
    def leave(given: object) -> Any:
        if hook == "inputs" or given:
            raise SystemExit(3)
        return {"control": given}

    actors = {"plan": LocalStageActor(model.plan), "act": LocalStageActor(model.act)}
    harness = Harness(StreamingEngine(SPEC, actors, EngineManifest(1), **{hook: leave}))
    client = await harness.join("a")
    if hook == "controls":
        client.put(Action("a", {"move": 1}))
    assert "SystemExit" in (await client.event(Failed)).error
    await harness.end()


async def test_a_context_that_the_model_does_not_take_ends_the_session(model: CountingModel) -> None:
    async with served(model) as harness:
        client = harness.client("a")
        client.put(Attach("a", {}))
        await client.event(Attached)
        while not (failed := await client.event(Failed)).fatal:
            assert failed.error == "KeyError: 'seed'"
        assert failed.error == "KeyError: 'seed'" and len(client.items) == 11


async def test_a_mapping_to_inputs_that_raises_skips_chunks_and_ends_the_session_after_ten(
    model: CountingModel,
) -> None:
    broken = 3

    def inputs(request: Any) -> Any:
        nonlocal broken
        if broken:
            broken -= 1
            raise LookupError("not mapped")
        return {"request": request}

    actors = {"plan": LocalStageActor(model.plan), "act": LocalStageActor(model.act)}
    harness = Harness(StreamingEngine(SPEC, actors, EngineManifest(1, rate_hz=1000.0), inputs=inputs))
    client = await harness.join("a")
    assert [await client.event(Failed) for _ in range(3)] == 3 * [Failed("a", "LookupError: not mapped", epoch=1)]
    assert [chunk.output.sequence_id for chunk in await client.chunks(3)] == [0, 1, 2]
    broken = 100
    while not (await client.event(Failed)).fatal:
        continue  # a chunk in flight may still come out after the first failures
    assert all(isinstance(item, Failed) for item in client.items[-10:])
    assert not isinstance(client.items[-11], Failed)
    await harness.end()


async def test_an_action_that_the_mapping_to_controls_refuses_changes_nothing(model: CountingModel) -> None:
    def controls(conditioning: Any) -> Any:
        if conditioning.get("move") == 13:
            raise LookupError("not mapped")
        return {"unknown": 0} if conditioning.get("move") == 14 else {"control": conditioning}

    actors = {"plan": LocalStageActor(model.plan), "act": LocalStageActor(model.act)}
    harness = Harness(StreamingEngine(SPEC, actors, EngineManifest(1, rate_hz=1000.0), controls=controls))
    client = await harness.join("a")
    client.put(Action("a", {"move": 2}, action_id="good"))
    await client.chunk_with("good")
    client.put(Action("a", {"move": 13}, ["tap"], action_id="bad"), Action("a", {"move": 14}, action_id="bad"))
    assert await client.event(Failed) == Failed("a", "LookupError: not mapped", epoch=1)
    assert "gives 'unknown', expected ['control']" in (await client.event(Failed)).error
    chunks = await client.chunks(3)
    assert {(chunk.output.move, chunk.output.events, chunk.action_id) for chunk in chunks} == {(2, (), "good")}
    await harness.end()


async def test_inputs_that_are_not_all_inputs_are_refused(model: CountingModel) -> None:
    actors = {"plan": LocalStageActor(model.plan), "act": LocalStageActor(model.act)}
    harness = Harness(StreamingEngine(SPEC, actors, EngineManifest(1), inputs=lambda request: {"wish": request}))
    client = await harness.join("a")
    assert "must give ['request'], got ['wish']" in (await client.event(Failed)).error
    await harness.end()


async def test_a_session_that_cannot_begin_leaves_nothing(model: CountingModel) -> None:
    broken = True

    def controls(conditioning: Any) -> Any:
        if broken:
            raise LookupError("not mapped")
        return {"control": conditioning}

    actors = {"plan": LocalStageActor(model.plan), "act": LocalStageActor(model.act)}
    harness = Harness(StreamingEngine(SPEC, actors, EngineManifest(1), controls=controls))
    client = harness.client("a")
    client.put(Attach("a", {"seed": 1}))
    assert (await client.event(Rejected)).reason == "LookupError: not mapped"
    assert harness.engine.pipeline.health().session_count == 0
    broken = False
    client.put(Attach("a", {"seed": 1}))
    assert (await client.event(Attached)).epoch == 1
    await client.chunk()
    await harness.end()


async def test_a_session_that_cannot_begin_does_not_wait_for_a_busy_stage(
    model: CountingModel, gate: Turnstile
) -> None:
    broken = False

    def controls(conditioning: Any) -> Any:
        if broken:
            raise LookupError("not mapped")
        return {"control": conditioning}

    async with served(model, controls=controls) as harness:
        await harness.join("a")
        await gate.await_entry()
        broken = True
        client = harness.client("b")
        client.put(Attach("b", {"seed": 1}))
        assert (await client.event(Rejected)).reason == "LookupError: not mapped"
        assert harness.engine.pipeline.health().session_count == 1
        broken = False
        gate.open()


async def test_a_dead_stage_fails_its_sessions_at_once_and_takes_no_more(model: CountingModel) -> None:
    def die(work: Any) -> None:
        if work.key.session_id == "a":
            raise StreamingActorFailedError("the device is lost")

    async with served(model) as harness:
        client, paused = await harness.join("a"), await harness.join("b")
        paused.put(SetActive("b", False))
        await paused.event(ActiveChanged)
        await client.chunk()
        model.before_act = die
        for one in (client, paused):
            failed = await one.event(Failed)
            assert "the device is lost" in failed.error and not failed.fatal
            failed = await one.event(Failed)
            assert "give a factory of actors to have it restarted" in failed.error and failed.fatal
        client.put(Attach("a", {"seed": 1}))
        rejected = await client.event(Rejected)
        assert "the device is lost" in rejected.reason and rejected.epoch == 1


async def test_a_stage_with_a_factory_is_restarted_for_the_sessions_that_it_had(model: CountingModel) -> None:
    def die(work: Any) -> None:
        model.before_act = lambda work: None
        model.seeds, model.totals = {}, {}
        raise StreamingActorFailedError("the device is lost")

    actors: dict[str, Any] = {"plan": LocalStageActor(model.plan), "act": lambda: LocalStageActor(model.act)}
    harness = Harness(StreamingEngine(SPEC, actors, EngineManifest(1, rate_hz=1000.0)))
    client = await harness.join("a", seed=4)
    await client.chunk()
    model.before_act = die
    failed = await client.event(Failed)
    assert "the device is lost" in failed.error and not failed.fatal
    assert (await client.chunk()).output.seed == 4
    await harness.end()


async def test_a_stuck_stage_blocks_only_its_own_session(
    model: CountingModel, gate: Turnstile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_RELEASE_TIMEOUT_S", 0.02)
    async with served(model, max_sessions=1) as harness:
        client = await harness.join("a")
        await gate.await_entry()
        client.put(Detach("a"), Attach("b", {"seed": 1}))
        assert "not released" in (await client.event(Failed)).error
        other_client = harness.client("b")
        other_client.put(Attach("b", {"seed": 1}))
        assert (await other_client.event(Rejected)).reason == "all 1 places are taken"
        gate.open()
        while not isinstance(item := await other_client.next(), Attached):
            other_client.put(Attach("b", {"seed": 1}))
        assert item.epoch == 1


async def test_stuck_sessions_do_not_block_others(
    model: CountingModel, gate: Turnstile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_RELEASE_TIMEOUT_S", 3 * TIMEOUT_S)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    async with served(model, max_sessions=9) as harness:
        first = await harness.join("a")
        await gate.await_entry()
        others = [await harness.join(f"b{number}") for number in range(7)]
        first.put(Detach("a"))
        for other in others:
            other.put(Detach(other.id))  # behind the one that holds the stage
        while harness.engine.pipeline.status("a") is StreamingSessionStatus.RUNNING:  # noqa: ASYNC110 (no event for it)
            await asyncio.sleep(0)
        other_client = harness.client("c")
        other_client.put(Attach("c", {"seed": 1}))
        assert isinstance(await other_client.next(), Attached)
        gate.open()


# -- rollouts that end


def ending_at(sequence_id: int) -> Callable[[Any], bool]:
    return lambda work: work.key.session_id == "a" and work.key.sequence_id == sequence_id


async def test_a_last_output_finishes_the_session_until_its_reset(model: CountingModel) -> None:
    model.is_last = ending_at(3)
    async with served(model) as harness:
        client, other = await harness.join("a"), await harness.join("b")
        assert await client.event(Finished) == Finished("a", epoch=1)
        assert [item.seq for item in client.items if isinstance(item, Chunk)] == [0, 1, 2, 3]
        client.put(SetActive("a", False), SetActive("a", True), Action("a", {"move": 1}))
        assert [(await client.event(ActiveChanged)).active for _ in range(2)] == [False, True]
        await other.chunks(20)
        client.put(Reset("a", {"seed": 6}))
        assert await client.next() == ResetDone("a", epoch=2)
        assert [(chunk.seq, chunk.output.seed) for chunk in await client.chunks(4)] == [(n, 6) for n in range(4, 8)]
        assert await client.next() == Finished("a", epoch=2)
        client.put(Detach("a"))
        assert await client.next() == Detached("a", epoch=2)


async def test_failing_actions_after_the_end_count_and_do_not_finish_again(model: CountingModel) -> None:
    def controls(conditioning: Any) -> Any:
        if "bad" in conditioning:
            raise ValueError("no such move")
        return {"control": conditioning}

    model.is_last = ending_at(3)
    async with served(model, controls=controls) as harness:
        client = await harness.join("a")
        await client.event(Finished)
        client.put(*(Action("a", {"bad": number}) for number in range(15)))
        failed = [await client.next() for _ in range(10)]
        assert [(type(event), getattr(event, "fatal", None)) for event in failed] == [
            *[(Failed, False)] * 9,
            (Failed, True),
        ]


async def test_a_limit_of_chunks_finishes_each_epoch(model: CountingModel) -> None:
    async with served(model, max_chunks=3) as harness:
        client = await harness.join("a")
        for epoch in (1, 2):
            chunks = await client.chunks(3)
            assert [chunk.output.sequence_id for chunk in chunks] == [0, 1, 2]
            assert await client.next() == Finished("a", epoch=epoch)
            client.put(Reset("a"))
            await client.event(ResetDone)


async def test_chunks_before_a_failure_count_for_the_limit(model: CountingModel) -> None:
    model.before_act = failing_at(2, ValueError("too wet"))
    async with served(model, max_chunks=5) as harness:
        client = await harness.join("a")
        await client.event(Failed)
        assert [chunk.seq for chunk in await client.chunks(3)] == [2, 3, 4]
        assert await client.next() == Finished("a", epoch=1)


# -- detach


@pytest.mark.parametrize("policy", ["drain", "cancel"])
async def test_a_detach_drains_or_cancels_the_chunks_in_flight(
    model: CountingModel, gate: Turnstile, policy: Literal["drain", "cancel"]
) -> None:
    async with served(model, on_detach=policy) as harness:
        client = await harness.join("a")
        await gate.await_entry()
        for _ in range(2):
            await model.await_plan()  # of the chunk that is held in the second stage, and of the next
        client.put(Detach("a"))
        other_client = await harness.join("b")  # by then it is applied
        gate.open()
        assert (await client.event(Detached)).epoch == 1
        chunks = [item for item in client.items if isinstance(item, Chunk)]
        assert len(chunks) >= 2 if policy == "drain" else chunks == []
        await other_client.chunks(3)
    assert model.seeds == model.totals == {}


async def test_a_drain_that_takes_too_long_becomes_a_cancel(
    model: CountingModel, gate: Turnstile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_DRAIN_TIMEOUT_S", 0.02)
    async with served(model, on_detach="drain") as harness:
        client = await harness.join("a")
        await gate.await_entry()
        client.put(Detach("a"))
        while harness.engine.pipeline.status("a") is StreamingSessionStatus.RUNNING:  # noqa: ASYNC110 (no event for it)
            await asyncio.sleep(0)
        gate.open()
        assert await client.event(Detached) == Detached("a", epoch=1)
        assert not any(isinstance(item, Chunk) for item in client.items)


# -- the monitor


async def test_the_monitor_counts_what_a_stage_graph_does(model: CountingModel) -> None:
    model.before_act = failing_at(4, ValueError("too wet"))
    monitor = ServeMonitor()
    async with served(model, monitor=monitor) as harness:
        client, other_client = await harness.join("a"), harness.client("unknown")
        client.put(Action("a", {"move": 1}, action_id=1))
        await client.event(Failed)
        other_client.put(Reset("unknown"))
        await other_client.event(Rejected)
        await client.chunks(10)
        client.put(SetActive("a", False))
        await client.event(ActiveChanged)  # nothing is in flight
        now = monitor.snapshot()
        assert now.chunks >= 14 and now.ticks >= now.chunks and now.steps >= 2 * now.chunks
        assert (now.failed, now.rejected) == (1, 1)
        assert now.step.count == now.chunks and now.step.max_ns > 0
        assert now.input_to_step.count == 1
        assert now.pipeline is not None and list(now.pipeline.stages) == ["plan", "act"]
        assert now.pipeline.stages["act"].failed == 1 and now.pipeline.stages["plan"].failed == 0
        for stage in now.pipeline.stages.values():
            assert stage.admitted >= stage.completed >= 14
            assert stage.run.count == stage.mailbox.count == stage.queue.count == stage.completed
            assert stage.in_flight == stage.waiting == 0
            assert sum(total.intervals for total in stage.idle.values()) >= 10
        assert now.pipeline.first_output.count == 2  # of the rollout that failed, and of the next
        assert now.pipeline.chunk_period.count >= 12
        assert now.pipeline.control_to_output.count >= 1
        assert now.pipeline.real_time_factor is not None and now.pipeline.real_time_factor > 0


async def test_the_monitor_has_figures_of_one_session(model: CountingModel, gate: Turnstile) -> None:
    monitor = ServeMonitor()
    async with served(model, monitor=monitor) as harness:
        client = await harness.join("a")
        assert monitor.pipeline is not None
        await gate.await_entry()
        now = monitor.pipeline.session_snapshot("a")
        assert now is not None and now.stages["act"].in_flight == 1 and now.stages["act"].completed == 0
        assert now.real_time_factor is None
        gate.open()
        await client.chunks(5)
        client.put(Reset("a"))
        await client.event(ResetDone)
        chunks = await client.chunks(6)
        now = monitor.pipeline.session_snapshot("a")
        assert now is not None and now.stages["plan"].completed >= 6 and now.first_output.count == 1
        spans = monitor.pipeline.session_spans("a", 0)
        assert {span.stage for span in spans} == {"plan", "act"} and {span.epoch for span in spans} == {2}
        for chunk in chunks:
            (act,) = [span for span in spans if (span.stage, span.seq) == ("act", chunk.seq)]
            assert act.admitted_ns is not None and act.begun_ns is not None and act.completed_ns is not None
            assert act.ready_ns <= act.admitted_ns <= act.begun_ns <= act.completed_ns <= chunk.stamps.emitted
        newest = max(span.ready_ns for span in spans)
        assert {span.ready_ns for span in monitor.pipeline.session_spans("a", newest)} == {newest}
        client.put(Detach("a"))
        await client.event(Detached)
        assert monitor.pipeline.session_snapshot("a") is None
        assert monitor.pipeline.session_spans("a", 0) == ()


async def test_deadlines_that_a_slow_stage_misses_are_overruns(model: CountingModel, gate: Turnstile) -> None:
    monitor = ServeMonitor()
    async with served(model, monitor=monitor) as harness:
        client = await harness.join("a")
        for _ in range(10):
            await gate.await_entry()
            await asyncio.sleep(0.005)  # five periods of the session
            gate.let_pass()
        await client.chunks(8)
        gate.open()
        now = monitor.snapshot()
        assert now.overruns > 0.05 * now.ticks  # as the alert DeadlinesMissed asks


# -- the end


async def test_stop_answers_everybody(model: CountingModel) -> None:
    harness = Harness(counting_engine(model))
    clients = [await harness.join(name) for name in "ab"]
    late = harness.client("late")
    harness.stop.set()
    late.put(Attach("late", {}), Action("a", {"move": 1}))
    clients[0].put(SetActive("a", False), Reset("a"))
    await harness.end()
    assert isinstance(await late.event(Rejected), Rejected)
    assert [type(await clients[0].event(SessionEvent)) for _ in range(3)] == [ActiveChanged, Rejected, Detached]
    assert isinstance(await clients[1].event(Detached), Detached)
    for client in (*clients, late):
        with pytest.raises(OutboxClosed):
            await client.next()
    with pytest.raises(StreamingActorFailedError):
        harness.engine._pipeline._actors.lanes[0].actor.barrier()
    assert model.seeds == model.totals == {}


async def test_a_stuck_handler_does_not_block_the_end(
    model: CountingModel, gate: Turnstile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(serving, "_RELEASE_TIMEOUT_S", 0.02)
    monkeypatch.setattr(engine_module, "_CLOSE_TIMEOUT_S", 0.05)
    harness = Harness(counting_engine(model))
    client = await harness.join("a")
    await gate.await_entry()
    await harness.end()
    assert "not released" in (await client.event(Failed)).error
    assert "did not end in time" in caplog.text


async def test_a_reader_that_closes_the_outbox_ends_the_engine(model: CountingModel) -> None:
    harness = Harness(counting_engine(model))
    client = await harness.join("a")
    await client.chunk()
    harness.outbox.close()
    await asyncio.wait_for(harness.serving, TIMEOUT_S)


async def test_a_slow_reader_loses_only_its_oldest_chunks(model: CountingModel) -> None:
    harness = Harness(counting_engine(model), maxsize=3)
    slow, quick = await harness.join("a"), await harness.join("b")
    await quick.chunks(30)
    harness.stop.set()
    await asyncio.wait_for(harness.serving, TIMEOUT_S)
    await slow.event(Detached)
    chunks = [item for item in slow.items if isinstance(item, Chunk)]
    assert len(chunks) == 3 and [b.seq - a.seq for a, b in zip(chunks, chunks[1:], strict=False)] == [1, 1]


async def test_random_messages_leave_nothing(model: CountingModel) -> None:
    """Messages in any order: each but Action is answered once, in order, and every epoch is closed once."""
    random_ = random.Random(4)
    async with served(model, max_sessions=3) as harness:
        clients = [harness.client(name) for name in "abcd"]
        answered: dict[str, int] = dict.fromkeys("abcd", 0)
        for _ in range(300):
            client = random_.choice(clients)
            message = random_.choice(
                [
                    Attach(client.id, {"seed": 1}),
                    Detach(client.id),
                    Reset(client.id, {"seed": 2}),
                    SetActive(client.id, random_.random() < 0.7),
                ]
            )
            client.put(message)
            answered[client.id] += 1
            if random_.random() < 0.3:
                await asyncio.sleep(0)
        for client in clients:
            for _ in range(answered[client.id]):
                await client.event(SessionEvent)
    for client in clients:
        epochs = [item.epoch for item in client.items]
        assert epochs == sorted(epochs)
    assert len(model.closed) == len(set(model.closed))
    assert model.seeds == model.totals == {}


# -- Level 1


def chunk_engine(max_sessions: int) -> StreamingEngine:
    """Like the counting one, with arrays as chunks."""
    model = CountingModel()

    def act(work: Any) -> dict[str, object]:
        made = model.act(work)["chunk"]
        assert isinstance(made, Made)
        return {"chunk": np.array([made.seed * 1000 + made.total * 10 + made.move], np.int64)}

    actors = {
        "plan": LocalStageActor(model.plan, session_closer=model.close_plan),
        "act": LocalStageActor(act, session_closer=model.close_act),
    }
    return StreamingEngine(SPEC, actors, EngineManifest(max_sessions, chunk_shape=(1,)))


def test_level_1_conforms_to_the_contract() -> None:
    made: list[StreamingEngine] = []

    def make(size: int) -> RealtimeInterface:
        made.append(chunk_engine(size))
        return made[-1]

    assert len(check_engine(EngineCase(make_engine=make))) >= 8
    for engine in made:
        engine.close()


def test_a_failed_step_names_the_failed_sessions(model: CountingModel) -> None:
    engine = counting_engine(model)
    for name in "ab":
        engine.attach(SessionInit(name, {} if name == "a" else {"seed": 3}))
    for _ in range(2):
        with pytest.raises(StepFailure) as caught:
            engine.step({"a": {}, "b": {"move": 1, "events": ("tap",)}, "ghost": {}})
        assert {name: type(error) for name, error in caught.value.failures.items()} == {"a": KeyError}
        assert [(result.session_id, result.output.events) for result in caught.value.results] == [("b", ("tap",))]
    engine.detach("a")
    engine.detach("a")
    assert engine.active_sessions == 1
    assert [result.output.total for result in engine.step({"b": {"move": 1}})] == [3]
    engine.finalize(["b"])
    engine.close()
