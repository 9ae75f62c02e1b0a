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


class Player:
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


class Table:
    """An engine being served."""

    def __init__(self, engine: StreamingEngine, maxsize: int = 0, **options: Any) -> None:
        self.engine = engine
        self.inbox, self.outbox, self.stop = Inbox(), Outbox(maxsize), asyncio.Event()
        self.serving = asyncio.create_task(run_engine(engine, self.inbox, self.outbox, stop=self.stop, **options))

    def player(self, session_id: str) -> Player:
        return Player(self.inbox, self.outbox, session_id)

    async def join(self, session_id: str, **context: object) -> Player:
        player = self.player(session_id)
        player.put(Attach(session_id, {"seed": 1, **context}))
        await player.event(Attached)
        return player

    async def end(self) -> None:
        self.stop.set()
        await asyncio.wait_for(self.serving, TIMEOUT_S)


@asynccontextmanager
async def served(
    model: CountingModel, monitor: ServeMonitor | None = None, max_chunks: int | None = None, **options: Any
) -> AsyncIterator[Table]:
    table = Table(counting_engine(model, **options), monitor=monitor, max_chunks=max_chunks)
    try:
        yield table
    finally:
        await table.end()
    counts = table.engine.pipeline.diagnostics()
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
    async with served(model) as table:
        player = await table.join("a", seed=7)
        chunks = await player.chunks(20)
    assert [chunk.seq for chunk in chunks] == [chunk.output.sequence_id for chunk in chunks] == list(range(20))
    assert {(chunk.epoch, chunk.action_id, chunk.output.seed) for chunk in chunks} == {(1, None, 7)}
    for chunk in chunks:
        stamps = chunk.stamps
        assert stamps.action_received is None
        assert 0 < stamps.step_begin <= stamps.step_end <= stamps.emitted


async def test_sessions_do_not_mix(model: CountingModel) -> None:
    async with served(model) as table:
        players = [await table.join(name, seed=number) for number, name in enumerate("abcd")]
        for number, player in enumerate(players):
            player.put(Action(player.id, {"move": number}, action_id="set"))
        for number, player in enumerate(players):
            first = await player.chunk_with("set")
            later = await player.chunks(5)
            assert [chunk.output.total - first.output.total for chunk in later] == [number * k for k in range(1, 6)]
            assert {(chunk.output.session_id, chunk.output.seed) for chunk in later} == {(player.id, number)}


async def test_stages_overlap(model: CountingModel, gate: Turnstile) -> None:
    async with served(model) as table:
        player = await table.join("a")
        await gate.await_entry()
        for _ in range(2):
            await model.await_plan()  # of the chunk that is held in the second stage, and of the next
        gate.open()
        await player.chunks(3)


# -- actions


async def test_a_control_reaches_the_chunk_that_begins_next(model: CountingModel, gate: Turnstile) -> None:
    """At full load, with every place in the pipeline taken, the age of a control is at most one chunk."""
    async with served(model) as table:
        player = await table.join("a")
        await gate.await_entry()
        for _ in range(2):
            await model.await_plan()  # all places before it are taken
        for number in range(1, 20):
            player.put(Action("a", {"move": number}, action_id=number), SetActive("a", True))
            await player.event(ActiveChanged)  # the action before it is applied
            gate.let_pass()
            await gate.await_entry()
            chunk = await player.chunk()
            assert (chunk.output.move, chunk.action_id) == (number - 1, number - 1 or None)
        gate.open()
        chunk = await player.chunk()
        assert (chunk.output.move, chunk.action_id) == (19, 19)


async def test_every_event_is_in_exactly_one_chunk_in_order(model: CountingModel) -> None:
    async with served(model) as table:
        player = await table.join("a")
        sent = 0
        for burst in range(60):
            events = list(range(sent, sent + burst % 4))
            sent += len(events)
            player.put(Action("a", {"move": 1}, events, action_id=burst))
            if burst % 3 == 0:
                await player.chunk()
        await player.chunk_with(59)
    seen = [event for item in player.items if isinstance(item, Chunk) for event in item.output.events]
    assert seen == list(range(sent))


