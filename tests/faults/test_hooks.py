"""A thousand exceptions in every hook: the loop continues, and other sessions lose almost nothing."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from realtime_engine import (
    Action,
    Attach,
    Attached,
    Chunk,
    ComposedEngine,
    Detach,
    Failed,
    Inbox,
    Lane,
    Outbox,
    RealtimeInterface,
    Rejected,
    Reset,
    SessionInit,
    SetActive,
    StepFailure,
    StepResult,
)
from realtime_engine.core.clock import NS_PER_S
from realtime_engine.core.monitor import ServeMonitor
from realtime_engine.core.serve_loop import ServeLoop, ServeOptions
from realtime_engine.testing import FaultPlan, FaultyEngine, ManualClock, ScriptedEngine
from tests.serving import COMPOSED_OPTIONS, ENGINES, EchoModel, EchoStage, Served, attach_all, composed

BYSTANDERS = ("left", "right", "far")
EXCEPTIONS = 1000

REPLICAS = ("replica", "replica-parallel")
ENGINE_HOOKS = ("attach", "step", "finalize", "detach")
MODEL_HOOKS = ("seed", "hot", "deferred", "encode", "detach")
ENGINE_CASES = [(name, hook) for name in ENGINES for hook in ENGINE_HOOKS]
MODEL_CASES = [
    (name, hook)
    for name in ENGINES
    for hook in MODEL_HOOKS
    if name != "scripted"
    and not (name in REPLICAS and hook == "seed")  # every child's row is 0: tested separately below
]


class Target:
    """Fails every call of one hook that concerns the session ``bad`` (for ``seed``: its row), while it is armed."""

    def __init__(self, hook: str, error: type[BaseException] = RuntimeError) -> None:
        self.hook = hook
        self.error = error
        self.armed = True
        self.row = str(len(BYSTANDERS))

    def __call__(self, hook: str, ids: Collection[str]) -> BaseException | None:
        if self.armed and hook == self.hook and ("bad" in ids or (hook == "seed" and self.row in ids)):
            return self.error("injected")
        return None


def _torment(served: Served, plan: FaultPlan, target: Target) -> int:
    """Attach, use and detach the bad session repeatedly; returns the longest gap of a bystander in ticks."""
    silence = dict.fromkeys(BYSTANDERS, 0)
    worst, style = 0, 0

    while plan.raised < EXCEPTIONS:
        style += 1
        served.put(Attach("bad", {"seed": 1}), Action("bad", {"style": style}))
        if style % 7 == 0:
            served.put(Reset("bad"))
        if style % 11 == 0 or target.hook == "detach":
            served.put(Detach("bad"))
        before = {name: len(served.items(name)) for name in BYSTANDERS}
        served.pump()
        for name in BYSTANDERS:
            silence[name] = 0 if len(served.items(name)) > before[name] else silence[name] + 1
            worst = max(worst, silence[name])
        assert style < 40 * EXCEPTIONS, f"only {plan.raised} exceptions were raised"
    return worst


def _run_case(served: Served, plan: FaultPlan, target: Target) -> None:
    target.armed = False
    attach_all(served, *BYSTANDERS)
    begin = served.monitor.ticks
    before = {name: len(served.chunks(name)) for name in BYSTANDERS}
    target.armed = True
    worst = _torment(served, plan, target)
    ticks = served.monitor.ticks - begin
    assert not served.ended, f"the loop ended: {served.error!r}"
    assert worst <= 3, f"a bystander got no chunk for {worst} ticks in a row"
    for name in BYSTANDERS:
        gained = len(served.chunks(name)) - before[name]
        assert gained >= 0.99 * ticks, f"{name} kept {gained} of {ticks} chunks"
        assert served.events(name) == [Attached(name, epoch=1)], "a failure was attributed to a bystander"
        assert [chunk.seq for chunk in served.chunks(name)] == list(range(len(served.chunks(name))))
    failures = [event for event in served.events("bad") if isinstance(event, (Failed, Rejected))]
    assert failures, "the failing session got no event"
    target.armed = False
    served.do(Detach("bad"))
    served.pump(800)  # for what is retried with back-off
    served.do(Attach("bad", {"seed": 2}))
    served.pump(3)
    assert isinstance([item for item in served.items("bad") if not isinstance(item, Chunk)][-1], Attached)
    assert isinstance(served.items("bad")[-1], Chunk), "the row is not reusable"


@pytest.mark.parametrize(("name", "hook"), ENGINE_CASES)
def test_a_thousand_exceptions_in_an_engine_hook(name: str, hook: str) -> None:
    target = Target(hook)
    plan = FaultPlan(target)
    with Served(ENGINES[name](4, plan, FaultPlan())) as served:
        _run_case(served, plan, target)


@pytest.mark.parametrize(("name", "hook"), MODEL_CASES)
def test_a_thousand_exceptions_in_a_model_hook(name: str, hook: str) -> None:
    target = Target(hook)
    plan = FaultPlan(target)
    with Served(ENGINES[name](4, FaultPlan(), plan)) as served:
        _run_case(served, plan, target)


@pytest.mark.parametrize("name", REPLICAS)
def test_a_replica_child_that_cannot_seed(name: str) -> None:
    plan = FaultPlan()
    with Served(ENGINES[name](2, FaultPlan(), plan)) as served:
        attach_all(served, "a")
        plan.fail("seed", RuntimeError("bad"), times=2)
        served.do(Attach("b"))
        served.pump(2)
        assert isinstance(served.events("b")[0], Rejected)
        assert len(served.chunks("a")) == served.monitor.ticks


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
@pytest.mark.parametrize("hook", ["hot", "deferred", "encode", "seed", "detach"])
@pytest.mark.parametrize("name", [name for name in ENGINES if name not in ("scripted", *REPLICAS)])
def test_base_exceptions_in_hooks(name: str, hook: str, error: type[BaseException]) -> None:
    """Thirty exceptions that would end an interpreter, in every hook of a model."""
    target = Target(hook, error)
    plan = FaultPlan(target)
    with Served(ENGINES[name](4, FaultPlan(), plan)) as served:
        target.armed = False
        attach_all(served, *BYSTANDERS)
        target.armed = True

        served.do(Attach("bad", {"seed": 1}))
        for style in range(30):
            served.do(Action("bad", {"style": style}))
            if hook == "detach":
                served.do(Detach("bad"))
        deadline = time.monotonic() + 10  # an encode fails on its own thread, asynchronously
        while not any(isinstance(event, (Failed, Rejected)) for event in served.events("bad")):
            assert time.monotonic() < deadline, "the failure was not reported"
            served.pump()
        assert plan.raised
        for bystander in BYSTANDERS:
            assert served.events(bystander) == [Attached(bystander, epoch=1)]
            assert len(served.chunks(bystander)) >= served.monitor.ticks - 3


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("hook", ["attach", "hot", "finalize"])
@pytest.mark.parametrize("name", REPLICAS)
def test_a_replica_child_that_raises_system_exit(name: str, hook: str, error: type[BaseException]) -> None:
    target = Target(hook, error)
    plan = FaultPlan(target)
    with Served(ENGINES[name](4, plan, plan)) as served:
        attach_all(served, *BYSTANDERS)
        served.do(Attach("bad"))
        served.pump(30)
        for bystander in BYSTANDERS:
            chunks = served.chunks(bystander)
            assert served.events(bystander) == [Attached(bystander, epoch=1)]
            assert len(chunks) >= served.monitor.ticks - 1
            assert [chunk.output.age for chunk in chunks] == list(range(len(chunks))), "a bystander lost a chunk"


# -- from the first failure to the end of the session


@pytest.mark.parametrize("name", list(ENGINES))
def test_ten_failures_in_a_row_are_reported_and_end_the_session(name: str) -> None:
    target = Target("step")
    plan = FaultPlan(target)
    with Served(ENGINES[name](4, plan, FaultPlan())) as served:
        target.armed = False
        attach_all(served, *BYSTANDERS, "bad")
        target.armed = True
        served.pump(12)
        events = served.events("bad")
        assert events[0] == Attached("bad", epoch=1)
        assert events[1:] == [
            *[Failed("bad", "RuntimeError: injected", epoch=1)] * 9,
            Failed("bad", "RuntimeError: injected", fatal=True, epoch=1),
        ]
        assert served.engine.active_sessions == 3
        assert served.monitor.snapshot().failed == 10
        target.armed = False
        served.do(Attach("bad"))
        served.pump(2)
        assert served.events("bad")[-1] == Attached("bad", epoch=2)
        assert isinstance(served.items("bad")[-1], Chunk)


def test_the_limit_of_failures_can_be_set() -> None:
    target = Target("step")
    with Served(FaultyEngine(ScriptedEngine(), FaultPlan(target)), max_consecutive_failures=3) as served:
        attach_all(served, "bad")
        served.pump(3)
        assert [event.fatal for event in served.events("bad")[1:]] == [False, False, True]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", list(ENGINES))
def test_a_transient_error_costs_only_the_failed_ticks(name: str) -> None:
    plan = FaultPlan()
    with Served(ENGINES[name](4, plan, FaultPlan())) as served:
        attach_all(served, *BYSTANDERS, "bad")
        plan.fail("step", RuntimeError("once"), session_id="bad", times=6)
        served.pump(40)
        depth = served.engine.manifest().pipeline_depth_chunks
        for name_ in BYSTANDERS:
            assert len(served.chunks(name_)) >= served.monitor.ticks - (depth - 1)
            assert [chunk.output.age for chunk in served.chunks(name_)] == list(range(len(served.chunks(name_))))
        failures = [event for event in served.events("bad") if isinstance(event, Failed)]
        assert failures and not any(event.fatal for event in failures)
        assert len(served.chunks("bad")) >= served.monitor.ticks - (depth - 1) - len(failures)


@pytest.mark.parametrize("name", list(ENGINES))
def test_a_session_that_fails_every_other_step_does_not_affect_the_others(name: str) -> None:
    calls = 0

    def decide(hook: str, ids: Collection[str]) -> BaseException | None:
        nonlocal calls
        if hook == "step" and "bad" in ids:
            calls += 1
            return RuntimeError("flaky") if calls % 3 == 0 else None
        return None

    plan = FaultPlan(decide)
    with Served(ENGINES[name](4, plan, FaultPlan())) as served:
        attach_all(served, *BYSTANDERS, "bad")
        served.pump(400)
        assert not any(event.fatal for event in served.events("bad") if isinstance(event, Failed))
        for bystander in BYSTANDERS:
            assert len(served.chunks(bystander)) >= 0.99 * served.monitor.ticks
        depth = served.engine.manifest().pipeline_depth_chunks
        assert served.monitor.steps <= 2 * depth * served.monitor.ticks + 60, "the batch is bisected again and again"


@pytest.mark.parametrize("name", list(ENGINES))
def test_an_engine_that_fails_every_session_ends_every_session(name: str) -> None:
    plan = FaultPlan()
    with Served(ENGINES[name](8, plan, FaultPlan())) as served:
        names = [f"s{number}" for number in range(8)]
        attach_all(served, *names)
        plan.fail("step", RuntimeError("device lost"), times=10**9)
        served.pump(15)
        for session in names:
            failures = [event for event in served.events(session) if isinstance(event, Failed)]
            assert [event.fatal for event in failures] == [False] * 9 + [True]
        assert served.engine.active_sessions == 0
        steps, raised = served.monitor.steps, plan.raised
        served.pump(5)
        assert (served.monitor.steps, plan.raised) == (steps, raised), "a failed engine is stepped forever"
        assert served.clock.waits[-1] is None


def test_a_pipeline_that_dies_while_all_sessions_are_paused_does_not_end_the_loop() -> None:

    plan = FaultPlan()
    with Served(ENGINES["pipelined"](2, plan, FaultPlan())) as served:
        attach_all(served, "a")
        plan.fail("step", RuntimeError("device lost"), times=10**9)
        served.do(SetActive("a", False))
        served.pump(5)
        assert plan.raised < 100
        assert served.clock.waits[-1] is None, "a failed pipeline is flushed forever"
        assert [type(event).__name__ for event in served.events("a")] == ["Attached", "ActiveChanged"]


def test_a_seed_that_is_never_ready_affects_no_other_session() -> None:
    class Never(EchoModel):
        def seed_ready(self, pending: Mapping[int, Any]) -> bool:
            raise SystemExit(1)

    with Served(ComposedEngine(Never(2), pipeline=False)) as served:
        served.do(Attach("a"))
        served.pump(3)
        assert [type(event) for event in served.events("a")] == [Rejected]


# -- wrong types and foreign results


class Odd(ScriptedEngine):
    """Returns a wrong type whenever ``bad`` is due."""

    rubbish: Any = None

    def step(self, due: Mapping[str, Any]) -> Any:
        return self.rubbish if "bad" in due else super().step(due)


@pytest.mark.parametrize(
    "rubbish",
    [None, 3, "x", {}, [None], [("bad", 1)], object(), [StepResult(["unhashable"], 1)]],  # type: ignore[arg-type]
    ids=["none", "int", "str", "dict", "list-of-none", "tuples", "object", "unhashable-id"],
)
def test_a_wrong_return_type_is_the_culprits_failure(rubbish: Any) -> None:
    engine = Odd()
    engine.rubbish = rubbish
    with Served(engine) as served:
        attach_all(served, *BYSTANDERS, "bad")
        served.pump(15)
        for bystander in BYSTANDERS:
            assert len(served.chunks(bystander)) == served.monitor.ticks
        assert served.events("bad")[-1].fatal  # type: ignore[attr-defined]


@pytest.mark.parametrize("hook", ["attach", "step", "finalize", "detach", "reset"])
def test_async_hooks_are_refused_and_the_loop_continues(hook: str) -> None:
    async def hanging(*args: Any) -> None:
        await asyncio.Event().wait()

    engine = ScriptedEngine()
    setattr(engine, hook, hanging)
    with Served(engine) as served:
        served.do(Attach("a"))
        served.pump(2)
        served.do(Reset("a"))
        served.pump(12)
        failures = [event for event in served.events("a") if isinstance(event, (Failed, Rejected))]
        if hook == "attach":
            assert "async def" in failures[0].reason  # type: ignore[union-attr]
        elif hook != "detach":
            assert "async def" in failures[0].error  # type: ignore[union-attr]
    assert served.ended and served.error is None


def test_results_for_foreign_ids_a_thousand_times() -> None:
    class Strays(ScriptedEngine):
        def step(self, due: Mapping[str, Any]) -> list[StepResult]:
            strays = [StepResult("unknown", 1), StepResult("", 2)]
            return strays + super().step(due)

    with Served(Strays()) as served:
        attach_all(served, *BYSTANDERS)
        served.pump(500)
        for bystander in BYSTANDERS:
            assert len(served.chunks(bystander)) == served.monitor.ticks
        assert served.monitor.snapshot().foreign == 2 * served.monitor.ticks


def test_a_step_failure_that_names_unknown_sessions_affects_no_session() -> None:
    class Confused(ScriptedEngine):
        def step(self, due: Mapping[str, Any]) -> list[StepResult]:
            raise StepFailure({"unknown": RuntimeError("x"), "": None}, super().step(due))  # type: ignore[dict-item]

    with Served(Confused()) as served:
        attach_all(served, *BYSTANDERS)
        served.pump(20)
        for bystander in BYSTANDERS:
            assert len(served.chunks(bystander)) == served.monitor.ticks
            assert served.events(bystander) == [Attached(bystander, epoch=1)]


class Unspeakable(Exception):
    """An error whose text raises."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("hook", ENGINE_HOOKS)
