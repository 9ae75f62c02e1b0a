from __future__ import annotations

import copy
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime_engine import (
    Action,
    AdmissionError,
    Attach,
    ComposedEngine,
    EngineManifest,
    Failed,
    Lane,
    SessionInit,
    StepFailure,
)

from ..serving import Served
from .stage_models import FailFor, Gate, RecordingModel

MODES = {
    "inline": {"pipeline": False},
    "pipelined": {"pipeline": True},
    "threaded": {"pipeline": False, "lanes": "thread"},
    "threaded-pipelined": {"pipeline": True, "lanes": "thread"},
    "late-pipelined": {"pipeline": True, "lanes": "late"},
}
every_mode = pytest.mark.parametrize("mode", list(MODES))
pipelined_modes = pytest.mark.parametrize("mode", ["pipelined", "threaded-pipelined", "late-pipelined"])


def build(mode: str = "inline", model: RecordingModel | None = None, **options) -> ComposedEngine:
    return ComposedEngine(model or RecordingModel(), **MODES[mode], **options)


def attach(engine: ComposedEngine, *names: str, **context) -> None:
    for name in names:
        engine.attach(SessionInit(name, dict(context)))


def step(engine: ComposedEngine, **due) -> dict[str, object]:
    """Step, and give what came out of it by session."""
    results = engine.step(due)
    outputs = {result.session_id: result.output for result in results}
    assert len(outputs) == len(results), "two chunks of one session in one step"
    return outputs


def let_encodes_end(engine: ComposedEngine) -> None:
    engine._lanes.encode.sync()


def raiser(error: BaseException):
    def raise_it(_: object) -> None:
        raise error

    return raise_it


class TestConstruction:
    def test_a_model_without_a_hot_stage_is_refused(self):
        with pytest.raises(ValueError, match="HOT"):
            ComposedEngine(RecordingModel(lanes=(Lane.DEFERRED, Lane.ENCODE)))

    @pytest.mark.parametrize("given", ["cuda", "", None, "THREAD"])
    def test_unknown_lanes_are_refused(self, given):
        with pytest.raises(ValueError, match="lanes"):
            ComposedEngine(RecordingModel(), lanes=given)

    def test_an_unknown_heavy_policy_is_refused(self):
        with pytest.raises(ValueError, match="run_wild"):
            ComposedEngine(RecordingModel(heavy_policy=lambda: "run_wild"))

    def test_the_manifest_is_the_models_with_the_depth_of_the_pipeline(self):
        assert build("inline").manifest() == EngineManifest(4, (1,), 30.0)
        assert build("pipelined").manifest() == EngineManifest(4, (1,), 30.0, pipeline_depth_chunks=2)
        assert build("pipelined").manifest().action_to_output_chunks == 2

    def test_without_cuda_the_default_is_no_pipeline(self):
        engine = ComposedEngine(RecordingModel())
        assert not engine.pipelined
        assert engine.manifest().pipeline_depth_chunks == 1

    def test_a_pipeline_works_without_cuda(self):
        assert build("pipelined").pipelined

    @pytest.mark.parametrize("pipeline", [True, False])
    def test_a_model_that_decodes_in_hot_needs_no_deferred_stage(self, pipeline):
        engine = ComposedEngine(RecordingModel(lanes=(Lane.HOT,)), pipeline=pipeline)
        attach(engine, "a")
        outputs = [step(engine, a={}) for _ in range(3)] + [step(engine)]
        assert [made["a"].age for made in outputs if made] == [0, 1, 2]

    def test_heavy_keys_of_a_model_without_an_encode_stage_are_cheap(self):
        engine = ComposedEngine(RecordingModel(lanes=(Lane.HOT, Lane.DEFERRED)))
        attach(engine, "a", prompt="x")
        assert "a" in step(engine, a={"prompt": "y"})


class TestAdmission:
    def test_lowest_free_row_first(self):
        engine = build()
        attach(engine, *"abcd")
        assert [engine.slot_of(name) for name in "abcd"] == [0, 1, 2, 3]
        engine.detach("c")
        engine.detach("a")
        attach(engine, "e", "f")
        assert (engine.slot_of("e"), engine.slot_of("f")) == (0, 2)

    def test_a_full_engine_refuses(self):
        engine = build(model=RecordingModel(2))
        attach(engine, "a", "b")
        with pytest.raises(AdmissionError, match="2"):
            attach(engine, "c")
        assert engine.active_sessions == 2
        engine.detach("a")
        attach(engine, "c")

    @every_mode
    def test_attach_of_an_attached_id_changes_nothing(self, mode):
        model = RecordingModel(1)
        engine = build(mode, model)
        attach(engine, "a", prompt="x")
        step(engine, a={})
        attach(engine, "a", prompt="other")
        made = {**step(engine, a={}), **step(engine)}["a"]
        assert (made.age, made.prompt) == (1, "x")
        assert len(model.calls("seed")) == 1
        assert engine.active_sessions == 1

    def test_a_bad_context_takes_no_row(self):
        engine = build(model=RecordingModel(1))
        with pytest.raises(TypeError):
            engine.attach(SessionInit("a", None))
        attach(engine, "b")
        assert engine.slot_of("b") == 0

    @every_mode
    def test_detach_is_idempotent_and_unknown_ids_do_nothing(self, mode):
        model = RecordingModel()
        engine = build(mode, model)
        engine.detach("unknown")
        attach(engine, "a")
        engine.detach("a")
        engine.detach("a")
        assert model.calls("detach") == [(0, "a")]
        assert engine.active_sessions == 0
        assert engine.slot_of("a") is None

    def test_a_later_change_of_the_context_is_not_seen(self):
        model, context = RecordingModel(), {"prompt": "x"}
        engine = build(model=model)
        engine.attach(SessionInit("a", context))
        context["prompt"] = "changed"
        step(engine)
        assert model.calls("seed") == [{0: {"prompt": "x"}}]

    @every_mode
    def test_a_row_is_reused_fresh(self, mode):
        engine = build(mode, RecordingModel(1))
        attach(engine, "a", prompt="x")
        for n in range(3):
            step(engine, a={"events": (n,)})
        engine.detach("a")
        attach(engine, "b", prompt="y")
        made = {**step(engine, b={}), **step(engine)}
        assert (made["b"].age, made["b"].prompt, made["b"].conditioning) == (0, "y", {})

    @every_mode
    def test_an_id_that_comes_back_is_fresh(self, mode):
        engine = build(mode)
        attach(engine, "a")
        step(engine, a={})
        engine.detach("a")
        attach(engine, "a")
        assert {**step(engine, a={}), **step(engine)}["a"].age == 0

    def test_a_model_whose_detach_fails_keeps_the_session_until_it_works(self):
        model = RecordingModel(1)
        engine = build(model=model)
        attach(engine, "a")
        step(engine, a={})
        model.before["detach"] = raiser(OSError("busy"))
        with pytest.raises(OSError):
            engine.detach("a")
        assert engine.slot_of("a") == 0
        with pytest.raises(AdmissionError):
            attach(engine, "b")
        assert step(engine, a={})["a"].age == 1
        del model.before["detach"]
        engine.detach("a")
        attach(engine, "b")

    def test_detach_before_the_first_step(self):
        model = RecordingModel()
        engine = build(model=model)
        attach(engine, "a", "b")
        engine.detach("a")
        step(engine, b={})
        assert list(model.calls("seed")[0]) == [1]

    def test_midrun_attach_false_refuses_a_later_arrival(self):
        engine = build(midrun_attach=False)
        attach(engine, "a", "b")
        step(engine, a={})
        attach(engine, "a")
        with pytest.raises(AdmissionError, match="midrun_attach"):
            attach(engine, "c")
        engine.detach("a")
        engine.detach("b")
        attach(engine, "c")

    def test_midrun_attach_false_and_a_cohort_that_is_not_ready_still_admits(self):
        engine = build(model=RecordingModel(seed_ready=lambda pending: len(pending) >= 2), midrun_attach=False)
        attach(engine, "a")
        assert step(engine, a={}) == {}
        attach(engine, "b")
        assert set(step(engine, a={}, b={})) == {"a", "b"}