async def test_events_stay_with_the_controls_of_their_action(model: CountingModel, gate: Turnstile) -> None:
    async with served(model) as table:
        player = await table.join("a")
        await gate.await_entry()  # the control is sampled, the events are not read
        player.put(Action("a", {"move": 1}, ["tap"], action_id=1), SetActive("a", True))
        await player.event(ActiveChanged)  # the action is applied
        gate.open()
        first, second = await player.chunks(2)
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
    table = Table(model.engine())
    try:
        player = await table.join("a")
        player.put(Action("a", {"prompt": "ice", "move": 0}, action_id=0), SetActive("a", True))
        await player.event(ActiveChanged)
        while True:  # the chunks that have begun before the first action
            await model.gate.await_entry()
            model.gate.let_pass()
            if (await player.chunk()).action_id == 0:
                break
        await model.gate.await_entry()
        player.put(*actions, SetActive("a", True))
        await player.event(ActiveChanged)
        model.gate.open()
        return [(chunk.output, chunk.action_id) for chunk in await player.chunks(2)]
    finally:
        model.gate.open()
        await table.end()


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
    async with served(model) as table:
        player = await table.join("a")
        player.put(Action("a", {"move": 3}, action_id=1))
        first = await player.chunk_with(1)
        assert {chunk.output.move for chunk in [first, *await player.chunks(3)]} == {3}
        player.put(Action("a", {"other": 1}, action_id=2))
        assert (await player.chunk_with(2)).output.move == 0


async def test_an_action_that_changes_nothing_comes_back_all_the_same(model: CountingModel) -> None:
    async with served(model) as table:
        player = await table.join("a")
        for number in range(5):
            player.put(Action("a", {"move": 1}, action_id=number))
            chunk = await player.chunk_with(number)
            assert chunk.stamps.action_received is not None
            assert chunk.stamps.action_received <= chunk.stamps.step_begin


async def test_actions_of_strangers_are_rejected(model: CountingModel) -> None:
    async with served(model) as table:
        player = table.player("nobody")
        player.put(Action("nobody"), SetActive("nobody", True), Reset("nobody"), Detach("nobody"))
        reasons = [(await player.event(Rejected)).reason for _ in range(3)]
        assert all("not attached" in reason for reason in reasons)
        assert (await player.event(Detached)).epoch == 0


# -- sessions


async def test_attach_twice_is_one_session(model: CountingModel) -> None:
    async with served(model) as table:
        player = await table.join("a", seed=5)
        player.put(Attach("a", {"seed": 6}))
        assert (await player.event(Attached)).epoch == 1
        assert (await player.chunk()).output.seed == 5


async def test_places_are_counted_and_given_back(model: CountingModel) -> None:
    async with served(model, max_sessions=2) as table:
        first, _ = await table.join("a"), await table.join("b")
        third = table.player("c")
        third.put(Attach("c", {"seed": 1}))
        assert (await third.event(Rejected)).reason == "all 2 places are taken"
        first.put(Detach("a"))
        await first.event(Detached)
        third.put(Attach("c", {"seed": 1}))
        assert (await third.event(Attached)).epoch == 1
        await third.chunks(2)


async def test_an_id_that_comes_back_goes_on_counting(model: CountingModel) -> None:
    async with served(model) as table:
        player = await table.join("a")
        for epoch in range(1, 6):
            await player.chunks(2)
            player.put(Detach("a"), Attach("a", {"seed": epoch}))
            assert (await player.event(Detached)).epoch == epoch
            assert (await player.event(Attached)).epoch == epoch + 1
            assert (await player.chunk()).output.seed == epoch
    chunks = [item for item in player.items if isinstance(item, Chunk)]
    assert [chunk.seq for chunk in chunks] == list(range(len(chunks)))


