from __future__ import annotations

import gc
import threading

import pytest

from realtime_engine import (
    AdmissionError,
    ComposedEngine,
    EngineManifest,
    ReplicaEngine,
    SessionInit,
    StepFailure,
    StepResult,
)
from realtime_engine.examples import CpuReferenceEngine
from realtime_engine.testing import FaultPlan, FaultyEngine, ScriptedEngine

from .stage_models import WAIT_S, RecordingModel


class Factory:
    """Builds children of one session each, with a fault plan in front of every one, and remembers them."""

    def __init__(self, make=lambda: ScriptedEngine(1)) -> None:
        self._make = make
        self.children: list[FaultyEngine] = []
        self.plans: list[FaultPlan] = []

    def __call__(self) -> FaultyEngine:
        self.plans.append(FaultPlan())
        self.children.append(FaultyEngine(self._make(), self.plans[-1]))
        return self.children[-1]


@pytest.fixture(params=[False, True], ids=["serial", "parallel"])
def replicas(request):
    """Builds a :class:`ReplicaEngine`; it is closed after the test."""
    built = []

    def build(*args, **options) -> ReplicaEngine:
        built.append(ReplicaEngine(*args, parallel=request.param, **options))
        return built[-1]

    yield build
    for engine in built:
        engine.close()


def raiser(error: BaseException):
    def raise_it():
        raise error

    return raise_it


def attach(engine: ReplicaEngine, *names: str, **context) -> None:
    for name in names:
        engine.attach(SessionInit(name, dict(context)))


def pipelined_child() -> ComposedEngine:
    return ComposedEngine(RecordingModel(1), pipeline=True)


def ages(results: list[StepResult]) -> dict[str, int]:
    return {result.session_id: result.output.age for result in results}


@pytest.mark.parametrize("given", [0, -1, 1.5, None, True, "2"])
def test_max_sessions_must_be_a_count(given):
    with pytest.raises(ValueError, match="max_sessions"):
        ReplicaEngine(ScriptedEngine, max_sessions=given)


class TestManifest:
    def test_it_is_the_childs_with_the_capacity_of_the_whole(self, replicas):
        engine = replicas(lambda: CpuReferenceEngine(1, (3, 2, 2, 3)), max_sessions=5)
        assert engine.manifest() == EngineManifest(5, (3, 2, 2, 3), frames_per_chunk=3)

    def test_the_child_that_it_asked_serves_the_first_session(self, replicas):
        factory = Factory()
        engine = replicas(factory, max_sessions=2)
        engine.manifest()
        engine.manifest()
        assert engine.pooled_children == 1
        attach(engine, "a")
        assert (len(factory.children), engine.pooled_children) == (1, 0)

    def test_an_error_of_the_factory_is_raised_and_the_next_call_may_succeed(self, replicas):
        tries = []

        def factory() -> ScriptedEngine:
            tries.append(1)
            if len(tries) == 1:
                raise OSError("no memory")
            return ScriptedEngine(1)

        engine = replicas(factory, max_sessions=1)
        with pytest.raises(OSError):
            engine.manifest()
        assert engine.manifest().max_sessions == 1


class TestPooling:
    def test_a_child_that_was_left_cleanly_serves_the_next_session(self, replicas):
        factory = Factory()
        engine = replicas(factory, max_sessions=2)
        attach(engine, "a")
        engine.detach("a")
        assert (engine.active_sessions, engine.pooled_children) == (0, 1)
        attach(engine, "b", "c")
        assert len(factory.children) == 2
        assert (engine.active_sessions, engine.pooled_children) == (2, 0)

    def test_a_pooled_child_starts_fresh(self, replicas):
        engine = replicas(Factory(), max_sessions=1)
        attach(engine, "a")
        engine.step({"a": {}})
        engine.detach("a")
        attach(engine, "b")
        assert ages(engine.step({"b": {}})) == {"b": 0}

    def test_no_more_children_than_sessions_are_built(self, replicas):
        factory = Factory()
        engine = replicas(factory, max_sessions=3)
        for round_ in range(20):
            names = [f"{round_}-{n}" for n in range(3)]
            attach(engine, *names)
            for name in names:
                engine.detach(name)
        assert len(factory.children) == 3

    def test_attach_is_idempotent_and_refuses_what_is_too_much(self, replicas):
        factory = Factory()
        engine = replicas(factory, max_sessions=1)
        attach(engine, "a")
        engine.step({"a": {}})
        attach(engine, "a")
        assert ages(engine.step({"a": {}})) == {"a": 1}
        with pytest.raises(AdmissionError, match="1"):
            attach(engine, "b")
        assert len(factory.children) == 1

    def test_detach_is_idempotent(self, replicas):
        engine = replicas(Factory(), max_sessions=1)
        engine.detach("unknown")
        attach(engine, "a")
        engine.detach("a")
        engine.detach("a")
        assert engine.pooled_children == 1

    def test_a_failed_detach_keeps_ownership_and_the_child_is_not_pooled(self, replicas):
        factory = Factory()
        engine = replicas(factory, max_sessions=2)
        attach(engine, "a")
        factory.plans[0].fail("detach", OSError("busy"), times=2)
        for _ in range(2):
            with pytest.raises(OSError):
                engine.detach("a")
        assert (engine.active_sessions, engine.pooled_children) == (1, 0)
        attach(engine, "b")
        assert len(factory.children) == 2
        with pytest.raises(AdmissionError):
            attach(engine, "c")
        assert set(ages(engine.step({"a": {}, "b": {}}))) == {"a", "b"}
        engine.detach("a")
        assert (engine.active_sessions, engine.pooled_children) == (1, 1)