class TestReset:
    @every_mode
    def test_a_reset_session_starts_over_with_its_new_context(self, mode):
        engine = build(mode)
        attach(engine, "a", "b", prompt="x")
        for _ in range(3):
            step(engine, a={}, b={})
        engine.reset(SessionInit("a", {"prompt": "z"}))
        made = {**step(engine, a={}, b={}), **step(engine)}
        assert (made["a"].age, made["a"].prompt) == (0, "z")
        assert (made["b"].age, made["b"].prompt) == (3, "x")

    def test_reset_of_an_unknown_id_is_refused_and_takes_no_row(self):
        engine = build()
        with pytest.raises(AdmissionError, match="'a'"):
            engine.reset(SessionInit("a"))
        assert engine.active_sessions == 0

    def test_reset_in_a_running_cohort_is_refused_before_anything_is_released(self):
        model = RecordingModel()
        engine = build(model=model, midrun_attach=False)
        attach(engine, "a", "b")
        step(engine, a={}, b={})
        with pytest.raises(AdmissionError, match="midrun_attach"):
            engine.reset(SessionInit("a"))
        assert model.calls("detach") == []
        assert step(engine, a={})["a"].age == 1

    def test_reset_of_the_only_session_of_a_cohort_is_admitted(self):
        engine = build(midrun_attach=False)
        attach(engine, "a")
        step(engine, a={})
        engine.reset(SessionInit("a"))
        assert step(engine, a={})["a"].age == 0

    def test_reset_works_on_a_full_engine(self):
        engine = build(model=RecordingModel(2))
        attach(engine, "a", "b")
        step(engine, a={}, b={})
        engine.reset(SessionInit("b"))
        assert engine.slot_of("b") == 1

    def test_a_reset_with_a_bad_context_releases_nothing(self):
        engine = build()
        attach(engine, "a")
        step(engine, a={})
        with pytest.raises(TypeError):
            engine.reset(SessionInit("a", None))
        assert engine.slot_of("a") == 0


class TestStep:
    def test_results_come_in_row_order_whatever_the_order_of_due(self):
        engine = build()
        attach(engine, *"abcd")
        engine.detach("a")
        attach(engine, "e")
        results = engine.step({name: {} for name in "dceb"})
        assert [result.session_id for result in results] == ["e", "b", "c", "d"]

    def test_step_ms_is_in_the_stats(self):
        engine = build()
        attach(engine, "a")
        (result,) = engine.step({"a": {}})
        assert result.stats["step_ms"] >= 0.0

    @every_mode
    def test_unknown_ids_are_ignored(self, mode):
        engine = build(mode)
        assert step(engine, unknown={}) == {}
        attach(engine, "a")
        assert set({**step(engine, unknown={}, a={}), **step(engine)}) == {"a"}

    @every_mode
    def test_residents_that_are_not_due_stay_where_they_are(self, mode):
        engine = build(mode)
        attach(engine, "a", "b")
        due = [{"a": {}, "b": {}}, *[{"a": {}}] * 3, {"b": {}}, {}]
        chunks = [step(engine, **sessions) for sessions in due]
        assert [made["a"].age for made in chunks if "a" in made] == [0, 1, 2, 3]
        assert [made["b"].age for made in chunks if "b" in made] == [0, 1]

    def test_the_batch_holds_those_that_take_part_and_the_whole_arena(self):
        model = RecordingModel()
        engine = build(model=model)
        attach(engine, "a", "b", "c")
        step(engine, a={"n": 1}, c={"n": 3}, ghost={})
        (batch,) = model.batches
        assert batch.slots == {0: "a", 1: None, 2: "c", 3: None}
        assert batch.conditioning == {"a": {"n": 1}, "c": {"n": 3}}
        assert batch.due == {"a", "c"}
        assert batch.ages == {0: 0, 2: 0}

    def test_a_stage_may_change_its_conditioning_without_the_caller_seeing_it(self):
        model = RecordingModel()
        model.before["hot"] = lambda batch: batch.conditioning["a"].update(changed=True)
        engine = build(model=model)
        attach(engine, "a")
        mine = {"n": 1}
        engine.step({"a": mine})
        assert mine == {"n": 1}

    def test_no_stage_runs_without_rows(self):
        model = RecordingModel()
        engine = build(model=model)
        step(engine)
        attach(engine, "a")
        step(engine)
        assert [hook for hook, _ in model.log] == ["seed"]

    def test_outputs_for_sessions_that_take_no_part_are_discarded(self):
        model = RecordingModel()
        model.before["hot"] = lambda batch: batch.outputs.update(b="stray", ghost="stray")
        engine = build(model=model)
        attach(engine, "a", "b")
        assert set(step(engine, a={})) == {"a"}

    def test_a_stage_may_give_fewer_outputs(self):
        model = RecordingModel(lanes=(Lane.HOT, Lane.DEFERRED))
        model._decode = lambda batch: batch.outputs.update(a=1)
        engine = build(model=model)
        attach(engine, "a", "b")
        assert step(engine, a={}, b={}) == {"a": 1}

    def test_finalize_does_nothing(self):
        build().finalize(["a", "unknown"])

    def test_several_stages_of_one_lane_run_in_their_order(self):
        class TwoHot(RecordingModel):
            def stages(self):
                first, second = super().stages(), super().stages()
                return [*first, *second]

        model = TwoHot(lanes=(Lane.HOT, Lane.DEFERRED))
        engine = build(model=model)
        attach(engine, "a")
        step(engine, a={})
        assert [hook for hook, _ in model.log] == ["seed", "hot", "hot", "deferred", "deferred"]


