from __future__ import annotations

import pytest

from realtime_engine import ComposedEngine, SessionInit
from realtime_engine.examples import CpuStageModel
from realtime_engine.testing import EngineCase, FaultPlan, FaultyEngine, FaultyModel, ScriptedEngine, check_engine


def test_without_orders_nothing_changes():
    check_engine(EngineCase(make_engine=lambda n: FaultyEngine(ScriptedEngine(n), FaultPlan())))
    check_engine(
        EngineCase(
            make_engine=lambda n: ComposedEngine(FaultyModel(CpuStageModel(n), FaultPlan()), pipeline=True),
            heavy=("prompt", "x", "y"),
        )
    )


@pytest.mark.parametrize(
    ("hook", "call"),
    [
        ("attach", lambda engine: engine.attach(SessionInit("a"))),
        ("step", lambda engine: engine.step({"a": {}})),
        ("finalize", lambda engine: engine.finalize(["a"])),
        ("detach", lambda engine: engine.detach("a")),
    ],
)
def test_an_order_fails_its_hook_and_the_engine_is_not_reached(hook, call):
    plan, inner = FaultPlan(), ScriptedEngine()
    engine = FaultyEngine(inner, plan)
    plan.fail(hook, KeyError("on order"))
    with pytest.raises(KeyError, match="on order"):
        call(engine)
    assert inner.calls == []
    call(engine)
    assert [entry.hook for entry in inner.calls] == [hook]
    assert plan.raised == 1


def test_an_order_for_a_session_leaves_others_alone():
    plan = FaultPlan()
    engine = FaultyEngine(ScriptedEngine(), plan)
    plan.fail("step", ValueError(), session_id="b", times=2)
    engine.step({"a": {}})
    for _ in range(2):
        with pytest.raises(ValueError):
            engine.step({"a": {}, "b": {}})
    engine.step({"b": {}})


def test_an_order_can_let_some_calls_pass_first():
    plan = FaultPlan()
    engine = FaultyEngine(ScriptedEngine(), plan)
    plan.fail("step", ValueError(), session_id="b", skip=1)
    for due in ({"b": {}}, {"a": {}}):
        engine.step(due)
    with pytest.raises(ValueError):
        engine.step({"b": {}})
    engine.step({"b": {}})


def test_poison_raises_where_the_stage_looks_at_the_conditioning_and_is_gone_with_the_next_step():
    plan = FaultPlan()
    model = CpuStageModel(2)
    engine = ComposedEngine(FaultyModel(model, plan), pipeline=False)
    for name in "ab":
        engine.attach(SessionInit(name))
    due = {"a": {"move": 1}, "b": {"move": 2}}
    plan.poison("hot", ValueError("poisoned"), session_id="b")
    engine.step({"a": {"move": 1}})
    assert plan.raised == 0
    with pytest.raises(ValueError, match="poisoned"):
        engine.step(due)
    assert plan.raised == 1
    assert [result.session_id for result in engine.step(due)] == ["a", "b"]


def test_poison_spares_a_stage_that_does_not_look():
    plan = FaultPlan()
    engine = ComposedEngine(FaultyModel(CpuStageModel(1), plan), pipeline=False)
    engine.attach(SessionInit("a"))
    plan.poison("deferred", ValueError("poisoned"), session_id="a")
    for _ in range(2):
        assert len(engine.step({"a": {"move": 1}})) == 1
    assert plan.raised == 0


def test_decide_is_asked_for_each_call():
    asked = []

    def decide(hook, session_ids):
        asked.append((hook, sorted(session_ids)))
        return RuntimeError("decided") if hook == "finalize" else None

    engine = FaultyEngine(ScriptedEngine(), FaultPlan(decide))
    engine.step({"b": {}, "a": {}})
    with pytest.raises(RuntimeError, match="decided"):
        engine.finalize(["a"])
    assert asked == [("step", ["a", "b"]), ("finalize", ["a"])]


@pytest.mark.parametrize("hook", ["seed", "hot", "deferred", "encode", "detach"])
def test_every_hook_of_a_model_can_fail(hook):
    plan = FaultPlan()
    engine = ComposedEngine(FaultyModel(CpuStageModel(2), plan), pipeline=False)
    plan.fail(hook, ValueError(f"{hook} on order"))
    engine.attach(SessionInit("a", {"prompt": "x"}))
    with pytest.raises((ValueError, RuntimeError), match=f"{hook} on order"):
        engine.step({"a": {"prompt": "x"}})
        engine.step({"a": {"prompt": "y"}})
        engine.detach("a")
    assert plan.raised == 1


def test_optional_hooks_are_the_models_own():
    model = FaultyModel(CpuStageModel(heavy_keys=("image",)), FaultPlan())
    assert list(model.heavy_keys()) == ["image"]
    assert not hasattr(model, "seed_ready")
    assert FaultyEngine(ScriptedEngine(), FaultPlan()).active_sessions == 0