async def test_reset_begins_a_new_epoch_and_nothing_of_the_old_one_follows(model: CountingModel) -> None:
    async with served(model) as table:
        player = await table.join("a", seed=0)
        player.put(Action("a", {"move": 5}, events=["stale"], action_id="old"))
        for reset in range(1, 40):
            for _ in range(reset % 3):
                await player.next()
            player.put(Reset("a", {"seed": reset}))
            done = await player.event(ResetDone)
            assert done.epoch == reset + 1
            chunk = await player.chunk()
            assert chunk.epoch == reset + 1
            made = chunk.output
            assert (made.seed, made.sequence_id, made.total, made.events, chunk.action_id) == (reset, 0, 0, (), None)
        player.put(Reset("a"))  # an empty context is the last one
        await player.event(ResetDone)
        assert (await player.chunk()).output.seed == 39
    epochs = [item.epoch for item in player.items]
    assert epochs == sorted(epochs)
    chunks = [item for item in player.items if isinstance(item, Chunk)]
    assert [chunk.seq for chunk in chunks] == list(range(len(chunks)))
    assert sorted(model.closed) == sorted((stage, "a", epoch) for stage in ("plan", "act") for epoch in range(1, 42))
    assert model.seeds == model.totals == {}


async def test_a_reset_of_one_does_not_wait_for_another(model: CountingModel, gate: Turnstile) -> None:
    async with served(model) as table:
        held, free = await table.join("a"), await table.join("b")
        await gate.await_entry()
        held.put(Reset("a", {"seed": 2}), Action("a", {"move": 1}, action_id="after"))
        gate.open()
        await held.event(ResetDone)
        assert (await held.chunk_with("after")).epoch == 2
        free.put(Reset("b"))
        await free.event(ResetDone)


# -- pause


async def test_a_paused_session_is_quiet_and_goes_on_where_it_was(model: CountingModel) -> None:
    async with served(model) as table:
        player, other = await table.join("a"), await table.join("b")
        for _ in range(10):
            await player.chunk()
            player.put(SetActive("a", False))
            assert (await player.event(ActiveChanged)).active is False
            await other.chunks(5)
            player.put(SetActive("a", True))
            assert (await player.next()) == ActiveChanged("a", True, epoch=1)
    sequences = [item.output.sequence_id for item in player.items if isinstance(item, Chunk)]
    assert sequences == list(range(len(sequences)))


async def test_a_pause_is_answered_when_the_chunks_in_flight_are_out(model: CountingModel, gate: Turnstile) -> None:
    async with served(model) as table:
        player = await table.join("a")
        await gate.await_entry()
        player.put(SetActive("a", False), SetActive("a", True), SetActive("a", False), Detach("a"))
        answers = []
        gate.open()
        while not isinstance(item := await player.next(), Detached):
            answers.append(item)
    assert [item.active for item in answers if isinstance(item, ActiveChanged)] == [False, True, False]


async def test_of_two_pauses_neither_is_answered_before_the_chunks_in_flight(
    model: CountingModel, gate: Turnstile
) -> None:
    async with served(model) as table:
        player = await table.join("a")
        await gate.await_entry()
        player.put(SetActive("a", False), SetActive("a", False), Attach("a"))
        stranger = await table.join("b")  # by then they have been applied
        gate.open()
        while not isinstance(await player.next(), Attached):
            continue
        *chunks, first, second, _ = player.items[1:]
        assert chunks and all(isinstance(item, Chunk) for item in chunks)
        assert first == second == ActiveChanged("a", False, epoch=1)
        assert stranger.items[0] == Attached("b", epoch=1)