class TestPipeline:
    @pipelined_modes
    def test_the_first_step_emits_nothing_and_an_empty_one_flushes(self, mode):
        engine = build(mode)
        attach(engine, "a")
        assert step(engine, a={"n": 0}) == {}
        for n in range(1, 4):
            made = step(engine, a={"n": n})["a"]
            assert (made.age, made.conditioning) == (n - 1, {"n": n - 1})
        assert step(engine)["a"].age == 3
        assert step(engine) == {}

    @pipelined_modes
    def test_a_join_does_not_disturb_what_is_in_flight(self, mode):
        engine = build(mode)
        attach(engine, "a")
        step(engine, a={})
        attach(engine, "b")
        assert {name: made.age for name, made in step(engine, a={}, b={}).items()} == {"a": 0}
        assert {name: made.age for name, made in step(engine, a={}, b={}).items()} == {"a": 1, "b": 0}

    @pipelined_modes
    def test_detach_removes_one_row_from_what_is_in_flight(self, mode):
        model = RecordingModel()
        engine = build(mode, model)
        attach(engine, "a", "b", "c")
        step(engine, a={}, b={}, c={})
        engine.detach("b")
        assert {name: made.age for name, made in step(engine, a={}, c={}).items()} == {"a": 0, "c": 0}
        assert model.calls("deferred") == [["a", "c"]]

    @pipelined_modes
    def test_a_row_taken_over_while_a_chunk_is_in_flight_shows_no_stale_chunk(self, mode):
        engine = build(mode, RecordingModel(2))
        attach(engine, "a", "b")
        step(engine, a={}, b={})
        engine.detach("a")
        attach(engine, "c")
        assert set(step(engine, c={}, b={})) == {"b"}
        assert {name: made.age for name, made in step(engine).items()} == {"b": 1, "c": 0}

    @pipelined_modes
    def test_a_reset_destroys_the_sessions_chunk_in_flight_and_no_other(self, mode):
        engine = build(mode)
        attach(engine, "a", "b")
        step(engine, a={}, b={})
        engine.reset(SessionInit("a"))
        assert set(step(engine, a={}, b={})) == {"b"}
        assert {name: made.age for name, made in step(engine).items()} == {"a": 0, "b": 1}

    def test_deferred_runs_beside_hot_on_threads(self):
        """DEFERRED of chunk 0 is held until HOT of chunk 1 has begun: only an overlap can get past that."""
        model, hot_began = RecordingModel(), threading.Event()
        overlapped = []

        def hot(batch) -> None:
            if batch.ages[0] == 1:
                hot_began.set()

        model.before["hot"] = hot
        model.before["deferred"] = lambda batch: overlapped.append(hot_began.wait(10))
        engine = build("threaded-pipelined", model)
        attach(engine, "a")
        step(engine, a={})
        assert step(engine, a={})["a"].age == 0
        assert overlapped == [True]

    def test_detach_while_nothing_is_in_flight_after_a_flush(self):
        engine = build("pipelined")
        attach(engine, "a")
        step(engine, a={})
        step(engine)
        engine.detach("a")
        assert step(engine) == {}


class TestSeeding:
    def test_the_whole_pending_set_is_seeded_in_one_call(self):
        model = RecordingModel()
        engine = build(model=model)
        attach(engine, "a", prompt="x")
        attach(engine, "b", prompt="y")
        step(engine)
        assert model.calls("seed") == [{0: {"prompt": "x"}, 1: {"prompt": "y"}}]
        step(engine, a={}, b={})
        assert len(model.calls("seed")) == 1

    @every_mode
    def test_the_heavy_value_of_the_context_needs_no_encode(self, mode):
        model = RecordingModel()
        engine = build(mode, model)
        attach(engine, "a", prompt=["nested", np.ones(3)])
        step(engine, a={"prompt": ["nested", np.ones(3)]})
        step(engine)
        assert model.calls("encode") == []
        assert len(model.calls("hot")) == 1

    def test_pending_sessions_are_those_not_seeded(self):
        engine = build()
        attach(engine, "a", "b")
        assert set(engine.pending_sessions) == {"a", "b"}
        step(engine)
        assert not engine.pending_sessions

    def test_seed_ready_sees_rows_and_contexts_and_holds_the_cohort_back(self):
        asked = []

        def ready(pending) -> bool:
            asked.append(dict(pending))
            return len(pending) >= 2

        engine = build(model=RecordingModel(seed_ready=ready))
        attach(engine, "a", prompt="x")
        assert step(engine, a={}) == {}
        assert list(engine.pending_sessions) == ["a"]
        attach(engine, "b", prompt="y")
        assert {made.age for made in step(engine, a={}, b={}).values()} == {0}
        assert asked == [{0: {"prompt": "x"}}, {0: {"prompt": "x"}, 1: {"prompt": "y"}}]

    def test_residents_run_while_a_cohort_waits(self):
        seeded = []
        engine = build(model=RecordingModel(seed_ready=lambda pending: not seeded))
        attach(engine, "a")
        step(engine, a={})
        seeded.append(True)
        attach(engine, "b")
        assert step(engine, a={}, b={})["a"].age == 1

    @every_mode
    def test_events_that_come_while_a_row_is_pending_are_kept(self, mode):
        ready = []
        engine = build(mode, RecordingModel(seed_ready=lambda pending: bool(ready)))
        attach(engine, "a")
        step(engine, a={"events": ("down",)})
        step(engine, a={"n": 1, "events": ("up",)})
        ready.append(True)
        made = {**step(engine, a={"n": 2, "events": ("down again",)}), **step(engine)}["a"]
        assert made.conditioning == {"n": 2, "events": ("down", "up", "down again")}
        made = {**step(engine, a={"n": 2}), **step(engine)}["a"]
        assert made.conditioning == {"n": 2}

    @every_mode
    def test_a_session_that_cannot_be_seeded_fails_alone(self, mode):
        model = RecordingModel()

        def seed(rows) -> None:
            if any(context.get("bad") for context in rows.values()):
                raise ValueError("bad seed")

        model.before["seed"] = seed
        engine = build(mode, model)
        attach(engine, "resident")
        step(engine, resident={})
        attach(engine, "good")
        attach(engine, "bad", bad=True)
        attach(engine, "fine")
        with pytest.raises(StepFailure) as failed:
            engine.step({name: {} for name in ("resident", "good", "bad", "fine")})
        assert set(failed.value.failures) == {"bad"}
        assert str(failed.value.failures["bad"]) == "bad seed"
        assert list(engine.pending_sessions) == ["bad"]
        engine.detach("bad")
        made = {result.session_id: result.output.age for result in failed.value.results}
        made.update({name: chunk.age for name, chunk in step(engine).items()})
        assert made == {"resident": 1, "good": 0, "fine": 0}

    @every_mode
    def test_a_seed_that_failed_once_may_work_the_next_time(self, mode):
        model = RecordingModel()
        model.before["seed"] = raiser(OSError("no memory"))
        engine = build(mode, model)
        attach(engine, "a")
        with pytest.raises(StepFailure):
            engine.step({"a": {}})
        del model.before["seed"]
        assert {**step(engine, a={}), **step(engine)}["a"].age == 0

    def test_a_seed_ready_that_raises_is_the_pending_sessions_failure(self):
        fail = []

        def ready(pending) -> bool:
            if fail:
                raise ValueError("not comparable")
            return True

        engine = build(model=RecordingModel(seed_ready=ready))
        attach(engine, "a")
        step(engine, a={})
        fail.append(1)
        attach(engine, "b", "c")
        with pytest.raises(StepFailure) as failed:
            engine.step({"a": {}, "b": {}, "c": {}})
        assert set(failed.value.failures) == {"b", "c"}
        assert [result.output.age for result in failed.value.results] == [1]


