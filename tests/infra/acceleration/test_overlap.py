"""One contract for the three runners, and what is particular to each."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from realtime_engine.infra.acceleration import (
    OverlapError,
    OverlapRunner,
    StreamRunner,
    SynchronousRunner,
    ThreadRunner,
    overlap_runner,
)

from .fake_cuda import CPU, FakeCuda

WAIT_S = 10
KINDS: dict[str, Callable[[], OverlapRunner]] = {
    "synchronous": SynchronousRunner,
    "thread": ThreadRunner,
    "stream": StreamRunner,
}


@pytest.fixture(params=KINDS)
def runner(request: pytest.FixtureRequest, cuda: FakeCuda) -> Iterator[OverlapRunner]:
    made = KINDS[request.param]()
    yield made
    made.close()


class TestContract:
    def test_the_result_comes_out_of_wait(self, runner):
        for number in range(5):
            runner.submit(lambda number=number: number * 2)
            assert runner.pending
            assert runner.wait() == number * 2
            assert not runner.pending

    def test_an_error_comes_out_of_wait_and_nowhere_else(self, runner):
        runner.submit(lambda: 1 / 0)
        assert runner.pending
        with pytest.raises(ZeroDivisionError):
            runner.wait()
        assert not runner.pending
        runner.submit(lambda: "next")
        assert runner.wait() == "next"

    def test_even_an_exit_comes_out_of_wait(self, runner):
        runner.submit(lambda: sys.exit(3))
        with pytest.raises(SystemExit):
            runner.wait()
        runner.submit(lambda: "next")
        assert runner.wait() == "next"

    def test_one_task_is_pending_at_most(self, runner):
        ran = []
        runner.submit(lambda: ran.append(1))
        with pytest.raises(OverlapError, match="wait"):
            runner.submit(lambda: ran.append(2))
        runner.wait()
        assert ran == [1]

    def test_there_is_nothing_to_wait_for_without_a_task(self, runner):
        with pytest.raises(OverlapError, match="submit"):
            runner.wait()
        runner.submit(lambda: None)
        runner.wait()
        with pytest.raises(OverlapError):
            runner.wait()

    def test_closing_lets_the_task_end(self, runner):
        ran = []
        runner.submit(lambda: ran.append(1))
        runner.close()
        assert ran == [1] and not runner.pending

    def test_closing_logs_the_error_that_nobody_waited_for(self, runner, caplog):
        runner.submit(lambda: 1 / 0)
        runner.close()
        assert "ZeroDivisionError" in caplog.text

    def test_a_closed_one_takes_no_more(self, runner):
        runner.close()
        runner.close()
        with pytest.raises(OverlapError, match="closed"):
            runner.submit(lambda: None)

    def test_a_task_is_let_go_of_when_it_has_been_waited_for(self, runner):
        class Held:
            gone = threading.Event()

            def __call__(self) -> None: ...

            def __del__(self) -> None:
                Held.gone.set()

        runner.submit(Held())
        runner.wait()
        assert Held.gone.wait(WAIT_S)


class TestThread:
    def test_the_caller_goes_on_meanwhile(self):
        runner, gate = ThreadRunner(), threading.Event()
        runner.submit(lambda: (gate.wait(WAIT_S), threading.get_ident()))
        gate.set()  # inside submit it would have been too late
        opened, thread = runner.wait()
        assert opened and thread != threading.get_ident()
        runner.close()

    def test_its_thread_ends_with_it(self):
        runner = ThreadRunner("a runner that ends")
        (thread,) = [thread for thread in threading.enumerate() if thread.name == "a runner that ends"]
        runner.close()
        thread.join(WAIT_S)
        assert not thread.is_alive()


class TestStream:
    def test_the_task_comes_after_what_the_caller_had_enqueued(self, cuda):
        runner = StreamRunner()
        cuda.default_stream.seen.add("latents")
        runner.submit(lambda: cuda.mark("decode"))
        assert "latents" in cuda.before["decode"]
        assert cuda.stream_of["decode"] is cuda.streams[0]
        runner.wait()

    def test_what_follows_wait_comes_after_the_task_and_the_host_does_not_wait(self, cuda):
        runner = StreamRunner()
        runner.submit(lambda: cuda.mark("decode"))
        assert "decode" not in cuda.default_stream.seen
        runner.wait()
        assert "decode" in cuda.default_stream.seen
        assert "decode" not in cuda.host_seen

    def test_that_holds_for_a_task_that_fails_half_way(self, cuda):
        def fails() -> None:
            cuda.mark("half")
            raise ValueError

        runner = StreamRunner()
        runner.submit(fails)
        with pytest.raises(ValueError):
            runner.wait()
        assert "half" in cuda.default_stream.seen

    def test_its_tensors_stay_until_the_callers_stream_is_done_with_them(self, cuda):
        runner = StreamRunner()
        runner.submit(lambda: {"frames": [cuda.tensor(1)], "host": cuda.tensor(1, device=CPU), "text": "x"})
        result = runner.wait()
        assert result["frames"][0].used_on == [cuda.default_stream]
        assert result["host"].used_on == []

    def test_it_needs_a_gpu(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch", FakeCuda(available=False))
        with pytest.raises(RuntimeError, match="overlap_runner"):
            StreamRunner()


class TestChoice:
    def test_by_name(self, cuda):
        for kind, make in KINDS.items():
            runner = overlap_runner(kind)
            assert type(runner) is make
            runner.close()

    def test_a_stream_falls_back_where_there_is_no_gpu(self, monkeypatch, caplog):
        monkeypatch.setitem(sys.modules, "torch", FakeCuda(available=False))
        assert type(overlap_runner("stream")) is SynchronousRunner
        assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [
            "overlap on a CUDA stream falls back to eager: there is no CUDA device"
        ]

    def test_threads_need_no_torch(self, no_torch):
        overlap_runner("thread").close()

    def test_unknown(self):
        with pytest.raises(ValueError, match="'stream', not 'fibre'"):
            overlap_runner("fibre")