class TestFailingAttach:
    def test_a_failing_factory_takes_no_place(self, replicas):
        def factory() -> ScriptedEngine:
            raise OSError("no memory")

        engine = replicas(factory, max_sessions=1)
        for _ in range(3):
            with pytest.raises(OSError):
                attach(engine, "a")
        assert (engine.active_sessions, engine.pooled_children) == (0, 0)

    def test_a_child_whose_attach_failed_is_cleaned_and_pooled(self, replicas):
        factory = Factory()
        engine = replicas(factory, max_sessions=1)
        engine.manifest()
        factory.plans[0].fail("attach", ValueError("bad context"))
        with pytest.raises(ValueError, match="bad context"):
            attach(engine, "a")
        assert (engine.active_sessions, engine.pooled_children) == (0, 1)
        attach(engine, "a")
        assert len(factory.children) == 1

    def test_a_child_that_can_be_neither_attached_nor_cleaned_is_discarded(self, replicas):
        factory = Factory()
        engine = replicas(factory, max_sessions=1)
        engine.manifest()
        factory.plans[0].fail("attach", ValueError("bad context"))
        factory.plans[0].fail("detach", OSError("busy"))
        with pytest.raises(ValueError, match="bad context"):
            attach(engine, "a")
        assert (engine.active_sessions, engine.pooled_children) == (0, 0)
        attach(engine, "a")
        assert len(factory.children) == 2

    def test_a_discarded_child_is_closed(self, replicas):
        closed = []

        class Broken(ScriptedEngine):
            def attach(self, init):
                raise ValueError("bad context")

            def detach(self, session_id):
                raise OSError("busy")

            def close(self):
                closed.append(self)

        engine = replicas(lambda: Broken(1), max_sessions=1)
        with pytest.raises(ValueError, match="bad context"):
            attach(engine, "a")
        assert len(closed) == 1