class TestHeavyChanges:
    @every_mode
    def test_a_row_sits_out_and_rejoins_with_the_new_value_while_others_run(self, mode):
        model = RecordingModel()
        engine = build(mode, model)
        attach(engine, "a", "b", prompt="x")
        step(engine, a={"prompt": "x"}, b={"prompt": "x"})
        step(engine, a={"prompt": "y"}, b={"prompt": "x"})
        let_encodes_end(engine)
        step(engine, a={"prompt": "y"}, b={"prompt": "x"})
        step(engine)
        assert model.calls("hot") == [["a", "b"], ["b"], ["a", "b"]]
        assert model.calls("encode") == [["a"]]
        assert model.prompts == {0: "y", 1: "x"}

    @every_mode
    def test_all_changes_of_a_step_are_encoded_in_one_batch_and_once(self, mode):
        model = RecordingModel()
        engine = build(mode, model)
        attach(engine, *"abc", prompt="x")
        step(engine, a={}, b={}, c={})
        for _ in range(3):
            step(engine, a={"prompt": "y"}, b={"prompt": "x"}, c={"prompt": "z"})
            let_encodes_end(engine)
        assert model.calls("encode") == [["a", "c"]]
        assert model.prompts == {0: "y", 1: "x", 2: "z"}

    def test_a_value_that_is_absent_is_no_change(self):
        model = RecordingModel()
        engine = build(model=model)
        attach(engine, "a", prompt="x")
        for conditioning in ({}, {"prompt": "x"}, {"n": 1}):
            assert step(engine, a=conditioning)["a"].prompt == "x"
        assert model.calls("encode") == []

    def test_a_first_value_of_a_session_that_began_without_one_is_a_change(self):
        model = RecordingModel()
        engine = build(model=model)
        attach(engine, "a")
        assert step(engine, a={"prompt": "x"}) == {}
        assert step(engine, a={"prompt": "x"})["a"].prompt == "x"

    def test_none_is_a_value(self):
        model = RecordingModel()
        engine = build(model=model)
        attach(engine, "a", prompt="x")
        step(engine, a={"prompt": None})
        assert model.calls("encode") == [["a"]]

    def test_encode_is_given_all_heavy_values_and_no_cheap_ones(self):
        seen = []
        model = RecordingModel(heavy_keys=("prompt", "image"))
        model.before["encode"] = lambda batch: seen.append(dict(batch.conditioning["a"]))
        engine = build(model=model)
        attach(engine, "a", prompt="x", image=1)
        step(engine, a={"image": 2, "move": 1, "events": ("e",)})
        assert seen == [{"prompt": "x", "image": 2}]

    @pytest.mark.parametrize("value", [np.arange(4), {"a": [np.zeros(2), 1]}, [1, (2, {"x": None})]])
    def test_an_equal_value_in_new_objects_is_no_change(self, value):
        model = RecordingModel()
        engine = build(model=model)
        attach(engine, "a", prompt=value)
        for _ in range(3):
            assert "a" in step(engine, a={"prompt": copy.deepcopy(value)})
        assert model.calls("encode") == []

    def test_a_changed_array_is_a_change(self):
        model = RecordingModel()
        engine = build(model=model)
        attach(engine, "a", prompt=np.zeros(4))
        step(engine, a={"prompt": np.ones(4)})
        assert model.calls("encode") == [["a"]]

    @pytest.mark.parametrize("result", ["raises", [True, False], np.array([True, False])])
    def test_values_that_do_not_compare_to_a_boolean_are_encoded_and_fail_no_session(self, result):
        class Odd:
            def __eq__(self, other):
                if isinstance(result, str):
                    raise RuntimeError("no comparison")
                return result

            __hash__ = None

        model, kept = RecordingModel(), Odd()
        engine = build(model=model)
        attach(engine, "a", "b", prompt="x")
        assert set(step(engine, a={"prompt": kept}, b={})) == {"b"}
        assert set(step(engine, a={"prompt": kept}, b={})) == {"a", "b"}
        assert set(step(engine, a={"prompt": kept}, b={})) == {"a", "b"}
        assert set(step(engine, a={"prompt": Odd()}, b={})) == {"b"}
        assert model.calls("encode") == [["a"], ["a"]]

    def test_a_model_may_say_what_is_equal(self):
        model = RecordingModel(heavy_equal=lambda previous, wanted: previous["prompt"][0] == wanted["prompt"][0])
        engine = build(model=model)
        attach(engine, "a", prompt="castle")
        assert "a" in step(engine, a={"prompt": "cat"})
        assert step(engine, a={"prompt": "dog"}) == {}
        assert len(model.calls("encode")) == 1

    def test_a_heavy_equal_that_raises_is_the_sessions_own_failure(self):
        def equal(previous, wanted) -> bool:
            if wanted["prompt"] == "bad":
                raise ValueError("cannot compare")
            return previous == wanted

        engine = build(model=RecordingModel(heavy_equal=equal))
        attach(engine, "a", "b", prompt="x")
        with pytest.raises(StepFailure) as failed:
            engine.step({"a": {"prompt": "bad"}, "b": {"prompt": "x"}})
        assert set(failed.value.failures) == {"a"}
        assert [result.session_id for result in failed.value.results] == ["b"]
        assert step(engine, a={"prompt": "x"})["a"].age == 0

    @every_mode
    def test_events_that_come_while_a_row_sits_out_are_kept_in_order(self, mode):
        engine = build(mode)
        attach(engine, "a", prompt="x")
        step(engine, a={"prompt": "y", "events": ("down",)})
        let_encodes_end(engine)
        made = {**step(engine, a={"prompt": "y", "events": ("up",)}), **step(engine)}["a"]
        assert made.conditioning["events"] == ("down", "up")
        made = {**step(engine, a={"prompt": "y"}), **step(engine)}["a"]
        assert "events" not in made.conditioning

    def test_a_change_back_before_the_encode_began_costs_nothing(self):
        model = RecordingModel()
        engine = build(model=model)
        attach(engine, "a", prompt="x")
        step(engine, a={})
        step(engine, a={"prompt": "y"})
        step(engine, a={"prompt": "x"})
        step(engine, a={"prompt": "x"})
        assert model.prompts[0] == "x"

    @every_mode
    def test_a_heavy_change_in_the_first_step_wins_over_the_context(self, mode):
        model = RecordingModel()
        engine = build(mode, model)
        attach(engine, "a", prompt="x")
        step(engine, a={"prompt": "y"})
        let_encodes_end(engine)
        assert {**step(engine, a={"prompt": "y"}), **step(engine)}["a"].prompt == "y"