async def test_a_reset_keeps_the_pause(model: CountingModel) -> None:
    async with served(model) as table:
        player = await table.join("a")
        player.put(SetActive("a", False))
        await player.event(ActiveChanged)
        player.put(Reset("a", {"seed": 9}), SetActive("a", True))
        assert isinstance(await player.next(), ResetDone)
        assert isinstance(await player.next(), ActiveChanged)
        assert (await player.chunk()).output.seed == 9


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
    async with served(model) as table:
        player, other = await table.join("a", seed=7), await table.join("b", seed=8)
        for one in (player, other):
            one.put(Action(one.id, {"move": 2}, action_id="set"))
        assert await player.event(Failed) == Failed("a", "ValueError: too wet", epoch=1)
        before = [item for item in player.items if isinstance(item, Chunk)]
        after = await player.chunks(5)
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
    async with served(model) as table:
        player = await table.join("a")
        await gate.await_entry()
        player.put(Action("a", {"move": 1}, ["tap"]), SetActive("a", True))
        await player.event(ActiveChanged)  # the action is applied
        gate.open()
        await player.event(Failed)
        assert (await player.chunk()).output.events == ("tap",)


async def test_ten_failures_in_a_row_detach_a_session(model: CountingModel) -> None:
    model.before_act = failing_at(0, ValueError("too wet"), times=10)
    monitor = ServeMonitor()
    async with served(model, monitor=monitor) as table:
        player, other = await table.join("a"), await table.join("b")
        failures = [await player.event(Failed) for _ in range(10)]
        assert [failed.fatal for failed in failures] == [False] * 9 + [True]
        assert {(failed.error, failed.epoch) for failed in failures} == {("ValueError: too wet", 1)}
        assert not any(isinstance(item, Chunk) for item in player.items)
        assert monitor.failed == 10
        await other.chunks(5)
        player.put(Attach("a", {"seed": 1}))
        assert (await player.event(Attached)).epoch == 2
        assert [chunk.seq for chunk in await player.chunks(3)] == [0, 1, 2]
    assert sorted(model.closed) == sorted(set(model.closed))


async def test_a_chunk_between_two_failures_starts_the_count_again(model: CountingModel) -> None:
    model.before_act = failing_at(1, ValueError("too wet"), times=25)
    async with served(model) as table:
        player = await table.join("a")
        for _ in range(25):
            assert not (await player.event(Failed)).fatal
        await player.chunks(5)


async def test_messages_during_a_restart_are_applied_after_it(model: CountingModel, gate: Turnstile) -> None:
    fail = failing_at(1, ValueError("too wet"))
    model.before_act = fail
    async with served(model) as table:
        player = await table.join("a")
        failed = await player.event(Failed)
        player.put(Action("a", {"move": 3}, action_id="new"), SetActive("a", False))
        assert failed.epoch == (await player.event(ActiveChanged)).epoch == 1
        player.put(Reset("a", {"seed": 5}), SetActive("a", True))
        assert (await player.event(ResetDone)).epoch == 2
        await player.event(ActiveChanged)
        assert (await player.chunk()).output.seed == 5


INTERRUPTS = [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit(), StopAsyncIteration()]


@pytest.mark.parametrize("interrupt", INTERRUPTS, ids=repr)
async def test_a_stage_that_wants_to_exit_fails_its_session_alone(
    model: CountingModel, interrupt: BaseException
) -> None:
    model.before_act = failing_at(1, interrupt)
    async with served(model) as table:
        player, other = await table.join("a"), await table.join("b")
        failed = await player.event(Failed)
        assert not failed.fatal and failed.error.startswith(
            f"StageInterruptError: stage 'act' raised {type(interrupt).__name__}"
        )
        await other.chunks(3)
        await player.chunks(3)


@pytest.mark.parametrize("hook", ["inputs", "controls"])
async def test_a_mapping_that_wants_to_exit_fails_its_session_alone(model: CountingModel, hook: str) -> None:
    def leave(given: object) -> Any:
        if hook == "inputs" or given:
            raise SystemExit(3)
        return {"control": given}

    actors = {"plan": LocalStageActor(model.plan), "act": LocalStageActor(model.act)}
    table = Table(StreamingEngine(SPEC, actors, EngineManifest(1), **{hook: leave}))
    player = await table.join("a")
    if hook == "controls":
        player.put(Action("a", {"move": 1}))
    assert "SystemExit" in (await player.event(Failed)).error
    await table.end()