class TestStep:
    def test_each_child_is_stepped_with_its_own_session_alone(self, replicas):
        factory = Factory()
        engine = replicas(factory, max_sessions=3)
        attach(engine, "a", "b", "c")
        engine.step({"c": {"n": 3}, "a": {"n": 1}, "unknown": {}})
        assert [child.calls_of("step") for child in factory.children] == [[{"a": {"n": 1}}], [], [{"c": {"n": 3}}]]

    def test_results_come_in_the_order_of_attach(self, replicas):
        engine = replicas(Factory(), max_sessions=3)
        attach(engine, "a", "b", "c")
        assert list(ages(engine.step({"c": {}, "b": {}, "a": {}}))) == ["a", "b", "c"]

    def test_a_failing_child_is_its_sessions_own_failure(self, replicas):
        factory = Factory()
        engine = replicas(factory, max_sessions=3)
        attach(engine, "a", "b", "c")
        factory.plans[1].fail("step", ValueError("broken"))
        with pytest.raises(StepFailure) as failed:
            engine.step({"a": {}, "b": {}, "c": {}})
        assert set(failed.value.failures) == {"b"}
        assert ages(failed.value.results) == {"a": 0, "c": 0}
        assert ages(engine.step({"a": {}, "b": {}, "c": {}})) == {"a": 1, "b": 0, "c": 1}

    def test_a_child_that_exits_costs_the_others_no_chunk(self, replicas):
        factory = Factory()
        engine = replicas(factory, max_sessions=3)
        attach(engine, "a", "b", "c")
        factory.plans[1].fail("step", SystemExit(1))
        with pytest.raises((StepFailure, SystemExit)) as failed:
            engine.step({"a": {}, "b": {}, "c": {}})
        got = [*getattr(failed.value, "results", []), *engine.step({"a": {}, "b": {}, "c": {}})]
        assert [result.output.age for result in got if result.session_id == "a"] in ([0], [0, 1])

    @pytest.mark.parametrize("returned", [None, 7, object()])
    def test_a_child_that_returns_no_list_fails_alone(self, returned, replicas):
        class Odd(ScriptedEngine):
            def step(self, due):
                return returned

        children = iter([ScriptedEngine(1), Odd(1)])
        engine = replicas(lambda: next(children), max_sessions=2)
        attach(engine, "a", "b")
        with pytest.raises(StepFailure) as failed:
            engine.step({"a": {}, "b": {}})
        assert set(failed.value.failures) == {"b"}
        assert ages(failed.value.results) == {"a": 0}

    def test_a_childs_own_step_failure_is_passed_on_with_its_chunks(self, replicas):
        class Partly(ScriptedEngine):
            def step(self, due):
                raise StepFailure({"a": ValueError("x")}, super().step(due))

        engine = replicas(lambda: Partly(1), max_sessions=1)
        attach(engine, "a")
        with pytest.raises(StepFailure) as failed:
            engine.step({"a": {}})
        assert isinstance(failed.value.failures["a"], ValueError)
        assert ages(failed.value.results) == {"a": 0}

    def test_pending_sessions_are_those_of_the_children(self, replicas):
        ready = []
        engine = replicas(
            lambda: ComposedEngine(RecordingModel(1, seed_ready=lambda pending: bool(ready))), max_sessions=2
        )
        attach(engine, "a", "b")
        engine.step({"a": {}, "b": {}})
        assert set(engine.pending_sessions) == {"a", "b"}
        ready.append(True)
        engine.step({"a": {}, "b": {}})
        assert not engine.pending_sessions


class TestPipelinedChildren:
    def test_the_depth_is_the_childrens(self, replicas):
        engine = replicas(pipelined_child, max_sessions=2)
        assert engine.manifest().pipeline_depth_chunks == 2

    def test_a_paused_session_returns_what_its_child_holds_and_nothing_more(self, replicas):
        engine = replicas(pipelined_child, max_sessions=2)
        attach(engine, "a", "b")
        assert engine.step({"a": {}, "b": {}}) == []
        assert ages(engine.step({"b": {}})) == {"a": 0, "b": 0}
        assert ages(engine.step({"b": {}})) == {"b": 1}
        assert ages(engine.step({})) == {"b": 2}
        assert engine.step({}) == []

    def test_a_session_that_comes_back_goes_on(self, replicas):
        engine = replicas(pipelined_child, max_sessions=1)
        attach(engine, "a")
        engine.step({"a": {}})
        engine.step({})
        assert engine.step({"a": {}}) == []
        assert ages(engine.step({})) == {"a": 1}

    def test_a_child_that_is_not_due_and_holds_nothing_is_left_alone(self, replicas):
        factory = Factory()
        engine = replicas(factory, max_sessions=1)
        attach(engine, "a")
        for _ in range(3):
            engine.step({})
        assert factory.children[0].calls_of("step") == []

    def test_a_detached_sessions_chunk_in_flight_does_not_reach_the_next_holder(self, replicas):
        engine = replicas(pipelined_child, max_sessions=1)
        attach(engine, "a")
        engine.step({"a": {}})
        engine.detach("a")
        attach(engine, "b")
        assert engine.step({}) == []
        assert engine.step({"b": {}}) == []
        assert ages(engine.step({})) == {"b": 0}

    def test_a_deeper_pipeline_is_flushed_to_its_end(self, replicas):
        class Deep(ScriptedEngine):
            """Emits each chunk two steps late."""

            def __init__(self) -> None:
                super().__init__(1)
                self.held: list[list[StepResult]] = [[], []]

            def manifest(self) -> EngineManifest:
                return EngineManifest(1, pipeline_depth_chunks=3)

            def step(self, due):
                self.held.append(super().step(due))
                return self.held.pop(0)

        engine = replicas(Deep, max_sessions=1)
        attach(engine, "a")
        assert engine.step({"a": {}}) == []
        assert engine.step({"a": {}}) == []
        assert [ages(engine.step({})) for _ in range(3)] == [{"a": 0}, {"a": 1}, {}]