class TestSlowEncode:
    def test_bystanders_run_while_an_encode_is_under_way(self):
        model, gate = RecordingModel(), Gate()
        model.before["encode"] = gate
        engine = build("threaded", model)
        attach(engine, "a", "b", prompt="x")
        step(engine, a={}, b={})
        for n in range(20):
            made = step(engine, a={"prompt": "y"}, b={"prompt": "x"})
            assert {name: chunk.age for name, chunk in made.items()} == {"b": n + 1}
        gate.opened.set()
        let_encodes_end(engine)
        made = step(engine, a={"prompt": "y"}, b={"prompt": "x"})
        assert (made["a"].age, made["a"].prompt, made["b"].age) == (1, "y", 21)
        assert len(model.calls("encode")) == 1

    def test_a_change_during_an_encode_is_encoded_when_that_has_ended_and_only_the_newest(self):
        model, gate = RecordingModel(), Gate()
        model.before["encode"] = gate
        engine = build("threaded", model)
        attach(engine, "a", prompt="p0")
        step(engine, a={"prompt": "p1"})
        gate.wait_until_reached()
        for n in (2, 3, 4):
            step(engine, a={"prompt": f"p{n}"})
        assert len(model.calls("encode")) == 0
        gate.opened.set()
        let_encodes_end(engine)
        for _ in range(200):
            step(engine, a={"prompt": "p4"})
            let_encodes_end(engine)
        assert model.prompts[0] == "p4"
        assert len(model.calls("encode")) == 2

    def test_a_newcomer_is_seeded_and_runs_while_an_encode_is_under_way(self):
        model, gate = RecordingModel(), Gate()
        model.before["encode"] = gate
        engine = build("threaded", model)
        attach(engine, "a", prompt="x")
        step(engine, a={"prompt": "y"})
        gate.wait_until_reached()
        attach(engine, "b", prompt="z")
        assert step(engine, a={"prompt": "y"}, b={})["b"].prompt == "z"
        gate.opened.set()

    def test_a_failing_encode_is_its_rows_own_failure(self):
        model = RecordingModel()
        model.before["encode"] = FailFor("a", ValueError("bad prompt"), times=99)
        engine = build("threaded", model)
        attach(engine, *"abc", prompt="x")
        step(engine, a={}, b={}, c={})
        due = {"a": {"prompt": "bad"}, "b": {"prompt": "good"}, "c": {}}
        failures, chunks = [], {"a": 0, "b": 0, "c": 0}
        for _ in range(6):
            try:
                results = engine.step(due)
            except StepFailure as failed:
                failures.append(set(failed.failures))
                results = failed.results
            for result in results:
                chunks[result.session_id] += 1
            let_encodes_end(engine)
        assert failures and all(names == {"a"} for names in failures)
        assert chunks["c"] == 6
        assert model.prompts[1] == "good", "the other row of the failed batch must still be encoded"
        assert chunks["b"] >= 3

    def test_a_row_whose_encode_failed_goes_on_with_the_old_value_when_it_is_asked_back(self):
        model = RecordingModel()
        model.before["encode"] = FailFor("a", ValueError("bad prompt"), times=99)
        engine = build("threaded", model)
        attach(engine, "a", prompt="x")
        step(engine, a={"prompt": "bad"})
        let_encodes_end(engine)
        with pytest.raises(StepFailure) as failed:
            engine.step({"a": {"prompt": "x"}})
        made = {result.session_id: result.output for result in failed.value.results} or step(engine, a={"prompt": "x"})
        assert made["a"].prompt == "x"

    def test_a_session_whose_encode_failed_is_not_both_failed_and_served_in_one_step(self):
        model = RecordingModel()
        model.before["encode"] = FailFor("a", ValueError("bad prompt"), times=99)
        engine = build("threaded", model)
        attach(engine, "a", prompt="x")
        for _ in range(20):
            try:
                engine.step({"a": {"prompt": "bad"}})
            except StepFailure as failed:
                assert not {result.session_id for result in failed.results} & failed.failures.keys()
            let_encodes_end(engine)

    def test_an_encode_that_always_fails_ends_its_session(self):
        """The loop ends a session after ten failures in a row: chunks in between must not reset that count."""
        model = RecordingModel()
        model.before["encode"] = FailFor("a", ValueError("bad prompt"), times=10_000)
        engine = build("threaded", model)
        with Served(engine) as served:
            served.do(Attach("a", {"prompt": "x"}), Attach("b", {"prompt": "x"}))
            served.put(Action("a", {"prompt": "bad"}))
            for _ in range(100):
                served.pump()
                let_encodes_end(engine)
            assert any(isinstance(event, Failed) and event.fatal for event in served.events("a"))
            assert len(served.chunks("b")) >= 99

    def test_an_encode_that_exits_does_not_lock_its_row_out(self):
        model = RecordingModel()
        model.before["encode"] = FailFor("a", SystemExit(2))
        engine = build("threaded", model)
        attach(engine, "a", "b", prompt="x")
        step(engine, a={"prompt": "y"}, b={})
        let_encodes_end(engine)
        with pytest.raises((StepFailure, SystemExit)):
            engine.step({"a": {"prompt": "y"}, "b": {}})
        for _ in range(30):
            step(engine, a={"prompt": "y"}, b={})
            let_encodes_end(engine)
        assert model.prompts[0] == "y", "the row never came back"

    def test_detach_waits_for_the_encode_of_its_row(self):
        model, gate = RecordingModel(), Gate()
        model.before["encode"] = gate
        engine = build("threaded", model)
        attach(engine, "a", prompt="x")
        step(engine, a={"prompt": "y"})
        gate.wait_until_reached()
        detaching = threading.Thread(target=engine.detach, args=("a",))
        detaching.start()
        assert model.calls("detach") == []
        gate.opened.set()
        detaching.join(10)
        assert [hook for hook, _ in model.log] == ["seed", "encode", "detach"]

    def test_detach_of_another_row_does_not_wait(self):
        model, gate = RecordingModel(), Gate()
        model.before["encode"] = gate
        engine = build("threaded", model)
        attach(engine, "a", "b", prompt="x")
        step(engine, a={"prompt": "y"}, b={})
        gate.wait_until_reached()
        engine.detach("b")
        assert model.calls("detach") == [(1, "b")]
        gate.opened.set()

    def test_one_of_two_rows_in_an_encode_leaves_and_the_other_is_served(self):
        model, gate = RecordingModel(), Gate()
        model.before["encode"] = gate
        engine = build("threaded", model)
        attach(engine, "a", "b", prompt="x")
        step(engine, a={"prompt": "y"}, b={"prompt": "z"})
        gate.wait_until_reached()
        gate.opened.set()
        engine.detach("a")
        attach(engine, "c", prompt="w")
        let_encodes_end(engine)
        made = step(engine, b={"prompt": "z"}, c={"prompt": "w"})
        assert {name: chunk.prompt for name, chunk in made.items()} == {"b": "z", "c": "w"}

    def test_a_row_is_encoded_alone_after_the_culprit_of_a_failed_batch_has_left(self):
        model = RecordingModel()

        def fail_on_bad_prompts(batch):
            if any(given["prompt"] == "bad" for given in batch.conditioning.values()):
                raise ValueError("bad prompt")

        model.before["encode"] = fail_on_bad_prompts
        engine = build("threaded", model)
        attach(engine, "a", "b", prompt="x")
        step(engine, a={"prompt": "bad"}, b={"prompt": "castle"})
        engine.detach("a")
        let_encodes_end(engine)
        step(engine, b={"prompt": "castle"})
        let_encodes_end(engine)
        assert step(engine, b={"prompt": "castle"})["b"].prompt == "castle"

    def test_a_row_whose_encoding_predecessor_left_is_not_taken_for_encoding(self):
        model, gate = RecordingModel(1), Gate()
        model.before["encode"] = gate
        engine = build("threaded", model)
        attach(engine, "a", prompt="x")
        step(engine, a={"prompt": "y"})
        gate.opened.set()
        engine.detach("a")
        attach(engine, "a", prompt="z")
        assert step(engine, a={"prompt": "z"})["a"].prompt == "z"

    def test_a_failed_hot_of_another_row_keeps_the_encode_under_way(self):
        model, gate = RecordingModel(), Gate()
        model.before["encode"] = gate
        engine = build("threaded", model)
        attach(engine, "a", "b", prompt="x")
        step(engine, a={"prompt": "y"}, b={})
        gate.wait_until_reached()
        model.before["hot"] = FailFor("b", ValueError("hot"))
        with pytest.raises(ValueError, match="hot"):
            engine.step({"a": {"prompt": "y"}, "b": {}})
        gate.opened.set()
        let_encodes_end(engine)
        assert step(engine, a={"prompt": "y"}, b={})["a"].prompt == "y"
        assert len(model.calls("encode")) == 1