async def test_a_context_that_the_model_does_not_take_ends_the_session(model: CountingModel) -> None:
    async with served(model) as table:
        player = table.player("a")
        player.put(Attach("a", {}))
        await player.event(Attached)
        while not (failed := await player.event(Failed)).fatal:
            assert failed.error == "KeyError: 'seed'"
        assert failed.error == "KeyError: 'seed'" and len(player.items) == 11


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
    table = Table(StreamingEngine(SPEC, actors, EngineManifest(1, rate_hz=1000.0), inputs=inputs))
    player = await table.join("a")
    assert [await player.event(Failed) for _ in range(3)] == 3 * [Failed("a", "LookupError: not mapped", epoch=1)]
    assert [chunk.output.sequence_id for chunk in await player.chunks(3)] == [0, 1, 2]
    broken = 100
    while not (await player.event(Failed)).fatal:
        continue  # a chunk in flight may still come out after the first failures
    assert all(isinstance(item, Failed) for item in player.items[-10:])
    assert not isinstance(player.items[-11], Failed)
    await table.end()


async def test_an_action_that_the_mapping_to_controls_refuses_changes_nothing(model: CountingModel) -> None:
    def controls(conditioning: Any) -> Any:
        if conditioning.get("move") == 13:
            raise LookupError("not mapped")
        return {"unknown": 0} if conditioning.get("move") == 14 else {"control": conditioning}

    actors = {"plan": LocalStageActor(model.plan), "act": LocalStageActor(model.act)}
    table = Table(StreamingEngine(SPEC, actors, EngineManifest(1, rate_hz=1000.0), controls=controls))
    player = await table.join("a")
    player.put(Action("a", {"move": 2}, action_id="good"))
    await player.chunk_with("good")
    player.put(Action("a", {"move": 13}, ["tap"], action_id="bad"), Action("a", {"move": 14}, action_id="bad"))
    assert await player.event(Failed) == Failed("a", "LookupError: not mapped", epoch=1)
    assert "gives 'unknown', expected ['control']" in (await player.event(Failed)).error
    chunks = await player.chunks(3)
    assert {(chunk.output.move, chunk.output.events, chunk.action_id) for chunk in chunks} == {(2, (), "good")}
    await table.end()


async def test_inputs_that_are_not_all_inputs_are_refused(model: CountingModel) -> None:
    actors = {"plan": LocalStageActor(model.plan), "act": LocalStageActor(model.act)}
    table = Table(StreamingEngine(SPEC, actors, EngineManifest(1), inputs=lambda request: {"wish": request}))
    player = await table.join("a")
    assert "must give ['request'], got ['wish']" in (await player.event(Failed)).error
    await table.end()


async def test_a_session_that_cannot_begin_leaves_nothing(model: CountingModel) -> None:
    broken = True

    def controls(conditioning: Any) -> Any:
        if broken:
            raise LookupError("not mapped")
        return {"control": conditioning}

    actors = {"plan": LocalStageActor(model.plan), "act": LocalStageActor(model.act)}
    table = Table(StreamingEngine(SPEC, actors, EngineManifest(1), controls=controls))
    player = table.player("a")
    player.put(Attach("a", {"seed": 1}))
    assert (await player.event(Rejected)).reason == "LookupError: not mapped"
    assert table.engine.pipeline.health().session_count == 0
    broken = False
    player.put(Attach("a", {"seed": 1}))
    assert (await player.event(Attached)).epoch == 1
    await player.chunk()
    await table.end()


