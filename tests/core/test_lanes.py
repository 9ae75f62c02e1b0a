from __future__ import annotations

import gc
import subprocess
import sys
import threading

import pytest

from realtime_engine import ComposedEngine, Lane, SessionInit, StepFailure
from realtime_engine.core.lanes import (
    InlineLane,
    LateLane,
    ThreadLane,
    cuda_torch,
    inline_lanes,
    late_lanes,
    thread_lanes,
)
from realtime_engine.examples import CpuStageModel

from .fake_torch import FakeTorch
from .stage_models import WAIT_S, RecordingModel


@pytest.fixture
def torch(monkeypatch) -> FakeTorch:
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


class TestInline:
    def test_work_runs_at_once_on_the_callers_thread(self):
        ran = []
        completion = InlineLane().submit(lambda: ran.append(threading.get_ident()))
        assert ran == [threading.get_ident()]
        assert completion.done()
        completion.wait()

    def test_submit_raises_what_the_work_raises(self):
        with pytest.raises(ZeroDivisionError):
            InlineLane().submit(lambda: 1 / 0)

    def test_sync_has_nothing_to_wait_for(self):
        for lane in inline_lanes():
            lane.sync()


class TestLate:
    def test_work_runs_in_order_when_it_is_waited_for(self):
        lane, ran = LateLane(), []
        first, second, third = (lane.submit(lambda n=n: ran.append(n)) for n in range(3))
        assert ran == [] and not first.done()
        second.wait()
        assert ran == [0, 1]
        assert first.done() and second.done() and not third.done()
        lane.sync()
        second.wait()
        assert ran == [0, 1, 2]

    def test_each_wait_raises_what_its_own_work_raised(self):
        lane = LateLane()
        bad, good = lane.submit(lambda: 1 / 0), lane.submit(lambda: None)
        lane.sync()
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                bad.wait()
        good.wait()

    def test_work_that_follows_it_on_another_lane_runs_it_first(self):
        lanes, ran = late_lanes(), []
        decoded = lanes.deferred.submit(lambda: ran.append("deferred"))
        lanes.hot.submit(lambda: ran.append("hot"))
        lanes.encode.submit(lambda: ran.append("encode"), after=(decoded,))
        assert ran == ["hot", "deferred", "encode"]


class TestThread:
    def test_work_runs_on_another_thread_and_in_order(self):
        lane, ran = ThreadLane("test"), []
        completions = [lane.submit(lambda n=n: ran.append((n, threading.get_ident()))) for n in range(20)]
        lane.sync()
        assert [n for n, _ in ran] == list(range(20))
        assert threading.get_ident() not in {thread for _, thread in ran}
        assert all(completion.done() for completion in completions)

    def test_a_completion_is_not_done_while_its_work_runs(self):
        lane, gate = ThreadLane("test"), threading.Event()
        completion = lane.submit(lambda: gate.wait(WAIT_S))
        assert not completion.done()
        gate.set()
        completion.wait()
        assert completion.done()

    def test_wait_raises_what_the_work_raised_and_sync_does_not(self):
        lane = ThreadLane("test")
        completion = lane.submit(lambda: 1 / 0)
        lane.sync()
        assert completion.done()
        with pytest.raises(ZeroDivisionError):
            completion.wait()

    def test_failed_work_does_not_stop_the_lane(self):
        lane, ran = ThreadLane("test"), []
        lane.submit(lambda: 1 / 0)
        lane.submit(lambda: ran.append(1)).wait()
        assert ran == [1]

    def test_work_starts_after_its_predecessor(self):
        first, second, gate, ran = ThreadLane("first"), ThreadLane("second"), threading.Event(), []
        before = first.submit(lambda: (gate.wait(WAIT_S), ran.append("first")))
        after = second.submit(lambda: ran.append("second"), after=(before,))
        assert not after.done()
        gate.set()
        after.wait()
        assert ran == ["first", "second"]

    def test_work_starts_even_if_its_predecessor_failed(self):
        first, second, ran = ThreadLane("first"), ThreadLane("second"), []
        second.submit(lambda: ran.append(1), after=(first.submit(lambda: 1 / 0),)).wait()
        assert ran == [1]

    def test_sync_of_an_idle_lane_returns(self):
        ThreadLane("test").sync()

    @pytest.mark.parametrize("pipelined", [True, False])
    def test_hot_stays_on_the_stepping_thread_and_deferred_leaves_it_in_a_pipeline_alone(self, pipelined):
        lanes = thread_lanes(pipelined=pipelined)
        where: dict[str, int] = {}
        for name in lanes._fields:
            getattr(lanes, name).submit(lambda name=name: where.update({name: threading.get_ident()})).wait()
        here = threading.get_ident()
        assert (where["hot"] == here, where["deferred"] == here, where["encode"] == here) == (
            True,
            not pipelined,
            False,
        )
        assert where["encode"] != where["deferred"]