class TestFinalize:
    def test_each_child_is_asked_for_its_own_session(self, replicas):
        factory = Factory()
        engine = replicas(factory, max_sessions=2)
        attach(engine, "a", "b")
        engine.finalize(["b", "unknown"])
        assert [child.calls_of("finalize") for child in factory.children] == [[], [["b"]]]

    def test_a_failing_child_does_not_keep_the_others_from_it(self, replicas):
        factory = Factory()
        engine = replicas(factory, max_sessions=3)
        attach(engine, "a", "b", "c")
        factory.plans[0].fail("finalize", ValueError("broken"))
        with pytest.raises(StepFailure) as failed:
            engine.finalize(["a", "b", "c"])
        assert set(failed.value.failures) == {"a"}
        assert [len(child.calls_of("finalize")) for child in factory.children] == [0, 1, 1]


class TestReset:
    def test_a_child_that_can_reset_is_asked_to(self, replicas):
        engine = replicas(lambda: ComposedEngine(RecordingModel(1)), max_sessions=2)
        attach(engine, "a", "b", prompt="x")
        engine.step({"a": {}, "b": {}})
        engine.reset(SessionInit("a", {"prompt": "z"}))
        results = engine.step({"a": {}, "b": {}})
        assert ages(results) == {"a": 0, "b": 1}
        assert results[0].output.prompt == "z"

    def test_a_child_that_cannot_is_detached_and_attached(self, replicas):
        factory = Factory()
        engine = replicas(factory, max_sessions=1)
        attach(engine, "a")
        engine.step({"a": {}})
        engine.reset(SessionInit("a", {"seed": 2}))
        (result,) = engine.step({"a": {}})
        assert (result.output.age, result.output.context) == (0, {"seed": 2})
        assert len(factory.children) == 1

    def test_reset_of_an_unknown_id_is_refused(self, replicas):
        engine = replicas(Factory(), max_sessions=1)
        with pytest.raises(AdmissionError, match="'a'"):
            engine.reset(SessionInit("a"))
        assert engine.active_sessions == 0

    def test_a_failed_release_in_a_reset_keeps_the_session_as_it_was(self, replicas):
        factory = Factory()
        engine = replicas(factory, max_sessions=1)
        attach(engine, "a")
        engine.step({"a": {}})
        factory.plans[0].fail("detach", OSError("busy"))
        with pytest.raises(OSError):
            engine.reset(SessionInit("a"))
        assert ages(engine.step({"a": {}})) == {"a": 1}

    def test_a_failed_attach_in_a_reset_releases_the_session_and_is_no_admission_error(self, replicas):
        factory = Factory()
        engine = replicas(factory, max_sessions=1)
        attach(engine, "a")
        factory.plans[0].fail("attach", AdmissionError("full"))
        with pytest.raises(RuntimeError, match="released") as failed:
            engine.reset(SessionInit("a"))
        assert not isinstance(failed.value, AdmissionError), "that would mean that nothing was released"
        assert (engine.active_sessions, engine.pooled_children) == (0, 1)
        attach(engine, "a")


def test_a_child_that_answers_for_anothers_session_is_its_own_failure():
    class Stray(ScriptedEngine):
        def step(self, due):
            return [StepResult("b", "stolen")] if "a" in due else super().step(due)

    engine = ReplicaEngine(lambda: Stray(1), max_sessions=2)
    for name in "ab":
        engine.attach(SessionInit(name, {}))
    with pytest.raises(StepFailure) as failed:
        engine.step({"a": {}, "b": {}})
    assert list(failed.value.failures) == ["a"]
    assert [result.output.age for result in failed.value.results] == [0]