def test_an_error_whose_text_raises(hook: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    plan = FaultPlan()
    with Served(FaultyEngine(ScriptedEngine(), plan)) as served:
        attach_all(served, *BYSTANDERS)
        plan.fail(hook, Unspeakable(), session_id="bad", times=10**6)
        served.do(Attach("bad"))
        served.pump(15)
        served.do(Detach("bad"))
        served.pump(2)
        assert len(served.chunks("left")) == served.monitor.ticks


def test_a_property_that_raises_does_not_end_the_loop() -> None:
    class Broken(ScriptedEngine):
        @property
        def pending_sessions(self) -> Collection[str]:
            raise SystemExit(1)

    with Served(Broken()) as served:
        attach_all(served, "a")
        served.pump(3)
        assert len(served.chunks("a")) == served.monitor.ticks


# -- edges and encodes


@pytest.mark.parametrize("hook", ["hot", "encode"])
@pytest.mark.parametrize("options", COMPOSED_OPTIONS.values(), ids=COMPOSED_OPTIONS.keys())
def test_bystanders_see_each_edge_once_around_failures(options: dict[str, Any], hook: str) -> None:

    plan = FaultPlan()
    model_engine = composed(4, plan, **options)
    with Served(model_engine) as served:
        attach_all(served, *BYSTANDERS, "bad")
        for number in range(60):
            if number % 5 == 0:
                plan.fail(hook, RuntimeError("x"), session_id="bad", times=2)
            served.do(Action("bad", {"style": number}), *(Action(who, {}, events=[number]) for who in BYSTANDERS))
        served.pump(3)
        for bystander in BYSTANDERS:
            seen = [edge for chunk in served.chunks(bystander) for edge in chunk.output.conditioning.get("events", ())]
            assert seen == list(range(60))


@pytest.mark.parametrize("options", [{"pipeline": False}, {"pipeline": True}], ids=["inline", "pipelined"])
@pytest.mark.parametrize("ticks_before", [0, 1, 2, 3])
def test_edges_that_wait_for_an_encode_survive_a_failed_step(options: dict[str, Any], ticks_before: int) -> None:
    plan = FaultPlan()
    with Served(composed(4, plan, **options)) as served:
        attach_all(served, "left", "bad")
        served.put(Action("left", {"style": 1}, events=["press"]))
        if ticks_before:
            served.pump(ticks_before)
        plan.fail("hot", RuntimeError("x"), session_id="bad")
        served.do(Action("left", {"style": 1}, events=["release"]))
        served.pump(5)
        seen = [edge for chunk in served.chunks("left") for edge in chunk.output.conditioning.get("events", ())]
        assert seen == ["press", "release"]


def test_an_encode_that_always_fails_on_its_thread_is_reported_and_bounded() -> None:
    """The row alternates between an encode that fails and chunks of the old value, or the session ends."""

    plan = FaultPlan(lambda hook, ids: OSError("no text model") if hook == "encode" and "bad" in ids else None)
    with Served(composed(4, plan, pipeline=False, lanes="thread")) as served:
        attach_all(served, *BYSTANDERS, "bad")
        served.do(Action("bad", {"style": 1}))
        served.pump(300)
        failures = [event for event in served.events("bad") if isinstance(event, Failed)]
        assert failures, "the failure was not reported"
        assert failures[-1].fatal or plan.raised <= 0.25 * served.monitor.ticks, "the encode is retried at full rate"
        for bystander in BYSTANDERS:
            assert len(served.chunks(bystander)) >= 0.99 * served.monitor.ticks


@pytest.mark.parametrize("error", [OSError, SystemExit])
def test_a_row_whose_encode_failed_on_its_thread_is_not_lost(error: type[BaseException]) -> None:

    plan = FaultPlan()
    with Served(composed(4, plan, pipeline=False, lanes="thread")) as served:
        attach_all(served, *BYSTANDERS, "bad")
        plan.fail("encode", error("once"), session_id="bad", times=1)
        served.do(Action("bad", {"style": 1}), *(Action(who, {"style": 2}) for who in BYSTANDERS))
        deadline = time.monotonic() + 30  # the encodes end on their own thread, asynchronously
        while any(served.chunks(who)[-1].seq <= 150 for who in (*BYSTANDERS, "bad")):
            assert time.monotonic() < deadline, "a session is skipped forever"
            served.pump()


def test_hot_takes_each_edge_once_although_a_decode_fails() -> None:
    """In a pipeline the decode that fails belongs to a batch whose HOT is over: only that batch's chunk is lost."""

    class Fragile(EchoModel):
        fail_next = False

        def stages(self) -> list[EchoStage]:
            return [EchoStage(Lane.HOT, self._generate), EchoStage(Lane.DEFERRED, self._fail_or_decode)]

        def _fail_or_decode(self, batch: Any) -> None:
            if self.fail_next:
                self.fail_next = False
                raise RuntimeError("decode")
            self._decode(batch)

    model = Fragile(3)
    with Served(ComposedEngine(model, pipeline=True)) as served:
        attach_all(served, *BYSTANDERS)
        for number in range(30):
            model.fail_next = number % 10 == 5
            served.do(*(Action(who, {}, events=[number]) for who in BYSTANDERS))
        served.pump(2)
        for who in BYSTANDERS:
            seen = [edge for run in model.hot for edge in run.get(who, {}).get("events", ())]
            assert seen == list(range(30))


# -- logs


def _manual(engine: RealtimeInterface) -> tuple[ServeLoop, Inbox, ManualClock]:
    clock = ManualClock()
    inbox = Inbox(clock=clock)
    options = ServeOptions(max_consecutive_failures=10**9)
    loop = ServeLoop(engine, inbox, Outbox(4), options, clock=clock, monitor=ServeMonitor())
    return loop, inbox, clock


@pytest.mark.parametrize("hook", ["step", "finalize"])
def test_one_cause_logs_one_line_a_second_with_a_count(hook: str, caplog: pytest.LogCaptureFixture) -> None:

    plan = FaultPlan(lambda called, ids: OSError("broken") if called == hook and ids else None)
    loop, inbox, clock = _manual(FaultyEngine(ScriptedEngine(), plan))
    for name in BYSTANDERS:
        inbox.put_nowait(Attach(name))
    with caplog.at_level(logging.WARNING):
        thread = threading.Thread(target=loop.run, daemon=True)
        thread.start()
        while clock.now_ns() < 10 * NS_PER_S:
            clock.advance_to_sleeper()
        clock.wait_for_sleeper()
        loop.request_stop()
        thread.join(20)
    assert not thread.is_alive()
    lines = [record.getMessage() for record in caplog.records]
    assert 10 <= len(lines) <= 12 + 1, lines
    assert plan.raised > 1000
    assert "more" in lines[1], "suppressed lines are not counted"


def test_a_failing_attach_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    plan = FaultPlan(lambda hook, ids: OSError("no memory") if hook == "attach" else None)
    with caplog.at_level(logging.WARNING), Served(FaultyEngine(ScriptedEngine(), plan)) as served:
        served.do(*[Attach(f"s{number}") for number in range(1000)])
        assert plan.raised == 1000
        assert len(caplog.records) == 1
        assert all(isinstance(served.events(f"s{number}")[0], Rejected) for number in range(1000))


def test_attach_is_not_retried_by_the_loop() -> None:
    plan = FaultPlan()
    plan.fail("attach", OSError("x"), times=10**6)
    with Served(FaultyEngine(ScriptedEngine(), plan)) as served:
        served.do(Attach("a"))
        served.pump(20)
        assert plan.raised == 1


def test_a_refused_admission_is_not_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), Served(ScriptedEngine(max_sessions=1)) as served:
        served.do(Attach("a"), Attach("b"))
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert SessionInit("b").context == {}