class TestDebounce:
    @every_mode
    def test_a_value_that_changes_with_every_tick_costs_at_most_a_fifth_of_the_chunks(self, mode):
        model = RecordingModel()
        engine = build(mode, model)
        attach(engine, "a", "b", prompt="x")
        made = {"a": 0, "b": 0}
        ticks = 300
        for n in range(ticks):
            for name in step(engine, a={"prompt": f"p{n}"}, b={}):
                made[name] += 1
            let_encodes_end(engine)
        for name in step(engine):
            made[name] += 1
        assert made["b"] == ticks
        assert made["a"] >= 0.8 * ticks
        assert len(model.calls("encode")) >= 0.1 * ticks, "the newest value must get its turn"

    def test_an_encode_of_many_ticks_leaves_80_percent_too(self):
        model, ended = RecordingModel(), threading.Semaphore(0)
        model.before["encode"] = lambda batch: ended.acquire(timeout=10)
        engine = build("threaded", model)
        attach(engine, "a", prompt="x")
        made = under_way = 0
        for n in range(600):
            made += len(step(engine, a={"prompt": f"p{n}"}))
            under_way = under_way + 1 if engine._encodes else 0
            if under_way == 12:
                ended.release()
                let_encodes_end(engine)
        ended.release()
        assert made >= 0.8 * 600

    def test_once_the_value_is_stable_the_newest_is_encoded(self):
        model = RecordingModel()
        engine = build(model=model)
        attach(engine, "a", prompt="x")
        for n in range(50):
            step(engine, a={"prompt": f"p{n}"})
        for _ in range(10):
            step(engine, a={"prompt": "p49"})
        assert model.prompts[0] == "p49"

    def test_a_single_change_after_a_quiet_time_is_encoded_at_once(self):
        model = RecordingModel()
        engine = build(model=model)
        attach(engine, "a", prompt="x")
        for n in range(5):
            for _ in range(5):
                step(engine, a={"prompt": str(n)})
            assert model.prompts[0] == str(n)

    def test_keep_running_loses_no_chunk_and_uses_the_old_value_during_the_encode(self):
        model, gate = RecordingModel(heavy_policy=lambda: "keep_running"), Gate()
        model.before["encode"] = gate
        engine = build("threaded", model)
        attach(engine, "a", prompt="x")
        step(engine, a={})
        made = [step(engine, a={"prompt": f"p{n}"})["a"] for n in range(20)]
        assert [chunk.age for chunk in made] == list(range(1, 21))
        assert {chunk.prompt for chunk in made} == {"x"}
        gate.opened.set()
        let_encodes_end(engine)
        assert step(engine, a={"prompt": "p19"})["a"].prompt == "p0"
        let_encodes_end(engine)
        assert step(engine, a={"prompt": "p19"})["a"].prompt == "p19"
        assert len(model.calls("encode")) == 2

    @every_mode
    def test_keep_running_keeps_every_chunk(self, mode):
        model = RecordingModel(heavy_policy=lambda: "keep_running")
        engine = build(mode, model)
        attach(engine, "a", prompt="x")
        made = sum(len(step(engine, a={"prompt": f"p{n}"})) for n in range(50)) + len(step(engine))
        assert made == 50

    def test_keep_running_and_a_failing_encode_do_not_cost_the_session_its_chunk(self):
        model = RecordingModel(heavy_policy=lambda: "keep_running")
        model.before["encode"] = FailFor("a", ValueError("bad prompt"))
        engine = build("threaded", model)
        attach(engine, "a", "b", prompt="x")
        step(engine, a={"prompt": "y"}, b={})
        let_encodes_end(engine)
        with pytest.raises(StepFailure) as failed:
            engine.step({"a": {"prompt": "x"}, "b": {}})
        assert set(failed.value.failures) == {"a"}
        assert {result.session_id for result in failed.value.results} >= {"b"}