class TestLookingForTorch:
    def test_it_is_not_imported_for_a_model_that_declares_nothing(self, monkeypatch):
        monkeypatch.delitem(sys.modules, "torch", raising=False)
        monkeypatch.setattr("importlib.import_module", lambda name: pytest.fail(f"imported {name}"))
        assert cuda_torch(declared=False) is None

    def test_it_is_imported_for_a_model_that_declares_a_device(self, monkeypatch):
        fake = FakeTorch()
        monkeypatch.delitem(sys.modules, "torch", raising=False)
        monkeypatch.setattr("importlib.import_module", lambda name: fake)
        assert cuda_torch(declared=True) is fake

    def test_a_missing_torch_is_no_error(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch", None)
        assert cuda_torch(declared=True) is None

    def test_torch_without_a_device_does_not_count(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch", FakeTorch(available=False))
        assert cuda_torch(declared=True) is None
        engine = ComposedEngine(CpuStageModel())
        assert not engine.pipelined

    def test_the_cpu_path_never_imports_torch(self):
        program = (
            "import sys\n"
            "from realtime_engine import ComposedEngine, SessionInit\n"
            "from realtime_engine.examples import CpuStageModel\n"
            "for options in ({}, {'pipeline': True}, {'lanes': 'thread'}):\n"
            "    engine = ComposedEngine(CpuStageModel(), **options)\n"
            "    engine.attach(SessionInit('a', {'prompt': 'x'}))\n"
            "    for n in range(5):\n"
            "        engine.step({'a': {'prompt': str(n)}})\n"
            "    engine.detach('a')\n"
            "assert 'torch' not in sys.modules\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


class MarkedModel(RecordingModel):
    """Notes each stage call as an operation on the fake device: ``hot#0``, ``hot#1``, ``encode#0:a``..."""

    def __init__(self, torch: FakeTorch, max_sessions: int = 4, **options) -> None:
        super().__init__(max_sessions, **options)
        self._torch = torch
        self._count: dict[str, int] = {}
        self.host_saw_at_detach: list[set[str]] = []
        self.threads_of_stages: set[int] = set()

    def _note(self, hook, argument, what) -> None:
        super()._note(hook, argument, what)
        if hook == "detach":
            self.host_saw_at_detach.append(set(self._torch.host_seen))
            return
        number = self._count.get(hook, 0)
        self._count[hook] = number + 1
        self._torch.mark(f"{hook}#{number}")


def attach(engine: ComposedEngine, *names: str, **context) -> None:
    for name in names:
        engine.attach(SessionInit(name, dict(context)))


class TestCuda:
    def test_a_device_and_a_deferred_stage_make_a_pipeline_by_default(self, torch):
        assert ComposedEngine(RecordingModel()).pipelined
        assert not ComposedEngine(RecordingModel(), pipeline=False).pipelined
        assert not ComposedEngine(RecordingModel(lanes=(Lane.HOT,))).pipelined
        assert ComposedEngine(RecordingModel()).manifest().pipeline_depth_chunks == 2

    def test_construction_probes_and_opens_no_stream(self, torch):
        engine = ComposedEngine(MarkedModel(torch, cuda_device=lambda: pytest.fail("asked too early")))
        assert torch.probes == 1
        assert torch.streams == []
        attach(engine, "a")
        assert torch.streams == []

    def test_three_streams_are_opened_by_the_first_step_on_its_thread_and_the_models_device(self, torch):
        asked: list[int] = []

        def device() -> str:
            asked.append(threading.get_ident())
            return "cuda:1"

        engine = ComposedEngine(MarkedModel(torch, cuda_device=device))
        attach(engine, "a")
        stepping: list[int] = []

        def step() -> None:
            stepping.append(threading.get_ident())
            for _ in range(3):
                engine.step({"a": {}})

        thread = threading.Thread(target=step)
        thread.start()
        thread.join(WAIT_S)
        assert asked == stepping
        assert [stream.device for stream in torch.streams] == ["cuda:1"] * 3
        assert {stream.thread for stream in torch.streams} == set(stepping)

    def test_without_a_declared_device_the_current_one_is_taken(self, torch):
        engine = ComposedEngine(MarkedModel(torch))
        engine.step({})
        assert [stream.device for stream in torch.streams] == [0, 0, 0]

    def test_streams_begin_after_the_weights(self, torch):
        ComposedEngine(MarkedModel(torch)).step({})
        assert all(stream.waited_for_builder for stream in torch.streams)

    def test_the_manifest_is_the_same_before_and_after_the_first_step(self, torch):
        engine = ComposedEngine(MarkedModel(torch))
        before = engine.manifest()
        attach(engine, "a")
        engine.step({"a": {}})
        assert engine.manifest() == before

    def test_each_stage_runs_on_its_own_stream_and_seeding_on_the_hot_one(self, torch):
        engine = ComposedEngine(MarkedModel(torch))
        attach(engine, "a", prompt="x")
        engine.step({"a": {"prompt": "x"}})
        engine.step({"a": {"prompt": "y"}})
        on = torch.stream_of
        assert on["seed#0"] is on["hot#0"] is torch.streams[0]
        assert on["deferred#0"] is torch.streams[1]
        assert on["encode#0"] is torch.streams[2]

    @pytest.mark.parametrize("pipeline", [True, False])
    def test_deferred_follows_the_hot_of_its_chunk(self, torch, pipeline):
        engine = ComposedEngine(MarkedModel(torch), pipeline=pipeline)
        attach(engine, "a")
        for _ in range(4):
            engine.step({"a": {}})
        engine.step({})
        for n in range(4):
            assert f"hot#{n}" in torch.before[f"deferred#{n}"]

    def test_in_a_pipeline_hot_of_a_chunk_does_not_wait_for_deferred_of_the_one_before(self, torch):
        engine = ComposedEngine(MarkedModel(torch), pipeline=True)
        attach(engine, "a")
        for _ in range(4):
            engine.step({"a": {}})
        for n in range(1, 4):
            assert f"deferred#{n - 1}" not in torch.before[f"hot#{n}"], "nothing overlaps"

    @pytest.mark.parametrize("pipeline", [True, False])
    def test_chunks_leave_when_their_deferred_work_is_over_on_the_device(self, torch, pipeline):
        engine = ComposedEngine(MarkedModel(torch), pipeline=pipeline)
        attach(engine, "a")
        emitted = 0
        for _ in range(4):
            emitted += len(engine.step({"a": {}}))
            assert all(f"deferred#{n}" in torch.host_seen for n in range(emitted))

    def test_encode_follows_the_deferred_work_of_the_row_and_its_seeding(self, torch):
        engine = ComposedEngine(MarkedModel(torch), pipeline=True)
        attach(engine, "a", prompt="x")
        engine.step({"a": {"prompt": "x"}})
        engine.step({"a": {"prompt": "y"}})
        assert {"seed#0", "hot#0", "deferred#0"} <= torch.before["encode#0"]

    def test_encode_of_a_row_that_is_seeded_in_the_same_step_follows_the_seeding(self, torch):
        engine = ComposedEngine(MarkedModel(torch), pipeline=True)
        attach(engine, "a", prompt="x")
        engine.step({"a": {"prompt": "y"}})
        assert "seed#0" in torch.before["encode#0"]

    def test_encode_of_a_row_that_was_seeded_in_an_earlier_idle_step_follows_the_seeding(self, torch):
        engine = ComposedEngine(MarkedModel(torch), pipeline=True)
        attach(engine, "a", prompt="x")
        engine.step({})
        engine.step({"a": {"prompt": "y"}})
        assert "seed#0" in torch.before["encode#0"]

    def test_encode_follows_the_seeding_of_its_row_when_another_rows_seeding_failed(self, torch):
        model = MarkedModel(torch)

        def seed(rows) -> None:
            if any(context.get("bad") for context in rows.values()):
                raise ValueError("bad seed")

        model.before["seed"] = seed
        engine = ComposedEngine(model, pipeline=True)
        attach(engine, "a", prompt="x")
        attach(engine, "b", bad=True)
        with pytest.raises(Exception, match="bad seed"):
            engine.step({"a": {"prompt": "y"}, "b": {}})
        assert "seed#0" in torch.before["encode#0"]

    def test_a_row_rejoins_only_when_the_device_says_that_its_encode_is_over(self, torch):
        engine = ComposedEngine(MarkedModel(torch), pipeline=False)
        attach(engine, "a", "b", prompt="x")
        engine.step({"a": {"prompt": "x"}, "b": {"prompt": "x"}})
        torch.busy.add(torch.encode)
        for _ in range(3):
            results = engine.step({"a": {"prompt": "y"}, "b": {"prompt": "x"}})
            assert [result.session_id for result in results] == ["b"]
        torch.busy.clear()
        results = engine.step({"a": {"prompt": "y"}, "b": {"prompt": "x"}})
        assert [result.output.prompt for result in results] == ["y", "x"]

    @pytest.mark.parametrize("pipeline", [True, False])
    def test_detach_waits_for_all_that_may_touch_the_row(self, torch, pipeline):
        model = MarkedModel(torch)
        engine = ComposedEngine(model, pipeline=pipeline)
        attach(engine, "a", prompt="x")
        engine.step({"a": {"prompt": "x"}})
        engine.step({"a": {"prompt": "y"}})
        torch.busy.add(torch.encode)
        engine.detach("a")
        assert set(torch.before) <= model.host_saw_at_detach[0], "the row was released under running work"

    def test_a_failed_stage_waits_for_the_lanes(self, torch):
        model = MarkedModel(torch)
        engine = ComposedEngine(model, pipeline=True)
        attach(engine, "a")
        engine.step({"a": {}})
        model.before["hot"] = lambda batch: (_ for _ in ()).throw(ValueError("hot"))
        with pytest.raises(ValueError, match="hot"):
            engine.step({"a": {}})
        assert {"hot#0", "deferred#0"} <= torch.host_seen

    def test_a_broken_device_does_not_hide_the_first_error(self, torch):
        model = MarkedModel(torch)
        engine = ComposedEngine(model, pipeline=True)
        attach(engine, "a")
        engine.step({"a": {}})
        model.before["hot"] = lambda batch: (_ for _ in ()).throw(ValueError("hot"))
        for stream in torch.streams:
            stream.synchronize = lambda: (_ for _ in ()).throw(RuntimeError("device lost"))
        with pytest.raises(ValueError, match="hot"):
            engine.step({"a": {}})

    def test_with_threads_an_encode_that_waits_on_the_host_delays_no_other_lane(self, torch):
        model = MarkedModel(torch)
        engine = ComposedEngine(model, pipeline=False, lanes="thread")
        attach(engine, "a", "b", prompt="x")
        engine.step({"a": {"prompt": "x"}, "b": {"prompt": "x"}})
        go_on = threading.Event()
        model.before["encode"] = lambda batch: go_on.wait(WAIT_S)
        for _ in range(3):
            results = engine.step({"a": {"prompt": "y"}, "b": {"prompt": "x"}})
            assert [result.session_id for result in results] == ["b"]
        go_on.set()
        engine.detach("b")
        engine._lanes.encode.sync()
        results = engine.step({"a": {"prompt": "y"}})
        assert [result.output.prompt for result in results] == ["y"]
        assert torch.stream_of["encode#0"] is torch.encode, "the thread feeds ENCODE's stream"
        assert "hot#0" in torch.before["encode#0"]

    def test_with_threads_a_row_rejoins_only_when_the_device_says_that_its_encode_is_over(self, torch):
        engine = ComposedEngine(MarkedModel(torch), pipeline=False, lanes="thread")
        attach(engine, "a", prompt="x")
        engine.step({"a": {"prompt": "x"}})
        torch.busy.add(torch.encode)
        engine.step({"a": {"prompt": "y"}})
        engine._lanes.encode.sync()
        assert engine.step({"a": {"prompt": "y"}}) == []
        torch.busy.clear()
        (result,) = engine.step({"a": {"prompt": "y"}})
        assert result.output.prompt == "y"

    def test_with_threads_a_failing_encode_is_its_rows_failure(self, torch):
        model = MarkedModel(torch)
        engine = ComposedEngine(model, pipeline=False, lanes="thread")
        attach(engine, "a", "b", prompt="x")
        engine.step({"a": {"prompt": "x"}, "b": {"prompt": "x"}})
        model.before["encode"] = lambda batch: (_ for _ in ()).throw(ValueError("bad prompt"))
        engine.step({"a": {"prompt": "y"}, "b": {"prompt": "x"}})
        engine._lanes.encode.sync()
        with pytest.raises(StepFailure, match="bad prompt") as caught:
            engine.step({"a": {"prompt": "y"}, "b": {"prompt": "x"}})
        assert set(caught.value.failures) == {"a"}


def test_work_that_never_ends_on_a_thread_lane_lets_the_process_end():
    code = """
import threading
from realtime_engine.core.lanes import ThreadLane
started = threading.Event()
ThreadLane("lane").submit(lambda: (started.set(), threading.Event().wait()))
started.wait()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_thread_of_a_lane_ends_with_the_lane():
    lane = ThreadLane("lane-that-goes")
    lane.submit(lambda: None).wait()
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "lane-that-goes")
    del lane
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()