async def test_a_dead_stage_fails_its_sessions_at_once_and_takes_no_more(model: CountingModel) -> None:
    def die(work: Any) -> None:
        if work.key.session_id == "a":
            raise StreamingActorFailedError("the device is lost")

    async with served(model) as table:
        player, paused = await table.join("a"), await table.join("b")
        paused.put(SetActive("b", False))
        await paused.event(ActiveChanged)
        await player.chunk()
        model.before_act = die
        for one in (player, paused):
            failed = await one.event(Failed)
            assert "the device is lost" in failed.error and not failed.fatal
            failed = await one.event(Failed)
            assert "give a factory of actors to have it restarted" in failed.error and failed.fatal
        player.put(Attach("a", {"seed": 1}))
        rejected = await player.event(Rejected)
        assert "the device is lost" in rejected.reason and rejected.epoch == 1


async def test_a_stage_with_a_factory_is_restarted_for_the_sessions_that_it_had(model: CountingModel) -> None:
    def die(work: Any) -> None:
        model.before_act = lambda work: None
        model.seeds, model.totals = {}, {}
        raise StreamingActorFailedError("the device is lost")

    actors: dict[str, Any] = {"plan": LocalStageActor(model.plan), "act": lambda: LocalStageActor(model.act)}
    table = Table(StreamingEngine(SPEC, actors, EngineManifest(1, rate_hz=1000.0)))
    player = await table.join("a", seed=4)
    await player.chunk()
    model.before_act = die
    failed = await player.event(Failed)
    assert "the device is lost" in failed.error and not failed.fatal
    assert (await player.chunk()).output.seed == 4
    await table.end()