class TestAppliedHeavyValue:
    """HOT and DEFERRED see a heavy value in the conditioning from the step on in which its encode has ended."""

    def test_while_a_value_is_encoded_the_conditioning_has_the_old_one(self):
        model, gate = RecordingModel(heavy_policy=lambda: "keep_running"), Gate("a")
        model.before["encode"] = gate
        engine = build("threaded", model)
        attach(engine, "a", "b", prompt="x")
        step(engine, a={}, b={})
        given = {"prompt": "y", "move": 1}
        for move in (1, 2):
            made = step(engine, a={**given, "move": move}, b={"prompt": "x", "move": move})
            assert made["a"].conditioning == {"prompt": "x", "move": move} and made["a"].prompt == "x"
            assert made["b"].conditioning == {"prompt": "x", "move": move}
        assert given == {"prompt": "y", "move": 1}
        gate.opened.set()
        let_encodes_end(engine)
        made = step(engine, a=given, b={"prompt": "x"})
        assert made["a"].conditioning == given and made["a"].prompt == "y"

    def test_a_session_that_began_without_a_value_has_none_until_the_first_is_encoded(self):
        model, gate = RecordingModel(heavy_policy=lambda: "keep_running"), Gate("a")
        model.before["encode"] = gate
        engine = build("threaded", model)
        attach(engine, "a")
        assert step(engine, a={"prompt": "x", "move": 1})["a"].conditioning == {"move": 1}
        gate.opened.set()
        let_encodes_end(engine)
        assert step(engine, a={"prompt": "x"})["a"].conditioning == {"prompt": "x"}

    def test_a_bystander_whose_value_changes_later_keeps_its_own(self):
        model, gate = RecordingModel(heavy_policy=lambda: "keep_running"), Gate("a")
        model.before["encode"] = gate
        engine = build("threaded", model)
        attach(engine, "a", prompt="x")
        attach(engine, "b", prompt="u")
        step(engine, a={"prompt": "y"}, b={"prompt": "u"})
        gate.wait_until_reached()
        made = step(engine, a={"prompt": "y"}, b={"prompt": "v"})  # b's encode queues behind a's
        assert [made[name].conditioning["prompt"] for name in "ab"] == ["x", "u"]
        gate.opened.set()
        let_encodes_end(engine)
        made = step(engine, a={"prompt": "y"}, b={"prompt": "v"})
        assert [made[name].conditioning["prompt"] for name in "ab"] == ["y", "v"]

    @pytest.mark.parametrize(
        ("mode", "policy"),
        [(mode, "sit_out") for mode in MODES]
        # on a thread, this model's ENCODE changes the value beside the row's own HOT
        + [(mode, "keep_running") for mode in MODES if not mode.startswith("threaded")],
    )
    def test_the_conditioning_always_has_the_value_that_the_row_was_encoded_with(self, mode, policy):
        model = RecordingModel(heavy_keys=("prompt", "image"), heavy_policy=lambda: policy)
        engine = build(mode, model)
        attach(engine, "a", "b", prompt="p", image=0)
        made = []
        for n in range(60):
            results = step(engine, a={"prompt": f"p{n}", "image": 0}, b={"prompt": "p", "image": 0})
            made += results.values()
            if n % 3:
                let_encodes_end(engine)
        made += step(engine).values()
        assert {chunk.conditioning["prompt"] for chunk in made if chunk.session_id == "b"} == {"p"}
        own = [chunk for chunk in made if chunk.session_id == "a"]
        assert len({chunk.prompt for chunk in own}) > 5
        for chunk in own:
            assert chunk.conditioning == {"prompt": chunk.prompt, "image": 0}

    @pytest.mark.parametrize("mode", ["inline", "threaded"])
    def test_a_value_whose_encode_fails_is_not_shown(self, mode):
        model = RecordingModel(heavy_policy=lambda: "keep_running")
        model.before["encode"] = FailFor("a", ValueError("bad prompt"), times=2)
        engine = build(mode, model)
        attach(engine, "a", "b", prompt="x")
        step(engine, a={"prompt": "x"}, b={"prompt": "x"})
        shown = {"a": set(), "b": set()}
        failures = 0
        while failures < 2:
            try:
                results = engine.step({"a": {"prompt": "y"}, "b": {"prompt": "x"}})
            except StepFailure as failure:
                assert set(failure.failures) == {"a"}
                failures += 1
                results = failure.results
            for result in results:
                shown[result.session_id].add(result.output.conditioning["prompt"])
            let_encodes_end(engine)
        assert shown == {"a": {"x"}, "b": {"x"}}

    def test_the_chunk_in_flight_keeps_the_value_that_it_began_with(self):
        seen = []
        model = RecordingModel()
        model.before["deferred"] = lambda batch: seen.append(
            {name: given["prompt"] for name, given in batch.conditioning.items()}
        )
        engine = build("pipelined", model)
        attach(engine, "a", prompt="x")
        for prompt in "xyyy":
            step(engine, a={"prompt": prompt})
        step(engine)
        assert seen == [{"a": "x"}, {"a": "y"}, {"a": "y"}]


