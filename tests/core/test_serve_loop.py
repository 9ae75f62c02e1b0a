"""The serve loop, one round at a time."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from realtime_engine import (
    Action,
    Attach,
    Chunk,
    ComposedEngine,
    Detach,
    EngineManifest,
    Lane,
    Reset,
    SessionInit,
    SetActive,
    StageBatch,
    StepResult,
)
from realtime_engine.core.clock import NS_PER_S
from realtime_engine.core.messages import (
    ActiveChanged,
    Attached,
    Detached,
    Failed,
    Finished,
    Rejected,
    RejectionCode,
    ResetDone,
)
from realtime_engine.testing import FaultPlan, FaultyEngine, FaultyModel, ScriptedEngine
from tests.serving import COMPOSED_OPTIONS, ENGINES, FINISHING_ENGINES, EchoModel, Served, attach_all, composed

TICK_NS = round(NS_PER_S / 60)

pipelines = pytest.mark.parametrize("options", [{"pipeline": False}, {"pipeline": True}], ids=["inline", "pipelined"])
every_finishing_engine = pytest.mark.parametrize("make", FINISHING_ENGINES.values(), ids=FINISHING_ENGINES.keys())
every_engine = pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES.keys())


def _conditioning(chunks: list[Chunk]) -> list[dict[str, Any]]:
    return [chunk.output.conditioning for chunk in chunks]


def _kinds(served: Served, session_id: str) -> list[str]:
    return [type(item).__name__ for item in served.items(session_id)]


# -- attach


@every_engine
def test_attach_is_answered_before_the_first_chunk(make: Any) -> None:
    with Served(make(2, FaultPlan(), FaultPlan())) as served:
        attach_all(served, "a")
        assert served.items("a")[0] == Attached("a", epoch=1)
        assert [chunk.seq for chunk in served.chunks("a")] == list(range(len(served.chunks("a"))))
        assert served.chunks("a")


@every_engine
def test_a_duplicate_attach_changes_nothing_and_is_answered(make: Any) -> None:
    with Served(make(2, FaultPlan(), FaultPlan())) as served:
        served.do(Attach("a", {"seed": 1}), Action("a", {"move": 1}))
        served.pump(2)
        served.do(Attach("a", {"seed": 99}))
        served.pump(2)
        assert served.events("a") == [Attached("a", epoch=1)] * 2
        assert {chunk.output.context["seed"] for chunk in served.chunks("a")} == {1}
        assert [chunk.output.age for chunk in served.chunks("a")] == list(range(len(served.chunks("a"))))
        assert _conditioning(served.chunks("a"))[-1] == {"move": 1}


def test_a_duplicate_attach_in_the_same_round_is_answered_too() -> None:
    with Served(ScriptedEngine()) as served:
        served.do(Attach("a"), Attach("a"))
        assert _kinds(served, "a") == ["Attached", "Attached", "Chunk"]


@every_engine
def test_at_capacity_attach_is_rejected_with_a_reason(make: Any) -> None:
    with Served(make(1, FaultPlan(), FaultPlan())) as served:
        attach_all(served, "a", "b")
        [answer] = served.events("b")
        assert isinstance(answer, Rejected) and "full" in answer.reason and answer.epoch == 0
        assert served.monitor.snapshot().rejected == 1
        served.do(Detach("a"), Attach("b"))
        assert served.events("b")[-1] == Attached("b", epoch=1)


def test_an_attach_that_raises_is_rejected_and_leaves_nothing_behind() -> None:
    plan = FaultPlan()
    engine = FaultyEngine(composed(1, pipeline=False), plan)
    plan.fail("attach", OSError("no memory"))
    with Served(engine) as served:
        served.do(Attach("a"))
        assert served.events("a") == [Rejected("a", "attach() raised OSError: no memory", RejectionCode.MODEL_ERROR)]
        served.do(Attach("a"))
        assert served.events("a")[-1] == Attached("a", epoch=1)


def test_a_seed_that_fails_rejects_only_its_own_session(caplog: pytest.LogCaptureFixture) -> None:
    plan = FaultPlan()
    with Served(ComposedEngine(FaultyModel(EchoModel(3), plan), pipeline=False)) as served:
        attach_all(served, "a")
        before = len(served.chunks("a"))
        plan.fail("seed", ValueError("bad seed"), session_id="2", times=99)  # row 2: session c
        served.do(Attach("b"), Attach("c"))
        served.pump(3)
        assert len(served.chunks("a")) == before + 4
        assert served.events("b") == [Attached("b", epoch=1)] and len(served.chunks("b")) >= 3
        reason = "seed() raised ValueError: bad seed"
        assert served.events("c") == [Rejected("c", reason, RejectionCode.INVALID_CONTEXT, epoch=1)]
        assert "Traceback" in caplog.text and "fault" in caplog.text
        assert served.engine.slot_of("c") is None
        served.do(Action("c", {}))
        assert isinstance(served.events("c")[-1], Rejected)


def test_attach_is_answered_once_the_cohort_is_seeded() -> None:
    class Cohort(EchoModel):
        def seed_ready(self, pending: Mapping[int, Mapping[str, Any]]) -> bool:
            return len(pending) == 2

    with Served(ComposedEngine(Cohort(2), pipeline=False)) as served:
        served.do(Attach("a"), Action("a", {"move": 1}, events=["press"]))
        served.pump(2)
        assert served.items("a") == []
        served.do(Attach("b"))
        assert _kinds(served, "a") == ["Attached", "Chunk"]
        assert _conditioning(served.chunks("a")) == [{"move": 1, "events": ("press",)}]


# -- actions


@every_engine
def test_newest_conditioning_wins_is_replaced_whole_and_persists(make: Any) -> None:
    with Served(make(1, FaultPlan(), FaultPlan())) as served:
        attach_all(served, "a")
        served.do(Action("a", {"x": 1, "y": 1}), Action("a", {"x": 2}, action_id="second"))
        served.pump(3)
        tail = served.chunks("a")[-3:]
        assert _conditioning(tail) == [{"x": 2}] * 3
        assert [chunk.action_id for chunk in tail] == ["second"] * 3


@every_engine
def test_events_reach_exactly_one_step_in_order(make: Any) -> None:
    with Served(make(1, FaultPlan(), FaultPlan())) as served:
        attach_all(served, "a")
        served.do(Action("a", events=["press", "release"]), Action("a", {"x": 1}, events=["wheel"]))
        served.pump(3)
        seen = [given["events"] for given in _conditioning(served.chunks("a")) if "events" in given]
        assert seen == [("press", "release", "wheel")]


def test_an_action_for_an_unattached_id_is_rejected_each_time() -> None:
    with Served(ScriptedEngine()) as served:
        served.do(Action("ghost"), Action("ghost"), SetActive("ghost", False), Reset("ghost"), Detach("ghost"))
        answers = served.events("ghost")
        assert [type(answer) for answer in answers] == [Rejected] * 4 + [Detached]
        assert {answer.epoch for answer in answers} == {0}
        assert served.engine.calls_of("attach") == []
        assert served.engine.calls_of("step") == []


def test_later_mutation_by_the_sender_is_not_seen() -> None:
    pixels, nested, events = np.zeros(3), {"keys": ["w"]}, [["press"]]
    with Served(ScriptedEngine()) as served:
        served.put(Attach("a", {"style": nested}), Action("a", {"image": pixels, "nested": nested}, events=events))
        pixels += 7
        nested["keys"].append("a")
        events[0].append("release")
        served.pump()
        [chunk] = served.chunks("a")
        assert chunk.output.context == {"style": {"keys": ["w"]}}
        assert chunk.output.conditioning["nested"] == {"keys": ["w"]}
        assert chunk.output.conditioning["image"].sum() == 0
        assert chunk.output.conditioning["events"] == (["press"],)


def test_conditioning_that_a_model_changes_does_not_leak_into_the_next_tick() -> None:
    class Greedy(ScriptedEngine):
        def step(self, due: Mapping[str, Any]) -> list[StepResult]:
            results = super().step(due)
            for given in due.values():
                given["junk"] = 1
                given.pop("x", None)
            return results

    with Served(Greedy()) as served:
        served.do(Attach("a"), Action("a", {"x": 1}))
        served.pump(2)
        assert _conditioning(served.chunks("a")) == [{"x": 1}] * 3


@pipelines
def test_conditioning_that_a_stage_changes_does_not_leak_into_the_next_tick(options: dict[str, Any]) -> None:
    class Greedy(EchoModel):
        def _generate(self, batch: Any) -> None:
            super()._generate(batch)
            for given in batch.conditioning.values():
                given["junk"] = 1
                given.pop("x", None)

    with Served(ComposedEngine(Greedy(1), **options)) as served:
        served.do(Attach("a"), Action("a", {"x": 1}))
        served.pump(3)
        assert _conditioning(served.chunks("a"))[:3] == [{"x": 1}] * 3


def test_a_context_that_a_model_changes_is_not_what_an_empty_reset_uses() -> None:
    class Greedy(ScriptedEngine):
        seen: list[dict[str, Any]] = []

        def attach(self, init: SessionInit) -> None:
            super().attach(init)
            self.seen.append(dict(init.context["nested"]))
            init.context["nested"].clear()

    with Served(Greedy()) as served:
        served.do(Attach("a", {"nested": {"deep": 1}}))
        served.do(Reset("a"))
        served.do(Reset("a"))
        assert served.engine.seen == [{"deep": 1}] * 3


# -- reset


@every_engine
def test_reset_begins_a_new_epoch_with_cleared_conditioning(make: Any) -> None:
    with Served(make(2, FaultPlan(), FaultPlan())) as served:
        attach_all(served, "a", "b")
        served.do(Action("a", {"x": 1}, events=["press"], action_id=1))
        served.do(Action("a", {"x": 2}, events=["never seen"]), Reset("a", {"seed": 50}))
        served.pump(3)
        items = served.items("a")
        border = items.index(ResetDone("a", epoch=2))
        before = [item for item in items[:border] if isinstance(item, Chunk)]
        after = [item for item in items[border:] if isinstance(item, Chunk)]
        assert {chunk.epoch for chunk in before} == {1} and {chunk.epoch for chunk in after} == {2}
        assert [chunk.seq for chunk in before + after] == list(range(len(before) + len(after)))
        assert _conditioning(after) == [{}] * len(after) and len(after) >= 3
        assert [chunk.output.age for chunk in after] == list(range(len(after)))
        assert {chunk.output.context["seed"] for chunk in after} == {50}
        assert {chunk.action_id for chunk in after} == {None}
        assert {chunk.stamps.action_received for chunk in after} == {None}


@every_engine
def test_reset_with_an_empty_context_uses_the_last_one(make: Any) -> None:
    with Served(make(1, FaultPlan(), FaultPlan())) as served:
        attach_all(served, "a")
        served.do(Reset("a", {"seed": 7}))
        served.do(Reset("a"))
        served.pump(2)
        assert served.chunks("a")[-1].output.context == {"seed": 7}
        assert served.chunks("a")[-1].epoch == 3
        served.do(Detach("a"), Attach("a"))
        served.pump(2)
        assert "seed" not in served.chunks("a")[-1].output.context, "the context outlived the session"
        assert served.chunks("a")[-1].epoch == 4


def test_reset_of_an_unknown_id_takes_no_slot() -> None:
    with Served(composed(1, pipeline=False)) as served:
        served.do(Reset("ghost", {"seed": 1}))
        [answer] = served.events("ghost")
        assert isinstance(answer, Rejected) and "not attached" in answer.reason
        served.do(Attach("a"))
        assert served.events("a") == [Attached("a", epoch=1)]


@every_engine
def test_reset_keeps_the_pause(make: Any) -> None:
    with Served(make(2, FaultPlan(), FaultPlan())) as served:
        attach_all(served, "a", "b")
        served.do(SetActive("a", False))
        served.do(Reset("a", {"seed": 3}))
        count = len(served.chunks("a"))
        served.pump(5)
        assert len(served.chunks("a")) == count
        assert served.events("a")[1:] == [ActiveChanged("a", False, epoch=1), ResetDone("a", epoch=2)]
        served.do(SetActive("a", True))
        served.pump(2)
        fresh = served.chunks("a")[count:]
        assert [chunk.output.age for chunk in fresh] == list(range(len(fresh))) and fresh
        assert fresh[0].output.context == {"seed": 3}


@pipelines
def test_a_reset_that_may_not_come_back_is_rejected_before_anything_is_released(options: dict[str, Any]) -> None:
    with Served(composed(2, midrun_attach=False, **options)) as served:
        attach_all(served, "a", "b")
        served.do(Action("a", {"x": 1}))
        served.do(Reset("a", {"seed": 5}))
        served.pump(2)
        assert [type(event) for event in served.events("a")] == [Attached, Rejected]
        assert served.events("a")[1].epoch == 1
        chunks = served.chunks("a")
        assert [chunk.output.age for chunk in chunks] == list(range(len(chunks)))
        assert {chunk.epoch for chunk in chunks} == {1}
        assert _conditioning(chunks)[-1] == {"x": 1}, "a refused reset cleared the conditioning"


def test_a_reset_that_loses_its_session_ends_it_with_one_event() -> None:
    plan = FaultPlan()
    with Served(FaultyEngine(ScriptedEngine(), plan)) as served:
        served.do(Attach("a"), Attach("b"))
        plan.fail("attach", RuntimeError("gone"), session_id="a")
        served.do(Reset("a"))
        served.pump(2)
        assert served.events("a")[1:] == [Failed("a", "reset() raised RuntimeError: gone", fatal=True, epoch=1)]
        served.do(Attach("a"))
        assert served.events("a")[-1] == Attached("a", epoch=2)
        assert len(served.chunks("b")) == 5


def test_a_seed_that_fails_after_a_reset_ends_the_session() -> None:
    plan = FaultPlan()
    with Served(ComposedEngine(FaultyModel(EchoModel(2), plan), pipeline=True)) as served:
        attach_all(served, "a", "b")
        plan.fail("seed", ValueError("bad"), session_id="0", times=2)
        served.do(Reset("a"))
        served.pump(3)
        assert served.events("a")[1:] == [Failed("a", "seed() raised ValueError: bad", fatal=True, epoch=2)]
        assert served.engine.slot_of("a") is None
        assert [chunk.seq for chunk in served.chunks("b")] == list(range(len(served.chunks("b"))))


# -- pause


@every_engine
def test_a_paused_session_gets_no_chunk_and_nothing_stale_when_it_resumes(make: Any) -> None:
    with Served(make(2, FaultPlan(), FaultPlan())) as served:
        attach_all(served, "a", "b")
        served.do(Action("a", {"x": 1}))
        served.do(SetActive("a", False))
        served.put(Action("a", {"x": 2}, events=["while paused"], action_id="late"))
        served.pump(5)
        assert served.items("a")[-1] == ActiveChanged("a", False, epoch=1)
        ages = [chunk.output.age for chunk in served.chunks("a")]
        count = len(ages)
        served.do(SetActive("a", True))
        served.pump(3)
        fresh = served.chunks("a")[count:]
        assert served.items("a")[-len(fresh) - 1] == ActiveChanged("a", True, epoch=1)
        assert _conditioning(fresh)[0] == {"x": 2, "events": ("while paused",)}
        assert {chunk.action_id for chunk in fresh} == {"late"}
        assert ages + [chunk.output.age for chunk in fresh] == list(range(count + len(fresh)))


def test_pausing_the_last_session_of_a_pipeline_sends_its_chunk_first() -> None:
    with Served(composed(1, pipeline=True)) as served:
        attach_all(served, "a")
        steps = served.monitor.steps
        served.do(SetActive("a", False))
        assert served.items("a")[-1] == ActiveChanged("a", False, epoch=1)
        assert [chunk.output.age for chunk in served.chunks("a")] == [0, 1]
        assert served.monitor.steps > steps
        waits = len(served.clock.waits)
        served.pump(3)
        assert served.clock.waits[waits:] == [None] * 3, "a pipeline that is empty keeps the loop awake"


def test_pause_and_resume_in_one_round_are_both_answered() -> None:
    with Served(composed(1, pipeline=True)) as served:
        attach_all(served, "a")
        served.do(SetActive("a", False), SetActive("a", True))
        served.pump(2)
        assert served.events("a")[1:] == [ActiveChanged("a", False, epoch=1), ActiveChanged("a", True, epoch=1)]
        assert [chunk.output.age for chunk in served.chunks("a")] == list(range(len(served.chunks("a"))))


@pytest.mark.parametrize("options", COMPOSED_OPTIONS.values(), ids=COMPOSED_OPTIONS.keys())
def test_no_chunk_precedes_the_answer_that_resumes_its_session(options: dict[str, Any]) -> None:
    """Not even when a failed step brings the first chunk out in the very tick of the resume."""
    plan = FaultPlan()
    with Served(FaultyEngine(composed(2, **options), plan)) as served:
        attach_all(served, "a", "b")
        served.do(SetActive("a", False))
        served.pump()
        plan.fail("step", RuntimeError("once"))
        served.do(SetActive("a", True))
        served.pump(2)
        running = True
        for item in served.items("a"):
            if isinstance(item, ActiveChanged):
                running = item.active
            assert running or not isinstance(item, Chunk), "a chunk of a paused session"
        assert running


@pipelines
def test_answers_come_in_the_order_of_the_messages(options: dict[str, Any]) -> None:
    with Served(composed(1, **options)) as served:
        attach_all(served, "a")
        served.do(
            SetActive("a", False), Attach("a"), SetActive("a", True), Reset("a"), SetActive("a", False), Detach("a")
        )
        kinds = [type(event) for event in served.events("a")][1:]
        assert kinds == [ActiveChanged, Attached, ActiveChanged, ResetDone, ActiveChanged, Detached]


def test_a_paused_arrival_is_answered_without_a_step() -> None:
    with Served(composed(1, pipeline=False)) as served:
        served.do(Attach("a"), SetActive("a", False))
        assert served.events("a") == [Attached("a", epoch=1), ActiveChanged("a", False, epoch=1)]


# -- detach


@every_engine
def test_detach_is_answered_once_and_nothing_follows(make: Any) -> None:
    with Served(make(2, FaultPlan(), FaultPlan())) as served:
        attach_all(served, "a", "b")
        served.do(Detach("a"))
        served.pump(3)
        assert served.items("a")[-1] == Detached("a", epoch=1)
        count = len(served.chunks("b"))
        served.pump()
        assert len(served.chunks("b")) == count + 1


@every_engine
def test_the_same_id_carries_on_its_numbers_in_a_later_life(make: Any) -> None:
    with Served(make(1, FaultPlan(), FaultPlan())) as served:
        attach_all(served, "a")
        served.do(Detach("a"))
        served.do(Attach("a"))
        served.pump(3)
        assert [chunk.seq for chunk in served.chunks("a")] == list(range(len(served.chunks("a"))))
        assert served.chunks("a")[-1].epoch == 2 and served.chunks("a")[-1].output.age >= 1


def test_a_detach_that_fails_is_reported_and_retried_with_back_off_until_the_row_is_free() -> None:
    plan = FaultPlan()
    with Served(FaultyEngine(composed(1, pipeline=False), plan)) as served:
        attach_all(served, "a")
        plan.fail("detach", OSError("busy"), times=3)
        served.do(Detach("a"))
        assert served.events("a")[1:] == [Failed("a", "OSError: busy", fatal=True, epoch=1)]
        served.do(Attach("b"))
        assert isinstance(served.events("b")[-1], Rejected)
        moments = []
        while plan.raised < 3:
            served.pump()
            moments.append(served.clock.now)
        served.pump(2)
        assert served.engine.active_sessions == 0
        assert served.clock.waits[-1] is None, "a released row still wakes the loop"
        gaps = [later - earlier for earlier, later in zip(moments, moments[1:], strict=False)]
        assert all(gap >= NS_PER_S // 10 for gap in gaps)
        served.do(Attach("b"))
        assert served.events("b")[-1] == Attached("b", epoch=1)


def test_an_id_whose_row_is_stuck_is_released_at_once_when_it_comes_back() -> None:
    plan = FaultPlan()
    with Served(FaultyEngine(composed(1, pipeline=False), plan)) as served:
        attach_all(served, "a")
        plan.fail("detach", OSError("busy"), times=2)
        served.do(Detach("a"))
        served.do(Attach("a"))
        assert isinstance(served.events("a")[-1], Rejected)
        served.do(Attach("a", {"seed": 9}))
        served.pump()
        assert served.events("a")[-1] == Attached("a", epoch=2)
        fresh = [chunk.output for chunk in served.chunks("a") if chunk.epoch == 2]
        assert fresh[0].context == {"seed": 9} and fresh[0].age == 0


def test_the_retries_of_a_detach_that_always_fails_end() -> None:
    plan = FaultPlan()
    with Served(FaultyEngine(ScriptedEngine(), plan)) as served:
        served.do(Attach("a"))
        plan.fail("detach", OSError("broken"), times=10**6)
        served.do(Detach("a"))
        for _ in range(50):
            served.pump()
        assert plan.raised < 20
        assert served.clock.waits[-1] is None


# -- stop


@every_engine
def test_stop_detaches_everyone_and_answers_what_is_still_in_the_inbox(make: Any) -> None:
    served = Served(make(3, FaultPlan(), FaultPlan()))
    attach_all(served, "a", "b")
    served.put(Attach("c"), Reset("a"), SetActive("b", False), Detach("b"), Action("ghost"), SetActive("ghost", True))
    served.stop()
    assert served.error is None and served.outbox.closed
    assert [type(event) for event in served.events("c")] == [Rejected]
    assert [type(event) for event in served.events("a")] == [Attached, Rejected, Detached]
    assert [type(event) for event in served.events("b")] == [Attached, ActiveChanged, Detached]
    assert [type(event) for event in served.events("ghost")] == [Rejected, Rejected], "the Action is not answered"
    assert served.engine.active_sessions == 0


def test_stop_sends_the_chunk_in_flight() -> None:
    served = Served(composed(1, pipeline=True))
    attach_all(served, "a")
    served.stop()
    assert _kinds(served, "a") == ["Attached", "Chunk", "Chunk", "Detached"]


def test_stop_survives_detach_hooks_that_raise() -> None:
    plan = FaultPlan()
    served = Served(FaultyEngine(ScriptedEngine(), plan))
    attach_all(served, "a", "b", "c")
    plan.fail("detach", SystemExit("never"), session_id="b", times=99)
    served.stop()
    assert served.error is None
    assert served.engine.active_sessions == 1
    assert isinstance(served.events("b")[-1], Failed) and served.events("b")[-1].fatal
    assert served.events("c")[-1] == Detached("c", epoch=1)


def test_an_outbox_closed_by_its_reader_ends_the_loop_and_detaches_everyone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    served = Served(ScriptedEngine())
    attach_all(served, "a", "b", "c")
    steps = served.monitor.steps
    served.outbox.close()
    with caplog.at_level(logging.WARNING):
        served.clock.resume()
        served.clock.until_parked()
    assert served.ended and served.error is None
    assert served.engine.active_sessions == 0
    assert served.monitor.steps == steps + 1, "a closed outbox was taken for a failing session"
    assert [record.levelname for record in caplog.records] == ["WARNING"]


# -- time


def test_ticks_keep_an_absolute_grid() -> None:
    with Served(ScriptedEngine(rate_hz=60.0)) as served:
        served.do(Attach("a"))
        served.pump(600)
        begins = [chunk.stamps.step_begin for chunk in served.chunks("a")]
        assert begins == [begins[0] + tick * TICK_NS for tick in range(601)]
        assert served.monitor.snapshot().overruns == 0


def test_overruns_count_the_deadlines_that_passed_and_no_burst_follows() -> None:
    class Slow(ScriptedEngine):
        stalls = [0, 0, 35_000_000, 0, 0]

        def step(self, due: Mapping[str, Any]) -> list[StepResult]:
            served.clock.now += self.stalls.pop(0) if self.stalls else 0
            return super().step(due)

    with Served(Slow(rate_hz=100.0)) as served:
        served.do(Attach("a"))
        served.pump(5)
        begins = [chunk.stamps.step_begin // 1_000_000 for chunk in served.chunks("a")]
        # The third tick begins at 20 and ends at 55: 30, 40 and 50 have passed; one tick at once, then the grid again.
        assert begins[:5] == [0, 10, 20, 55, 60]
        assert served.monitor.snapshot().overruns == 3
        assert served.clock.yields == 1


def test_nothing_wakes_the_loop_while_nothing_is_due() -> None:
    with Served(ScriptedEngine()) as served:
        assert served.clock.waits == [None]
        served.do(Attach("a"))
        served.do(SetActive("a", False))
        waits = len(served.clock.waits)
        served.clock.now += 3600 * NS_PER_S
        assert served.clock.waits[waits - 1 :] == [None]
        ticks = served.monitor.ticks
        served.do(Action("a", {"x": 1}))
        assert served.monitor.ticks == ticks, "an action for a paused session stepped the engine"
        served.do(SetActive("a", True))
        assert served.monitor.ticks == ticks + 1
        assert served.chunks("a")[-1].stamps.step_begin == served.clock.now, "the loop slept while a session was due"


def test_idleness_is_no_overrun() -> None:
    with Served(ScriptedEngine()) as served:
        served.do(Attach("a"))
        served.do(Detach("a"))
        served.clock.now += 1000 * NS_PER_S
        served.do(Attach("a"))
        served.pump(3)
        assert served.monitor.snapshot().overruns == 0


def test_an_interval_of_zero_never_sleeps_while_a_session_is_due() -> None:
    class Limited(ScriptedEngine):
        def step(self, due: Mapping[str, Any]) -> list[StepResult]:
            served.clock.now += 1000
            if len(self.calls_of("step")) == 50:
                served.inbox.put_nowait(Detach("a"))
            return super().step(due)

    with Served(Limited(), tick_interval_s=0) as served:
        waits = len(served.clock.waits)
        served.do(Attach("a"))
        assert len(served.chunks("a")) == 51
        assert len(served.clock.waits) == waits + 1
        assert served.monitor.overruns == 0


# -- stamps


@every_engine
def test_stamps_and_action_id_belong_to_the_step_that_made_the_chunk(make: Any) -> None:
    with Served(make(2, FaultPlan(), FaultPlan())) as served:
        attach_all(served, "a", "b")
        sent: dict[int, int] = {}
        for number in range(6):
            served.clock.now += 1_000_000
            sent[number] = served.clock.now
            served.do(Action("a", {"n": number}, action_id=number))
        served.pump(2)
        tagged = [chunk for chunk in served.chunks("a") if chunk.action_id is not None]
        assert [chunk.action_id for chunk in tagged][:6] == list(range(6))
        for chunk in tagged:
            stamps = chunk.stamps
            assert chunk.output.conditioning["n"] == chunk.action_id, "the chunk is stamped with another chunk's action"
            assert stamps.action_received == sent[chunk.action_id]
            assert stamps.action_received <= stamps.step_begin <= stamps.step_end <= stamps.emitted
        assert all(chunk.action_id is None for chunk in served.chunks("b"))
        begins = [chunk.stamps.step_begin for chunk in served.chunks("a")]
        assert begins == sorted(set(begins))


@pytest.mark.parametrize("hook", ["hot", "deferred"])
@pytest.mark.parametrize("options", COMPOSED_OPTIONS.values(), ids=COMPOSED_OPTIONS.keys())
def test_stamps_stay_right_around_failures(options: dict[str, Any], hook: str) -> None:
    plan = FaultPlan()
    with Served(composed(3, plan, **options)) as served:
        attach_all(served, "a", "b", "c")
        for number in range(12):
            if number in (3, 6, 7):
                plan.fail(hook, RuntimeError("x"), session_id="b", times=1 if number == 3 else 3)
            served.do(*(Action(who, {"n": (who, number)}, action_id=(who, number)) for who in "abc"))
        served.pump(2)
        for who in "abc":
            chunks = [chunk for chunk in served.chunks(who) if chunk.output.conditioning]
            assert len(chunks) >= 5
            assert all(chunk.action_id == chunk.output.conditioning["n"] for chunk in chunks)
            assert [chunk.seq for chunk in served.chunks(who)] == list(range(len(served.chunks(who))))
            begins = [chunk.stamps.step_begin for chunk in served.chunks(who)]
            assert begins == sorted(begins)


def test_the_monitor_measures_from_the_inbox_to_the_step() -> None:
    with Served(ScriptedEngine()) as served:
        served.do(Attach("a"))
        served.put(Action("a", {"x": 1}))
        served.pump()
        snapshot = served.monitor.snapshot()
        assert snapshot.input_to_step.count == 1
        assert snapshot.input_to_step.max_ns == TICK_NS
        assert (snapshot.ticks, snapshot.steps, snapshot.chunks) == (2, 2, 2)
        assert snapshot.step.count == 2


def test_an_action_that_no_step_uses_is_not_measured() -> None:
    with Served(ScriptedEngine()) as served:
        served.do(Attach("a"))
        served.do(Action("a", {"x": 1}), Detach("a"))
        served.clock.now += 3600 * NS_PER_S
        served.do(Attach("a"))
        served.pump()
        assert served.monitor.snapshot().input_to_step.count == 0


# -- odd input and odd engines


def test_a_subclass_of_a_message_does_not_end_the_loop() -> None:
    @dataclass(frozen=True)
    class MyAttach(Attach):
        note: str = ""

    with Served(ScriptedEngine()) as served:
        served.do(MyAttach("a", note="mine"))
        served.pump()
        assert served.events("a") == [Attached("a", epoch=1)]


def test_an_engine_may_return_fewer_results_than_sessions() -> None:
    class Forgetful(ScriptedEngine):
        def step(self, due: Mapping[str, Any]) -> list[StepResult]:
            return super().step({key: given for key, given in due.items() if key != "a"})

    with Served(Forgetful()) as served:
        attach_all(served, "a", "b")
        assert served.events("a") == [Attached("a", epoch=1)]
        assert len(served.chunks("b")) == 2 and not served.chunks("a")


def test_a_chunk_for_an_unattached_session_is_discarded_and_counted() -> None:
    class Stray(ScriptedEngine):
        def step(self, due: Mapping[str, Any]) -> list[StepResult]:
            return [StepResult("unknown", 1), *super().step(due)]

    with Served(Stray()) as served:
        attach_all(served, "a")
        assert served.items("unknown") == []
        assert served.monitor.snapshot().foreign == 2
        assert len(served.chunks("a")) == 2


def test_a_chunk_for_a_paused_session_is_discarded() -> None:
    class Eager(ScriptedEngine):
        def step(self, due: Mapping[str, Any]) -> list[StepResult]:
            return super().step(dict.fromkeys(self._contexts, {}))

    with Served(Eager()) as served:
        attach_all(served, "a", "b")
        served.do(SetActive("a", False))
        served.pump(3)
        assert served.items("a")[-1] == ActiveChanged("a", False, epoch=1)


def test_a_manifest_that_raises_ends_the_loop_with_the_outbox_closed() -> None:
    class Broken(ScriptedEngine):
        def manifest(self) -> EngineManifest:
            raise OSError("no device")

    served = Served(Broken())
    assert served.ended and isinstance(served.error, OSError)
    assert served.outbox.closed


def test_a_detach_of_a_row_that_is_still_stuck_is_not_answered_with_detached() -> None:
    plan = FaultPlan()
    with Served(FaultyEngine(ScriptedEngine(), plan)) as served:
        attach_all(served, "a")
        plan.fail("detach", OSError("busy"), times=2)
        served.do(Detach("a"))
        served.do(Detach("a"))
        served.do(Detach("a"))
        answers = served.events("a")[1:]
        assert [type(answer) for answer in answers] == [Failed, Failed, Detached]


def test_the_last_chunks_of_a_pipeline_are_finalized_too() -> None:
    engine = ScriptedFinalize(2)
    with Served(engine) as served:
        attach_all(served, "a", "b")
        served.pump(3)
    chunks = served.chunks("a") + served.chunks("b")
    assert len(engine.finalized) == len(chunks)


class ScriptedFinalize:
    """A pipelined engine that counts what is finalized."""

    def __init__(self, size: int) -> None:
        self._engine = composed(size, pipeline=True)
        self.finalized: list[str] = []

    def finalize(self, session_ids: list[str]) -> None:
        self.finalized.extend(session_ids)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


# -- rollouts that end


@every_finishing_engine
def test_finished_follows_the_last_chunk_and_no_chunk_follows_it(make: Any) -> None:
    with Served(make(2, 3)) as served:
        attach_all(served, "a")
        served.pump(4)
        served.do(Attach("b", {"seed": 1}))
        served.pump(6)
        for name in "ab":
            assert _kinds(served, name) == ["Attached", "Chunk", "Chunk", "Chunk", "Finished"]
            assert [chunk.output.age for chunk in served.chunks(name)] == [0, 1, 2]
            assert served.events(name)[-1] == Finished(name, epoch=1)
        assert served.monitor.snapshot().foreign == 0


@every_finishing_engine
def test_a_finished_session_costs_the_others_no_chunk(make: Any) -> None:
    with Served(make(2, 4)) as served:
        served.do(Attach("a", {"seed": 1}))
        served.pump(2)
        served.do(Attach("b", {"seed": 2}))
        served.pump(8)
        assert [chunk.output.age for chunk in served.chunks("b")] == [0, 1, 2, 3]
        assert {chunk.output.context["seed"] for chunk in served.chunks("b")} == {2}


@every_finishing_engine
def test_reset_starts_a_finished_session_again(make: Any) -> None:
    with Served(make(1, 2)) as served:
        attach_all(served, "a")
        served.pump(3)
        assert isinstance(served.items("a")[-1], Finished)
        served.do(Reset("a", {"seed": 7}))
        served.pump(5)
        assert _kinds(served, "a") == [
            "Attached",
            "Chunk",
            "Chunk",
            "Finished",
            "ResetDone",
            "Chunk",
            "Chunk",
            "Finished",
        ]
        assert [chunk.output.age for chunk in served.chunks("a")] == [0, 1, 0, 1]
        assert [chunk.seq for chunk in served.chunks("a")] == [0, 1, 2, 3]
        assert served.chunks("a")[-1].output.context == {"seed": 7}
        assert served.events("a")[-1] == Finished("a", epoch=2)


@every_finishing_engine
def test_a_finished_session_is_still_attached(make: Any) -> None:
    with Served(make(1, 1)) as served:
        attach_all(served, "a")
        served.pump(2)
        served.do(SetActive("a", False), SetActive("a", True), Action("a", {"x": 1}), Attach("b"))
        assert served.events("a")[1:] == [
            Finished("a", epoch=1),
            ActiveChanged("a", False, epoch=1),
            ActiveChanged("a", True, epoch=1),
        ]
        [refused] = served.events("b")
        assert isinstance(refused, Rejected) and "full" in refused.reason
        served.do(Detach("a"))
        assert _kinds(served, "a").count("Chunk") == 1
        assert served.events("a")[-1] == Detached("a", epoch=1)


def test_nothing_wakes_the_loop_when_every_session_has_finished() -> None:
    with Served(ScriptedEngine(rollout_chunks=2)) as served:
        attach_all(served, "a", "b")
        served.pump()
        assert served.clock.waits[-1] is None
        assert len(served.engine.calls_of("step")) == 2


def test_pausing_a_session_whose_last_chunk_is_in_flight() -> None:
    with Served(ComposedEngine(EchoModel(1, rollout_chunks=2), pipeline=True)) as served:
        served.do(Attach("a"))
        served.pump()
        served.do(SetActive("a", False))
        served.pump(2)
        assert _kinds(served, "a") == ["Attached", "Chunk", "Chunk", "ActiveChanged", "Finished"]


@every_engine
def test_max_chunks_finishes_each_epoch_of_any_engine(make: Any) -> None:
    with Served(make(2, FaultPlan(), FaultPlan()), max_chunks=2) as served:
        attach_all(served, "a")
        served.do(Attach("b", {"seed": 1}))
        served.pump(4)
        served.do(Reset("a"))
        served.pump(5)
        assert _kinds(served, "b") == ["Attached", "Chunk", "Chunk", "Finished"]
        assert _kinds(served, "a") == [
            "Attached",
            "Chunk",
            "Chunk",
            "Finished",
            "ResetDone",
            "Chunk",
            "Chunk",
            "Finished",
        ]
        assert [chunk.output.age for chunk in served.chunks("a")] == [0, 1, 0, 1]
        assert served.monitor.snapshot().foreign == 0


def test_a_rollout_that_ends_before_max_chunks_finishes_once() -> None:
    with Served(ScriptedEngine(rollout_chunks=1), max_chunks=2) as served:
        attach_all(served, "a")
        served.pump(3)
        assert _kinds(served, "a") == ["Attached", "Chunk", "Finished"]


@pytest.mark.parametrize("ends_on", [Lane.HOT, Lane.DEFERRED], ids=["hot", "deferred"])
@pipelines
def test_a_last_chunk_that_is_lost_is_replaced_by_the_next(options: dict[str, Any], ends_on: Lane) -> None:
    plan = FaultPlan()
    model = EchoModel(2, rollout_chunks=3, ends_on=ends_on)
    with Served(ComposedEngine(FaultyModel(model, plan), **options)) as served:
        attach_all(served, "a", "b")
        while len(served.chunks("a")) < 2:
            served.pump()
        plan.fail("deferred", ValueError("lost"), session_id="a", times=2)
        served.pump(6)
        assert _kinds(served, "a") == ["Attached", "Chunk", "Chunk", "Failed", "Chunk", "Finished"]
        assert _kinds(served, "b") == ["Attached", "Chunk", "Chunk", "Chunk", "Finished"]
        assert [chunk.output.age for chunk in served.chunks("a")] == [0, 1, 3]
        assert [chunk.output.age for chunk in served.chunks("b")] == [0, 1, 2]


@pipelines
def test_a_last_chunk_without_an_output_is_a_failure_of_its_session(options: dict[str, Any]) -> None:
    class Silent(EchoModel):
        def _decode(self, batch: StageBatch) -> None:
            super()._decode(batch)
            if batch.finished and "a" in batch.outputs and batch.ages[0] == 2:
                del batch.outputs["a"]

    with Served(ComposedEngine(Silent(2, rollout_chunks=3), **options)) as served:
        attach_all(served, "a", "b")
        served.pump(6)
        assert _kinds(served, "a") == ["Attached", "Chunk", "Chunk", "Failed", "Chunk", "Finished"]
        [failed] = [event for event in served.events("a") if isinstance(event, Failed)]
        assert failed.error == "EngineContractError: batch.finished has row 0, batch.outputs has no 'a'"
        assert _kinds(served, "b") == ["Attached", "Chunk", "Chunk", "Chunk", "Finished"]


def test_an_engine_that_makes_a_chunk_after_the_last_is_reported() -> None:
    class Careless(ScriptedEngine):
        def step(self, due: Mapping[str, Mapping[str, Any]]) -> list[StepResult]:
            return super().step({**due, "a": {}} if "a" in self._contexts else due)

    with Served(Careless(rollout_chunks=1)) as served:
        attach_all(served, "a", "b")
        served.pump()
        assert _kinds(served, "a") == ["Attached", "Chunk", "Finished"]
        assert served.monitor.snapshot().foreign == 0
        served.do(Attach("c"))
        served.pump()
        assert served.monitor.snapshot().foreign == 1
        assert _kinds(served, "a") == ["Attached", "Chunk", "Finished"]


def test_a_result_that_is_no_result_undoes_the_end_of_the_others() -> None:
    class Odd(ScriptedEngine):
        odd = True

        def step(self, due: Mapping[str, Mapping[str, Any]]) -> list[Any]:
            results: list[Any] = [*super().step(due)]
            if len(due) > 1 and self.odd:
                self.odd = False
                return [*(StepResult(result.session_id, result.output, last=True) for result in results), "odd"]
            return results

    with Served(Odd()) as served:
        attach_all(served, "a", "b")
        served.pump(2)
        for name in "ab":
            assert Finished(name, epoch=1) not in served.events(name)
            assert len(served.chunks(name)) == 4