async def test_a_stuck_stage_keeps_only_what_it_holds(
    model: CountingModel, gate: Turnstile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_RELEASE_TIMEOUT_S", 0.02)
    async with served(model, max_sessions=1) as table:
        player = await table.join("a")
        await gate.await_entry()
        player.put(Detach("a"), Attach("b", {"seed": 1}))
        assert "not released" in (await player.event(Failed)).error
        stranger = table.player("b")
        stranger.put(Attach("b", {"seed": 1}))
        assert (await stranger.event(Rejected)).reason == "all 1 places are taken"
        gate.open()
        while not isinstance(item := await stranger.next(), Attached):
            stranger.put(Attach("b", {"seed": 1}))
        assert item.epoch == 1


async def test_any_number_of_stuck_sessions_keep_nobody_else(
    model: CountingModel, gate: Turnstile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_RELEASE_TIMEOUT_S", 3 * TIMEOUT_S)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    async with served(model, max_sessions=9) as table:
        first = await table.join("a")
        await gate.await_entry()
        others = [await table.join(f"b{number}") for number in range(7)]
        first.put(Detach("a"))
        for other in others:
            other.put(Detach(other.id))  # behind the one that holds the stage
        while table.engine.pipeline.status("a") is StreamingSessionStatus.RUNNING:  # noqa: ASYNC110 (no event for it)
            await asyncio.sleep(0)
        stranger = table.player("c")
        stranger.put(Attach("c", {"seed": 1}))
        assert isinstance(await stranger.next(), Attached)
        gate.open()


# -- rollouts that end


def ending_at(sequence_id: int) -> Callable[[Any], bool]:
    return lambda work: work.key.session_id == "a" and work.key.sequence_id == sequence_id


async def test_a_last_output_finishes_the_session_until_its_reset(model: CountingModel) -> None:
    model.is_last = ending_at(3)
    async with served(model) as table:
        player, other = await table.join("a"), await table.join("b")
        assert await player.event(Finished) == Finished("a", epoch=1)
        assert [item.seq for item in player.items if isinstance(item, Chunk)] == [0, 1, 2, 3]
        player.put(SetActive("a", False), SetActive("a", True), Action("a", {"move": 1}))
        assert [(await player.event(ActiveChanged)).active for _ in range(2)] == [False, True]
        await other.chunks(20)
        player.put(Reset("a", {"seed": 6}))
        assert await player.next() == ResetDone("a", epoch=2)
        assert [(chunk.seq, chunk.output.seed) for chunk in await player.chunks(4)] == [(n, 6) for n in range(4, 8)]
        assert await player.next() == Finished("a", epoch=2)
        player.put(Detach("a"))
        assert await player.next() == Detached("a", epoch=2)


async def test_a_limit_of_chunks_finishes_each_epoch(model: CountingModel) -> None:
    async with served(model, max_chunks=3) as table:
        player = await table.join("a")
        for epoch in (1, 2):
            chunks = await player.chunks(3)
            assert [chunk.output.sequence_id for chunk in chunks] == [0, 1, 2]
            assert await player.next() == Finished("a", epoch=epoch)
            player.put(Reset("a"))
            await player.event(ResetDone)


async def test_chunks_before_a_failure_count_for_the_limit(model: CountingModel) -> None:
    model.before_act = failing_at(2, ValueError("too wet"))
    async with served(model, max_chunks=5) as table:
        player = await table.join("a")
        await player.event(Failed)
        assert [chunk.seq for chunk in await player.chunks(3)] == [2, 3, 4]
        assert await player.next() == Finished("a", epoch=1)


# -- detach


@pytest.mark.parametrize("policy", ["drain", "cancel"])
async def test_a_detach_drains_or_cancels_the_chunks_in_flight(
    model: CountingModel, gate: Turnstile, policy: Literal["drain", "cancel"]
) -> None:
    async with served(model, on_detach=policy) as table:
        player = await table.join("a")
        await gate.await_entry()
        for _ in range(2):
            await model.await_plan()  # of the chunk that is held in the second stage, and of the next
        player.put(Detach("a"))
        stranger = await table.join("b")  # by then it is applied
        gate.open()
        assert (await player.event(Detached)).epoch == 1
        chunks = [item for item in player.items if isinstance(item, Chunk)]
        assert len(chunks) >= 2 if policy == "drain" else chunks == []
        await stranger.chunks(3)
    assert model.seeds == model.totals == {}


async def test_a_drain_that_takes_too_long_becomes_a_cancel(
    model: CountingModel, gate: Turnstile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_DRAIN_TIMEOUT_S", 0.02)
    async with served(model, on_detach="drain") as table:
        player = await table.join("a")
        await gate.await_entry()
        player.put(Detach("a"))
        while table.engine.pipeline.status("a") is StreamingSessionStatus.RUNNING:  # noqa: ASYNC110 (no event for it)
            await asyncio.sleep(0)
        gate.open()
        assert await player.event(Detached) == Detached("a", epoch=1)
        assert not any(isinstance(item, Chunk) for item in player.items)


# -- the monitor


async def test_the_monitor_counts_what_a_stage_graph_does(model: CountingModel) -> None:
    model.before_act = failing_at(4, ValueError("too wet"))
    monitor = ServeMonitor()
    async with served(model, monitor=monitor) as table:
        player, stranger = await table.join("a"), table.player("nobody")
        player.put(Action("a", {"move": 1}, action_id=1))
        await player.event(Failed)
        stranger.put(Reset("nobody"))
        await stranger.event(Rejected)
        await player.chunks(10)
        player.put(SetActive("a", False))
        await player.event(ActiveChanged)  # nothing is in flight
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


async def test_the_monitor_tells_of_one_session(model: CountingModel, gate: Turnstile) -> None:
    monitor = ServeMonitor()
    async with served(model, monitor=monitor) as table:
        player = await table.join("a")
        assert monitor.pipeline is not None
        await gate.await_entry()
        now = monitor.pipeline.session_snapshot("a")
        assert now is not None and now.stages["act"].in_flight == 1 and now.stages["act"].completed == 0
        assert now.real_time_factor is None
        gate.open()
        await player.chunks(5)
        player.put(Reset("a"))
        await player.event(ResetDone)
        chunks = await player.chunks(6)
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
        player.put(Detach("a"))
        await player.event(Detached)
        assert monitor.pipeline.session_snapshot("a") is None
        assert monitor.pipeline.session_spans("a", 0) == ()


async def test_deadlines_that_a_slow_stage_misses_are_overruns(model: CountingModel, gate: Turnstile) -> None:
    monitor = ServeMonitor()
    async with served(model, monitor=monitor) as table:
        player = await table.join("a")
        for _ in range(10):
            await gate.await_entry()
            await asyncio.sleep(0.005)  # five periods of the session
            gate.let_pass()
        await player.chunks(8)
        gate.open()
        now = monitor.snapshot()
        assert now.overruns > 0.05 * now.ticks  # as the alert DeadlinesMissed asks


# -- the end


async def test_stop_answers_everybody(model: CountingModel) -> None:
    table = Table(counting_engine(model))
    players = [await table.join(name) for name in "ab"]
    late = table.player("late")
    table.stop.set()
    late.put(Attach("late", {}), Action("a", {"move": 1}))
    players[0].put(SetActive("a", False), Reset("a"))
    await table.end()
    assert isinstance(await late.event(Rejected), Rejected)
    assert [type(await players[0].event(SessionEvent)) for _ in range(3)] == [ActiveChanged, Rejected, Detached]
    assert isinstance(await players[1].event(Detached), Detached)
    for player in (*players, late):
        with pytest.raises(OutboxClosed):
            await player.next()
    with pytest.raises(StreamingActorFailedError):
        table.engine._pipeline._actors.lanes[0].actor.barrier()
    assert model.seeds == model.totals == {}


async def test_a_stuck_handler_does_not_keep_the_engine(
    model: CountingModel, gate: Turnstile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(serving, "_RELEASE_TIMEOUT_S", 0.02)
    monkeypatch.setattr(engine_module, "_CLOSE_TIMEOUT_S", 0.05)
    table = Table(counting_engine(model))
    player = await table.join("a")
    await gate.await_entry()
    await table.end()
    assert "not released" in (await player.event(Failed)).error
    assert "did not end in time" in caplog.text


async def test_a_reader_that_closes_the_outbox_ends_the_engine(model: CountingModel) -> None:
    table = Table(counting_engine(model))
    player = await table.join("a")
    await player.chunk()
    table.outbox.close()
    await asyncio.wait_for(table.serving, TIMEOUT_S)


async def test_a_slow_reader_loses_only_its_oldest_chunks(model: CountingModel) -> None:
    table = Table(counting_engine(model), maxsize=3)
    slow, quick = await table.join("a"), await table.join("b")
    await quick.chunks(30)
    table.stop.set()
    await asyncio.wait_for(table.serving, TIMEOUT_S)
    await slow.event(Detached)
    chunks = [item for item in slow.items if isinstance(item, Chunk)]
    assert len(chunks) == 3 and [b.seq - a.seq for a, b in zip(chunks, chunks[1:], strict=False)] == [1, 1]


async def test_random_lives_leave_nothing(model: CountingModel) -> None:
    """Messages in any order: each but Action is answered once, in order, and every epoch is closed once."""
    random_ = random.Random(4)
    async with served(model, max_sessions=3) as table:
        players = [table.player(name) for name in "abcd"]
        answered: dict[str, int] = dict.fromkeys("abcd", 0)
        for _ in range(300):
            player = random_.choice(players)
            message = random_.choice(
                [
                    Attach(player.id, {"seed": 1}),
                    Detach(player.id),
                    Reset(player.id, {"seed": 2}),
                    SetActive(player.id, random_.random() < 0.7),
                ]
            )
            player.put(message)
            answered[player.id] += 1
            if random_.random() < 0.3:
                await asyncio.sleep(0)
        for player in players:
            for _ in range(answered[player.id]):
                await player.event(SessionEvent)
    for player in players:
        epochs = [item.epoch for item in player.items]
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


def test_one_chunk_after_another_keeps_the_contract() -> None:
    made: list[StreamingEngine] = []

    def make(size: int) -> RealtimeInterface:
        made.append(chunk_engine(size))
        return made[-1]

    assert len(check_engine(EngineCase(make_engine=make))) >= 8
    for engine in made:
        engine.close()


def test_a_failed_step_tells_whose_fault_it_is(model: CountingModel) -> None:
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