class TestStageFailures:
    @every_mode
    def test_when_hot_fails_no_session_has_advanced(self, mode):
        model = RecordingModel()
        engine = build(mode, model)
        attach(engine, "a", "b")
        step(engine, a={}, b={})
        model.before["hot"] = FailFor("a", ValueError("hot"))
        with pytest.raises(ValueError, match="hot"):
            engine.step({"a": {}, "b": {}})
        ages = [chunk for _ in range(3) for chunk in step(engine, a={}, b={}).values()]
        ages += list(step(engine).values())
        expected = [0, 1, 2, 3] if engine.pipelined else [1, 2, 3]
        for name in "ab":
            assert [chunk.age for chunk in ages if chunk.session_id == name] == expected

    @pipelined_modes
    def test_when_hot_fails_the_chunk_before_comes_with_the_next_step(self, mode):
        model = RecordingModel()
        engine = build(mode, model)
        attach(engine, "a", "b")
        step(engine, a={}, b={})
        model.before["hot"] = FailFor("a", ValueError("hot"), times=2)
        for _ in range(2):
            with pytest.raises(ValueError, match="hot"):
                engine.step({"a": {}, "b": {}})
        assert {name: chunk.age for name, chunk in step(engine, b={}).items()} == {"a": 0, "b": 0}
        assert {name: chunk.age for name, chunk in step(engine, a={}).items()} == {"b": 1}

    @pipelined_modes
    def test_a_chunk_kept_from_a_failed_step_is_not_shown_after_detach(self, mode):
        model = RecordingModel()
        engine = build(mode, model)
        attach(engine, "a", "b")
        step(engine, a={}, b={})
        model.before["hot"] = FailFor("a", ValueError("hot"))
        with pytest.raises(ValueError, match="hot"):
            engine.step({"a": {}, "b": {}})
        engine.detach("a")
        attach(engine, "a")
        assert set(step(engine, a={})) == {"b"}

    @every_mode
    def test_when_deferred_fails_only_the_culprit_loses_its_chunk(self, mode):
        model = RecordingModel()
        engine = build(mode, model)
        attach(engine, "a", "b", "c")
        if engine.pipelined:
            step(engine, a={}, b={}, c={})
        model.before["deferred"] = FailFor("b", ValueError("decode"), times=99)
        with pytest.raises(StepFailure, match="decode") as failed:
            engine.step({"a": {}, "b": {}, "c": {}})
        assert list(failed.value.failures) == ["b"] and isinstance(failed.value.__cause__, ValueError)
        assert [(result.session_id, result.output.age) for result in failed.value.results] == [("a", 0), ("c", 0)]
        del model.before["deferred"]
        chunks = [chunk for _ in range(3) for chunk in step(engine, a={}, b={}, c={}).values()]
        chunks += list(step(engine).values())
        for name in "abc":
            ages = [chunk.age for chunk in chunks if chunk.session_id == name]
            assert ages == list(range(1, len(ages) + 1)) and len(ages) >= 3

    @every_mode
    def test_a_deferred_failure_that_does_not_recur_costs_no_chunk(self, mode):
        model = RecordingModel()
        engine = build(mode, model)
        attach(engine, "a", "b")
        model.before["deferred"] = FailFor("a", ValueError("decode"))
        chunks = [chunk for _ in range(3) for chunk in step(engine, a={}, b={}).values()] + list(step(engine).values())
        for name in "ab":
            assert [chunk.age for chunk in chunks if chunk.session_id == name] == [0, 1, 2]

    @pipelined_modes
    def test_when_deferred_fails_hot_work_is_not_repeated_for_the_same_age_unseen(self, mode):
        """Either the HOT of the failed step never ran or its chunk comes out: else resident state skips a chunk."""
        model = RecordingModel()
        engine = build(mode, model)
        attach(engine, "a")
        step(engine, a={})
        model.before["deferred"] = FailFor("a", ValueError("decode"))
        with pytest.raises(StepFailure, match="decode"):
            engine.step({"a": {}})
        step(engine, a={})
        step(engine)
        ages = [batch.ages.get(0) for batch in model.batches]
        assert ages == sorted(set(ages)), f"HOT ran more than once for one age: {ages}"

    @every_mode
    def test_when_an_encode_fails_inline_or_on_a_thread_the_engine_goes_on(self, mode):
        model = RecordingModel()
        model.before["encode"] = FailFor("a", ValueError("encode"))
        engine = build(mode, model)
        attach(engine, "a", "b", prompt="x")
        failures = 0
        for _ in range(30):
            try:
                engine.step({"a": {"prompt": "y"}, "b": {}})
            except (ValueError, StepFailure):
                failures += 1
            let_encodes_end(engine)
        assert failures == 1
        assert model.prompts[0] == "y"

    @every_mode
    def test_deferred_events_survive_a_failed_step(self, mode):
        model = RecordingModel()
        engine = build(mode, model)
        attach(engine, "a", prompt="x")
        step(engine, a={"prompt": "y", "events": ("down",)})
        let_encodes_end(engine)
        model.before["hot"] = FailFor("a", ValueError("hot"))
        with pytest.raises(ValueError, match="hot"):
            engine.step({"a": {"prompt": "y", "events": ("up",)}})
        made = {**step(engine, a={"prompt": "y", "events": ("up",)}), **step(engine)}["a"]
        assert made.conditioning["events"] == ("down", "up")

    def test_a_failed_step_that_is_repeated_does_not_double_the_events_of_a_row_that_sits_out(self):
        model, gate = RecordingModel(), Gate()
        model.before["encode"] = gate
        engine = build("threaded", model)
        attach(engine, "a", "b", prompt="x")
        step(engine, a={"prompt": "y"}, b={})
        gate.wait_until_reached()
        model.before["hot"] = FailFor("b", ValueError("hot"))
        due = {"a": {"prompt": "y", "events": ("press",)}, "b": {}}
        with pytest.raises(ValueError, match="hot"):
            engine.step(due)
        engine.step(due)
        gate.opened.set()
        let_encodes_end(engine)
        assert step(engine, a={"prompt": "y"}, b={})["a"].conditioning["events"] == ("press",)

    def test_a_failed_step_that_is_repeated_does_not_double_the_events_of_a_pending_row(self):
        model, ready = RecordingModel(), []
        engine = build(model=model)
        attach(engine, "b")
        step(engine, b={})
        engine._seed_ready = lambda pending: bool(ready)
        attach(engine, "a")
        model.before["hot"] = FailFor("b", ValueError("hot"))
        due = {"a": {"events": ("press",)}, "b": {}}
        with pytest.raises(ValueError, match="hot"):
            engine.step(due)
        engine.step(due)
        ready.append(True)
        assert step(engine, a={}, b={})["a"].conditioning["events"] == ("press",)

    @every_mode
    def test_system_exit_leaves_the_engine_usable(self, mode):
        model = RecordingModel()
        engine = build(mode, model)
        attach(engine, "a")
        step(engine, a={})
        model.before["hot"] = FailFor("a", SystemExit(1))
        with pytest.raises(SystemExit):
            engine.step({"a": {}})
        ages = [chunk.age for _ in range(2) for chunk in step(engine, a={}).values()]
        ages += [chunk.age for chunk in step(engine).values()]
        assert ages[-2:] == [1, 2]

    def test_a_failing_deferred_stage_waits_for_no_running_encode(self):
        """Bystanders are not held up by an encode that began earlier, not even in a step that fails."""
        model, gate = RecordingModel(), Gate()
        model.before["encode"] = gate
        engine = build("threaded", model)
        attach(engine, "a", "b", prompt="x")
        step(engine, a={"prompt": "y"}, b={})
        gate.wait_until_reached()
        model.before["deferred"] = FailFor("b", ValueError("decode"))
        with pytest.raises(StepFailure, match="decode"):
            engine.step({"a": {"prompt": "y"}, "b": {}})
        assert not gate.opened.is_set()
        gate.opened.set()

    @every_mode
    def test_a_failed_newcomer_batch_keeps_the_newcomers_seed(self, mode):
        model = RecordingModel()
        engine = build(mode, model)
        attach(engine, "a")
        model.before["hot"] = FailFor("a", ValueError("hot"))
        with pytest.raises(ValueError, match="hot"):
            engine.step({"a": {}})
        assert {**step(engine, a={}), **step(engine)}["a"].age == 0
        assert len(model.calls("seed")) == 1


class TestThreadsOfStages:
    def test_inline_everything_runs_on_the_stepping_thread(self):
        model = RecordingModel()
        engine = build("inline", model)
        attach(engine, "a", prompt="x")
        step(engine, a={"prompt": "y"})
        step(engine, a={"prompt": "y"})
        assert set().union(*model.threads.values()) == {threading.get_ident()}

    def test_threaded_encode_has_a_thread_of_its_own(self):
        model = RecordingModel()
        engine = build("threaded-pipelined", model)
        attach(engine, "a", prompt="x")
        for prompt in "xyyyz":
            step(engine, a={"prompt": prompt})
            let_encodes_end(engine)
        here = threading.get_ident()
        assert model.threads["seed"] == model.threads["hot"] == {here}
        assert len(model.threads["encode"]) == len(model.threads["deferred"]) == 1
        assert here not in model.threads["encode"] | model.threads["deferred"]
        assert model.threads["encode"] != model.threads["deferred"]


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("attach"), st.sampled_from("abc")),
        st.tuples(st.just("detach"), st.sampled_from("abc")),
        st.tuples(st.just("reset"), st.sampled_from("abc")),
        st.tuples(st.just("step"), st.sets(st.sampled_from("abc"))),
        st.tuples(st.just("fail"), st.sampled_from("abc")),
    ),
    max_size=40,
)


@given(OPERATIONS, st.sampled_from(list(MODES)))
def test_each_session_gets_its_chunks_in_order_and_none_of_an_earlier_life(operations, mode):
    """Ages count from 0 without a gap in each life of a session, whatever is attached, detached or fails."""
    model = RecordingModel(2)
    engine = build(mode, model)
    next_age: dict[str, int] = {}

    def take(results) -> None:
        for result in results:
            assert result.output.session_id == result.session_id
            assert result.output.age == next_age[result.session_id]
            next_age[result.session_id] += 1

    for kind, what in operations:
        if kind == "attach":
            if what not in next_age and len(next_age) == 2:
                with pytest.raises(AdmissionError):
                    attach(engine, what)
                continue
            attach(engine, what)
            next_age.setdefault(what, 0)
        elif kind == "detach":
            engine.detach(what)
            next_age.pop(what, None)
        elif kind == "reset" and what in next_age:
            engine.reset(SessionInit(what))
            next_age[what] = 0
        elif kind == "step":
            take(engine.step({name: {} for name in sorted(what)}))
        elif kind == "fail" and what in next_age:
            model.before["hot"] = FailFor(what, ValueError("hot"))
            with pytest.raises(ValueError, match="hot"):
                engine.step({name: {} for name in next_age})
            del model.before["hot"]
    take(engine.step({}))
    assert engine.active_sessions == len(next_age)
    due = {name: {} for name in next_age}
    before = dict(next_age)
    take(engine.step(due))
    take(engine.step({}))
    assert next_age == {name: age + 1 for name, age in before.items()}
