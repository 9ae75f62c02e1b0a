"""Engines stepped without a clock."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from realtime_engine import AdmissionError, ComposedEngine, SessionInit, StepResult
from realtime_engine.core.contract import RealtimeInterface
from realtime_engine.examples import CpuStageModel
from realtime_engine.infra.control_log import ControlLog, Entry
from realtime_engine.infra.controls import Controls, KeyBinding
from realtime_engine.infra.demo import Demo
from realtime_engine.infra.offline import OfflineSession, Replay, RunFailed
from realtime_engine.testing import ScriptedEngine

DEMO = Demo(
    "demo",
    "Demo",
    lambda options: ScriptedEngine(),
    Controls(keys=(KeyBinding("KeyW", "Forward"),)),
    lambda window: {"keys": window.keys},
)


def key(chunk: int, seq: int, *keys: str) -> Entry:
    edges = [{"seq": seq, "kind": "key_down", "code": code} for code in keys]
    return Entry(0.0, {"v": 1, "type": "controls", "seq": seq, "keys": list(keys), "edges": edges}, chunk)


def own(kind: str, chunk: int) -> Entry:
    return Entry(0.0, {"type": kind}, chunk)


def replay(*entries: Entry) -> Replay:
    return Replay(DEMO, ControlLog(entries), "offline", rate_hz=30)


def play(engine: RealtimeInterface, chunks: int, *entries: Entry) -> list[Any]:
    with OfflineSession(engine) as session:
        return list(session.play(replay(*entries), chunks))


def test_each_chunk_shows_what_the_log_said_before_it() -> None:
    chunks = play(ScriptedEngine(), 6, key(2, 1, "KeyW"), key(4, 2))
    assert [chunk.seq for chunk in chunks] == list(range(6))
    assert [chunk.action_id for chunk in chunks] == [None, None, 1, 1, 2, 2]
    assert [chunk.output.conditioning["keys"] for chunk in chunks] == [(), (), ("KeyW",), ("KeyW",), (), ()]
    assert [len(chunk.output.conditioning.get("events", ())) for chunk in chunks] == [0, 0, 1, 0, 0, 0]
    stamps = chunks[3].stamps
    assert 0 < stamps.action_received <= stamps.step_begin <= stamps.step_end <= stamps.emitted


def test_everything_runs_on_one_thread_and_ends_with_a_detach() -> None:
    engine = ScriptedEngine()
    play(engine, 2)
    assert {call.thread for call in engine.calls} == {threading.get_ident()}
    assert [call.hook for call in engine.calls] == ["attach", *["step", "finalize"] * 2, "detach"]


def test_a_reset_begins_an_epoch_and_goes_on_counting() -> None:
    chunks = play(ScriptedEngine(), 5, own("reset", 3), own("act", 3))
    assert [(chunk.seq, chunk.epoch, chunk.output.age) for chunk in chunks] == [
        (0, 1, 0),
        (1, 1, 1),
        (2, 1, 2),
        (3, 2, 0),
        (4, 2, 1),
    ]


@pytest.mark.parametrize("pipeline", [False, True])
def test_a_pipeline_changes_nothing_but_its_depth(pipeline: bool) -> None:
    def outputs(engine: ComposedEngine) -> list[Any]:
        chunks = play(engine, 7, key(2, 1, "KeyW"), own("reset", 4), own("act", 4), key(6, 2))
        return [(chunk.seq, chunk.epoch, chunk.action_id, chunk.output.tobytes()) for chunk in chunks]

    plain = outputs(ComposedEngine(CpuStageModel(), pipeline=False))
    assert len(plain) == 7 and outputs(ComposedEngine(CpuStageModel(), pipeline=pipeline)) == plain


def test_a_rejected_session_is_reported() -> None:
    engine = ScriptedEngine(max_sessions=1)
    engine.attach(SessionInit("somebody else"))
    with pytest.raises(RunFailed, match="rejected the session: AdmissionError: the engine is full"):
        play(engine, 1)


def test_a_reset_that_is_refused_with_nothing_changed_goes_on() -> None:
    class Firm(ScriptedEngine):
        def reset(self, init: SessionInit) -> None:
            raise AdmissionError("not now")

    chunks = play(Firm(), 4, own("reset", 2))
    assert [(chunk.epoch, chunk.output.age) for chunk in chunks] == [(1, 0), (1, 1), (1, 2), (1, 3)]


class Failing(ScriptedEngine):
    def __init__(self, failures: int, error: BaseException | None = None) -> None:
        super().__init__()
        self.left = failures
        self.error = error or ValueError("no luck")
        self.closed = False

    def step(self, due: Mapping[str, Mapping[str, Any]]) -> list[StepResult]:
        if self.left:
            self.left -= 1
            raise self.error
        return super().step(due)

    def close(self) -> None:
        self.closed = True


def test_a_step_that_fails_now_and_then_costs_no_chunk() -> None:
    assert len(play(Failing(9), 3)) == 3


def test_ten_failures_in_a_row_end_the_run_and_close_the_engine() -> None:
    engine = Failing(10)
    with pytest.raises(RunFailed, match="failed 10 times in a row: ValueError: no luck"):
        play(engine, 3)
    assert engine.closed and engine.active_sessions == 0


def test_an_interrupt_is_no_failure_of_the_model() -> None:
    with pytest.raises(KeyboardInterrupt):
        play(Failing(1, KeyboardInterrupt()), 3)


@pytest.mark.parametrize("pipeline", [False, True])
def test_it_stops_where_the_rollout_ends(pipeline: bool) -> None:
    engine = ComposedEngine(CpuStageModel(1, rollout_chunks=3), pipeline=pipeline)
    with OfflineSession(engine) as session:
        assert [chunk.seq for chunk in session.play(replay(), 10)] == [0, 1, 2]
        assert session.finished


def test_a_reset_in_the_log_starts_the_next_rollout() -> None:
    chunks = play(ScriptedEngine(rollout_chunks=3), 10, own("reset", 3))
    assert [chunk.output.age for chunk in chunks] == [0, 1, 2, 0, 1, 2]
    assert [chunk.epoch for chunk in chunks] == [1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("pipeline", [False, True])
def test_it_stops_at_the_limit_of_the_demo(pipeline: bool) -> None:
    with OfflineSession(ComposedEngine(CpuStageModel(1), pipeline=pipeline), max_chunks=4) as session:
        assert len(list(session.play(replay(), 10))) == 4
        assert session.finished