class TestParallel:
    def test_children_are_stepped_at_the_same_time_and_finalized_too(self):
        together = threading.Barrier(3)

        class Meeting(ScriptedEngine):
            def step(self, due):
                together.wait(WAIT_S)
                return super().step(due)

            def finalize(self, session_ids):
                together.wait(WAIT_S)

        engine = ReplicaEngine(lambda: Meeting(1), max_sessions=3, parallel=True)
        attach(engine, *"abc")
        assert ages(engine.step({name: {} for name in "abc"})) == {"a": 0, "b": 0, "c": 0}
        engine.finalize(list("abc"))
        engine.close()

    def test_results_keep_the_order_of_attach_when_the_first_child_is_the_slowest(self):
        second_done = threading.Event()

        class Patient(ScriptedEngine):
            def step(self, due):
                if "a" in due:
                    assert second_done.wait(WAIT_S)
                results = super().step(due)
                if "b" in due:
                    second_done.set()
                return results

        engine = ReplicaEngine(lambda: Patient(1), max_sessions=2, parallel=True)
        attach(engine, "a", "b")
        assert [result.session_id for result in engine.step({"b": {}, "a": {}})] == ["a", "b"]
        engine.close()

    def test_a_failure_waits_for_the_chunks_of_slower_children(self):
        failed = threading.Event()

        class Mixed(ScriptedEngine):
            def step(self, due):
                if "a" in due:
                    failed.set()
                    raise ValueError("a")
                assert failed.wait(WAIT_S)
                return super().step(due)

        engine = ReplicaEngine(lambda: Mixed(1), max_sessions=2, parallel=True)
        attach(engine, "a", "b")
        with pytest.raises(StepFailure) as step_failure:
            engine.step({"a": {}, "b": {}})
        assert list(step_failure.value.failures) == ["a"]
        assert ages(step_failure.value.results) == {"b": 0}
        engine.close()

    def test_each_child_is_built_and_called_on_a_thread_of_its_own(self):
        factory = Factory()
        built_on: list[int] = []

        def build() -> FaultyEngine:
            built_on.append(threading.get_ident())
            return factory()

        engine = ReplicaEngine(build, max_sessions=2, parallel=True)
        attach(engine, "a", "b")
        for _ in range(3):
            engine.step({"a": {}, "b": {}})
            engine.finalize(["a", "b"])
        engine.detach("a")
        attach(engine, "c")
        engine.step({"c": {}})
        threads = [{call.thread for call in child.calls} for child in factory.children]
        assert threads == [{built_on[0]}, {built_on[1]}]
        assert len({*built_on, threading.get_ident()}) == 3
        engine.close()

    def test_close_ends_the_threads_and_closes_the_children(self):
        closed_on: list[str] = []

        class Closing(ScriptedEngine):
            def close(self):
                closed_on.append(threading.current_thread().name)
                if len(closed_on) == 1:
                    raise OSError("busy")

        before = set(threading.enumerate())
        engine = ReplicaEngine(lambda: Closing(1), max_sessions=3, parallel=True)
        attach(engine, *"abc")
        engine.detach("c")
        assert len(set(threading.enumerate()) - before) == 3
        engine.close()
        engine.close()
        assert set(threading.enumerate()) == before
        assert sorted(closed_on) == ["replica-1", "replica-2", "replica-3"]
        assert (engine.active_sessions, engine.pooled_children) == (0, 0)
        attach(engine, "d")
        assert ages(engine.step({"d": {}})) == {"d": 0}
        engine.close()
        assert set(threading.enumerate()) == before

    def test_a_factory_that_fails_and_a_discarded_child_leave_no_thread(self):
        before = set(threading.enumerate())
        engine = ReplicaEngine(raiser(OSError("no memory")), max_sessions=1, parallel=True)
        with pytest.raises(OSError, match="no memory"):
            attach(engine, "a")
        assert set(threading.enumerate()) == before
        factory = Factory()
        engine = ReplicaEngine(factory, max_sessions=1, parallel=True)
        engine.manifest()
        for hook in ("attach", "detach"):
            factory.plans[0].fail(hook, OSError(hook))
        with pytest.raises(OSError, match="attach"):
            attach(engine, "a")
        assert set(threading.enumerate()) == before

    def test_threads_end_with_the_engine(self):
        before = set(threading.enumerate())
        engine = ReplicaEngine(lambda: ScriptedEngine(1), max_sessions=1, parallel=True)
        attach(engine, "a")
        [thread] = set(threading.enumerate()) - before
        del engine
        gc.collect()
        thread.join(WAIT_S)
        assert not thread.is_alive()


def test_close_of_a_serial_engine_closes_its_children(replicas):
    closed: list[int] = []

    class Closing(ScriptedEngine):
        def close(self):
            closed.append(1)

    engine = replicas(lambda: Closing(1), max_sessions=2)
    attach(engine, "a", "b")
    engine.close()
    assert closed == [1, 1]


def test_the_end_of_a_rollout_is_passed_on(replicas):
    engine = replicas(lambda: ScriptedEngine(1, rollout_chunks=2), max_sessions=2)
    attach(engine, "a")
    assert [result.last for result in engine.step({"a": {}})] == [False]
    attach(engine, "b")
    results = engine.step({"a": {}, "b": {}})
    assert {result.session_id: result.last for result in results} == {"a": True, "b": False}
