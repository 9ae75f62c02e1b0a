"""Sessions through the public face: order, backpressure, the ways to end, failures."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from realtime_engine.core.streaming.actors import LocalStageActor
from realtime_engine.core.streaming.errors import (
    InvalidStageOutputError,
    SequenceError,
    SessionActiveError,
    SessionEndedError,
    StreamingActorFailedError,
    StreamingBackpressureError,
    StreamingCleanupError,
    StreamingSessionError,
    UnknownSessionError,
)
from realtime_engine.core.streaming.orchestrator import StreamingPipelineOrchestrator
from realtime_engine.core.streaming.process_worker import ProcessWorker
from realtime_engine.core.streaming.specs import StreamingPipelineSpec
from realtime_engine.core.streaming.types import (
    StreamingActorState,
    StreamingSessionCloseReason,
    StreamingSessionStatus,
)
from realtime_engine.core.streaming.worker_actor import ParallelWorkerStageActor
from realtime_engine.testing import ManualClock

from .manual_actors import InlineActor, ManualActor
from .pipelines import chain, diamond
from .workers import TIMEOUT_S, Calculator

STAGES = ("encode", "denoise", "decode")
PRODUCES = {"encode": "y", "denoise": "z", "decode": "out", "left": "l", "right": "r", "join": "out"}


class Pipeline:
    """A pipeline of manual actors."""

    def __init__(self, spec: StreamingPipelineSpec) -> None:
        self.actors = {s.stage_id: ManualActor({PRODUCES[s.stage_id]: s.stage_id}) for s in spec.stages}
        self.clock = ManualClock()
        self.orchestrator = StreamingPipelineOrchestrator(spec, self.actors, clock=self.clock)

    def run(self) -> None:
        """Answer until nothing is left."""
        while busy := [actor for actor in self.actors.values() if actor.taken]:
            busy[0].answer()

    def released(self, session_id: str) -> None:
        assert self.orchestrator.wait_until_idle(session_id)


@contextlib.contextmanager
def pipeline(spec: StreamingPipelineSpec | None = None) -> Iterator[Pipeline]:
    made = Pipeline(chain() if spec is None else spec)
    try:
        yield made
    finally:
        made.run()
        made.orchestrator.close(5.0)


def inline(spec: StreamingPipelineSpec) -> StreamingPipelineOrchestrator:
    """Every stage passes its inputs on."""
    actors = {
        s.stage_id: InlineActor(lambda invocation, name=PRODUCES[s.stage_id]: {name: dict(invocation.inputs)})
        for s in spec.stages
    }
    return StreamingPipelineOrchestrator(spec, actors)


def sequences(outputs: list[tuple[int, str, object]]) -> list[int]:
    return [sequence_id for sequence_id, _, _ in outputs]


# -- flow


def test_interleaved_sessions_keep_their_own_order() -> None:
    with pipeline() as p:
        o = p.orchestrator
        got: dict[str, list[int]] = {"a": [], "b": [], "c": []}
        epochs = [o.create_session(session_id) for session_id in got]
        assert epochs == sorted(set(epochs))
        for sequence_id in range(5):
            for session_id, seen in got.items():
                assert o.try_push_inputs(session_id, sequence_id, {"x": session_id})
                p.run()
                seen += sequences(o.poll_outputs(session_id))
        assert all(seen == list(range(5)) for seen in got.values())


def test_an_output_is_a_triple_with_its_stamps() -> None:
    with pipeline() as p:
        p.orchestrator.create_session("s")
        p.orchestrator.push_input("s", 0, "x", 1)
        p.clock.advance(3.0)
        p.run()
        (output,) = p.orchestrator.poll_outputs("s")
        assert output == (0, "out", ("decode", 0))
        assert output.emitted_at == 3.0 and output.controls == {}


def test_backpressure_reaches_the_caller_and_ends() -> None:
    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")
        taken = 0
        while o.can_push_input("s", "x"):
            assert o.try_push_inputs("s", taken, {"x": taken})
            p.run()
            taken += 1
        # one read-ahead at the reader and one waiting at each stage
        assert taken == 4
        assert not o.try_push_inputs("s", taken, {"x": taken})
        with pytest.raises(StreamingBackpressureError, match="sequence 4 of 'x'"):
            o.push_input("s", taken, "x", taken)
        assert sequences(o.poll_outputs("s")) == [0]
        p.run()
        assert o.can_push_inputs("s", ["x"])


def test_inputs_of_one_sequence_are_taken_all_or_none() -> None:
    spec = diamond()
    with pipeline(spec) as p:
        o = p.orchestrator
        o.create_session("s")
        assert o.try_push_inputs("s", 0, {"x": 0}) and o.try_push_inputs("s", 1, {"x": 1})
        p.actors["left"].answer()
        before = o.artifact_stats("s")
        assert not o.try_push_inputs("s", 2, {"x": 2})  # right has no place for it
        assert o.artifact_stats("s") == before


def test_a_value_is_kept_until_its_last_use() -> None:
    with pipeline(diamond()) as p:
        o = p.orchestrator
        o.create_session("s")
        o.push_input("s", 0, "x", 0)
        assert o.artifact_stats("s").slot_count == 1 and o.artifact_stats("s").reference_count == 2
        p.actors["left"].answer()  # x for right, l for join and the reader
        assert o.artifact_stats("s").slot_count == 2 and o.artifact_stats("s").reference_count == 3
        p.run()
        assert sorted(name for _, name, _ in o.poll_outputs("s")) == ["l", "out"]
        assert o.artifact_stats("s").slot_count == 0


def test_the_first_and_the_last_invocation_are_marked() -> None:
    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s", final_sequence_id=1)
        flags = []
        for sequence_id in range(2):
            o.push_input("s", sequence_id, "x", 0)
            begun = p.actors["encode"].begin()
            assert begun is not None
            flags.append((begun.is_first, begun.is_last))
            p.run()
            o.poll_outputs("s")
        assert flags == [(True, False), (False, True)]


# -- ingress


def test_one_input_may_come_in_any_order_within_the_capacity_of_its_edge() -> None:
    with pipeline(chain(3)) as p:
        o = p.orchestrator
        o.create_session("s")
        with pytest.raises(StreamingBackpressureError, match="no room for sequence 3"):
            o.push_input("s", 3, "x", 3)
        o.push_input("s", 2, "x", 2)
        assert o.wait_until_idle("s", 0.0)  # encode takes one sequence after the other
        o.push_input("s", 0, "x", 0)
        with pytest.raises(SequenceError, match="sequence 2 of 'x' came already; expected 1"):
            o.push_input("s", 2, "x", 2)
        with pytest.raises(SequenceError, match="sequence 2 was accepted already, so 1 is not the final one"):
            o.finish_inputs("s", 1)
        assert o.can_push_input("s", "x")
        assert o.try_push_inputs("s", 1, {"x": 1})
        with pytest.raises(SequenceError, match="sequence 4 of 'x' leaves a gap; expected 3"):
            o.try_push_inputs("s", 4, {"x": 4})
        assert o.try_push_inputs("s", 3, {"x": 3}, in_order=False)
        p.run()
        assert sequences(o.poll_outputs("s")) == [0, 1, 2]
        p.run()
        assert sequences(o.poll_outputs("s")) == [3]
        assert [sequence_id for sequence_id, _ in o.session_metrics("s").ingress_accepted_at] == [0, 1, 2, 3]


def test_a_drain_drops_what_lies_beyond_a_gap() -> None:
    with pipeline(chain(3)) as p:
        o = p.orchestrator
        o.create_session("s")
        o.push_input("s", 0, "x", 0)
        o.push_input("s", 2, "x", 2)
        p.run()
        o.drain_session("s")
        assert sequences(o.poll_outputs("s")) == [0] and o.artifact_stats("s").slot_count == 0


def test_a_wrong_order_is_an_error_at_the_call() -> None:
    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")
        with pytest.raises(SequenceError, match="sequence 1 of 'x' leaves a gap; expected 0"):
            o.try_push_inputs("s", 1, {"x": 0})
        o.push_input("s", 0, "x", 0)
        with pytest.raises(SequenceError, match="sequence 0 of 'x' came already"):
            o.push_input("s", 0, "x", 0)
        with pytest.raises(ValueError, match="'nope' is not an input"):
            o.push_input("s", 1, "nope", 0)
        with pytest.raises(UnknownSessionError, match="there is no session 'other'"):
            o.push_input("other", 0, "x", 0)


def test_the_final_sequence_is_checked() -> None:
    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")
        o.push_input("s", 0, "x", 0)
        with pytest.raises(SequenceError, match="handed to a stage already"):
            o.finish_inputs("s", 0)  # late finish
        o.push_input("s", 1, "x", 0)
        with pytest.raises(SequenceError, match="1 was accepted already"):
            o.finish_inputs("s", 0)
        o.finish_inputs("s", 1)
        o.finish_inputs("s", 1)
        with pytest.raises(SequenceError, match="is 1 already, got 2"):
            o.finish_inputs("s", 2)
        with pytest.raises(SequenceError, match="past its final sequence 1"):
            o.push_input("s", 2, "x", 0)
        assert not o.can_push_input("s", "x")
        with pytest.raises(SequenceError):
            o.create_session("t", final_sequence_id=-1)


# -- controls


def test_a_control_is_sampled_when_the_work_begins() -> None:
    with pipeline(chain(control=True)) as p:
        o = p.orchestrator
        o.create_session("s")
        o.push_input("s", 0, "x", 0)
        p.actors["encode"].answer()
        assert p.actors["denoise"].taken[0][0].inputs["steer"] is None
        p.clock.advance(1.0)
        assert o.set_control("s", "steer", "left") == 1
        p.clock.advance(1.0)
        assert o.set_control("s", "steer", "right") == 2
        begun = p.actors["denoise"].begin()
        assert begun is not None and begun.inputs == {"y": ("encode", 0), "steer": "right"}
        assert o.set_control("s", "steer", "too late") == 3
        p.clock.advance(3.0)
        p.run()
        (output,) = o.poll_outputs("s")
        assert output.controls == {"steer": 2}
        latency = o.session_metrics("s").control_to_output_latency
        assert (latency.count, latency.maximum_seconds) == (1, 3.0)
        with pytest.raises(ValueError, match="'steer' is a control"):
            o.push_input("s", 1, "steer", 0)
        with pytest.raises(ValueError, match="'x' is not a control"):
            o.set_control("s", "x", 0)


# -- the ways to end


def test_a_drained_session_delivers_all_that_it_accepted() -> None:
    with StreamingPipelineOrchestrator(
        chain(4), {s: LocalStageActor(lambda i, s=s: {PRODUCES[s]: i.key.sequence_id}) for s in STAGES}
    ) as o:
        o.create_session("s")
        for sequence_id in range(4):
            o.push_input("s", sequence_id, "x", 0)
        o.drain_session("s")
        assert o.status("s") is StreamingSessionStatus.CLOSED
        assert sequences(o.poll_outputs("s")) == [0, 1, 2, 3]
        with pytest.raises(SessionEndedError):
            o.push_input("s", 4, "x", 0)


def test_a_drain_waits_for_the_reader_and_takes_nothing_new() -> None:
    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")
        o.push_input("s", 0, "x", 0)
        with pytest.raises(TimeoutError, match="'s' was not drained"):
            o.drain_session("s", timeout=0.0)
        with pytest.raises(SessionEndedError, match="being drained"):
            o.push_input("s", 1, "x", 0)
        p.run()
        o.drain_session("s")
        assert sequences(o.poll_outputs("s")) == [0]


def test_a_drain_raises_the_error_of_the_session() -> None:
    with pipeline() as p:
        p.orchestrator.create_session("s")
        p.orchestrator.push_input("s", 0, "x", 0)
        p.actors["encode"].answer(error=ValueError("broken"))
        with pytest.raises(ValueError, match="broken"):
            p.orchestrator.drain_session("s")


def test_a_cancelled_session_starts_nothing_more_and_keeps_its_outputs() -> None:
    with pipeline(chain(2)) as p:
        o = p.orchestrator
        o.create_session("s")
        for sequence_id in range(3):
            o.push_input("s", sequence_id, "x", 0)
            if sequence_id == 0:
                p.run()
        p.actors["encode"].begin()
        with pytest.raises(TimeoutError, match="'s' was not released"):
            o.cancel_session("s", timeout=0.0)
        assert o.status("s") is StreamingSessionStatus.CANCELLED
        with pytest.raises(SessionActiveError, match="not released yet"):
            o.create_session("s")
        p.run()
        o.cancel_session("s")
        assert p.actors["encode"].begun == [0, 1] and p.actors["denoise"].begun == [0]
        assert sequences(o.poll_outputs("s")) == [0]
        assert o.artifact_stats("s").slot_count == 0
        assert o.diagnostics().orphaned_results == 1
        with pytest.raises(SessionEndedError, match="is cancelled"):
            o.push_input("s", 3, "x", 0)


def test_work_in_a_mailbox_is_withdrawn() -> None:
    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")
        o.push_input("s", 0, "x", 0)
        o.cancel_session("s")
        assert p.actors["encode"].begin() is None
        assert p.actors["encode"].begun == [] and o.diagnostics().orphaned_results == 0


def test_state_is_released_from_the_last_stage_to_the_first_once() -> None:
    order: list[str] = []
    actors = {
        s: LocalStageActor(
            lambda i, s=s: {PRODUCES[s]: 0},
            session_closer=lambda context, reason, s=s: order.append((s, context, reason)),
        )
        for s in STAGES
    }
    with StreamingPipelineOrchestrator(chain(), actors) as o:
        epoch = o.create_session("s")
        o.push_input("s", 0, "x", 0)
        o.cancel_session("s")
        o.cancel_session("s")
        o.close_session("s")
        assert [stage for stage, _, _ in order] == ["decode", "denoise", "encode"]
        assert {(context.session_epoch, reason) for _, context, reason in order} == {
            (epoch, StreamingSessionCloseReason.CANCELLED)
        }
        with pytest.raises(UnknownSessionError):
            o.status("s")


def test_an_id_is_used_again_with_a_greater_epoch_and_nothing_of_the_last() -> None:
    with pipeline() as p:
        o = p.orchestrator
        first = o.create_session("s")
        o.push_input("s", 0, "x", 0)
        with pytest.raises(SessionActiveError, match="is running"):
            o.create_session("s")
        p.run()
        o.cancel_session("s")
        assert o.create_session("s") > first
        assert o.poll_outputs("s") == [] and o.status("s") is StreamingSessionStatus.RUNNING
        o.push_input("s", 0, "x", 0)
        p.run()
        assert sequences(o.poll_outputs("s")) == [0]


def test_a_close_that_times_out_ends_in_the_background() -> None:
    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")
        o.push_input("s", 0, "x", 0)
        p.actors["encode"].begin()
        with pytest.raises(TimeoutError):
            o.close_session("s", timeout=0.0)
        p.run()
        with contextlib.suppress(UnknownSessionError):  # when it was quicker
            o.close_session("s")
        assert o.create_session("s")


# -- failures


def test_a_failing_handler_fails_its_session_only() -> None:
    with pipeline(chain(2)) as p:
        o = p.orchestrator
        for session_id in ("good", "bad"):
            o.create_session(session_id)
            o.push_input(session_id, 0, "x", 0)
        p.run()
        o.push_input("bad", 1, "x", 0)
        error = ValueError("no such picture")
        p.actors["encode"].answer(error=error)
        p.released("bad")
        assert o.status("bad") is StreamingSessionStatus.FAILED and o.error("bad") is error
        assert sequences(o.poll_outputs("bad")) == [0]
        assert [reason for _, reason in p.actors["decode"].closings] == [StreamingSessionCloseReason.FAILED]
        o.push_input("good", 1, "x", 0)
        p.run()
        assert sequences(o.poll_outputs("good")) == [0, 1]
        assert o.create_session("bad")


@pytest.mark.parametrize(
    ("outputs", "message"), [({"w": 0}, r"expected the outputs \['y'\], got \['w'\]"), ({}, "got")]
)
def test_wrong_outputs_fail_the_session(outputs: dict[str, object], message: str) -> None:
    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")
        p.actors["encode"].outputs = outputs
        o.push_input("s", 0, "x", 0)
        p.run()
        p.released("s")
        with pytest.raises(InvalidStageOutputError, match=message):
            raise o.error("s") or AssertionError


def test_an_actor_that_fails_for_one_session_fails_those_without_work_too() -> None:
    def lose(work: Any) -> dict[str, object]:
        if work.key.session_id == "culprit":
            raise StreamingActorFailedError("the device is lost")
        return {"y": 0}

    actors: dict[str, Any] = {name: ManualActor({PRODUCES[name]: 0}) for name in STAGES}
    actors["encode"] = LocalStageActor(lose)
    o = StreamingPipelineOrchestrator(chain(), actors)
    for session_id in ("idle", "culprit"):
        o.create_session(session_id)
    o.push_input("culprit", 0, "x", 0)
    for session_id in ("culprit", "idle"):
        assert o.wait_until_idle(session_id, TIMEOUT_S)
        assert o.status(session_id) is StreamingSessionStatus.FAILED
        assert "the device is lost" in str(o.error(session_id))
    o.close(5.0)


def test_a_session_fails_when_the_worker_process_of_a_stage_dies() -> None:
    worker = ProcessWorker(Calculator)
    actors: dict[str, Any] = {name: ManualActor({PRODUCES[name]: 0}) for name in STAGES}
    actors["denoise"] = ParallelWorkerStageActor(worker, "double", lambda work: ((1,), {}), lambda *_: {"z": 0})
    o = StreamingPipelineOrchestrator(chain(), actors)
    o.create_session("s")

    async def wait_for_the_end() -> None:
        async for _ in o.outputs("s"):
            raise AssertionError("nothing was pushed")

    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(StreamingActorFailedError, match=r"stage 'denoise' has failed: its process died \(signal 9\)"):
        asyncio.run(asyncio.wait_for(wait_for_the_end(), TIMEOUT_S))
    o.close(5.0)


def test_no_session_begins_at_a_dead_actor() -> None:
    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")
        o.push_input("s", 0, "x", 0)
        p.actors["encode"].die()
        assert isinstance(o.error("s"), StreamingActorFailedError)
        with pytest.raises(StreamingActorFailedError, match="stage 'encode' is failed: a test said so"):
            o.create_session("t")
        assert not o.health().ok and o.actor_health("encode").state is StreamingActorState.FAILED
        p.released("s")
        with pytest.raises(StreamingCleanupError):  # what it held is in the dead actor
            o.close_session("s")


def test_a_dead_actor_that_came_from_a_factory_is_replaced() -> None:
    made: list[ManualActor] = []

    def factory() -> ManualActor:
        made.append(ManualActor({"y": 0}))
        return made[-1]

    rest = {"denoise": ManualActor({"z": 0}), "decode": ManualActor({"out": 0})}
    o = StreamingPipelineOrchestrator(chain(), {"encode": factory, **rest})
    for session_id in ("busy", "quiet"):
        o.create_session(session_id)
    o.push_input("busy", 0, "x", 0)
    made[0].state = StreamingActorState.FAILED  # without a word to those who wait
    o.create_session("new")
    assert isinstance(o.error("busy"), StreamingActorFailedError)
    assert o.wait_until_idle("busy")
    assert o.cleanup_error("busy") is None  # gone with the actor
    assert o.status("quiet") is StreamingSessionStatus.FAILED  # at once: its state is gone too
    o.push_input("new", 0, "x", 0)
    made[1].answer()
    assert rest["denoise"].taken and o.health().ok
    rest["denoise"].answer()
    rest["decode"].answer()
    o.close(5.0)


def test_a_cleanup_failure_is_recorded_and_blocks_the_id() -> None:
    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")
        p.actors["denoise"].closer_error = OSError("device lost")
        with pytest.raises(StreamingCleanupError, match="OSError: device lost"):
            o.close_session("s")
        assert isinstance(o.cleanup_error("s"), StreamingCleanupError)
        assert len(p.actors["encode"].closings) == 1  # the others are released all the same
        with pytest.raises(SessionActiveError, match="device lost"):
            o.create_session("s")
        assert o.diagnostics().cleanup_failures == 1


def test_a_leaked_slot_is_found_counted_and_dropped() -> None:
    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")
        o.push_input("s", 0, "x", 0)
        p.run()
        o._sessions.get("s").slots["out", 0].references += 1  # somebody forgets to let go
        o.poll_outputs("s")
        with pytest.raises(StreamingCleanupError, match="1 artifacts were left over"):
            o.close_session("s")
        assert o.diagnostics().slot_leaks == 1 and o.artifact_stats("s").slot_count == 0


# -- the whole


def test_groups_bound_what_runs_at_a_time() -> None:
    with pipeline(chain(2, group=1)) as p:
        o = p.orchestrator
        for session_id in ("a", "b"):
            o.create_session(session_id)
            o.push_input(session_id, 0, "x", 0)
        most = 0
        while busy := [actor for actor in p.actors.values() if actor.taken]:
            most = max(most, sum(len(actor.taken) for actor in busy))
            assert o.resource_group_usage("device") == 1
            busy[0].answer()
        assert most == 1 and o.resource_group_usage("device") == 0
        with pytest.raises(KeyError):
            o.resource_group_usage("other")


def test_close_is_bounded_with_a_stuck_handler() -> None:
    gate = threading.Event()
    begun = threading.Event()

    def stuck(_: object) -> dict[str, object]:
        begun.set()
        gate.wait()
        return {"y": 0}

    actors = {
        "encode": LocalStageActor(stuck),
        "denoise": LocalStageActor(lambda i: {"z": 0}),
        "decode": LocalStageActor(lambda i: {"out": 0}),
    }
    o = StreamingPipelineOrchestrator(chain(), actors)
    o.create_session("s")
    o.push_input("s", 0, "x", 0)
    assert begun.wait(5)
    with pytest.raises(TimeoutError, match="sessions 's'; stages encode"):
        o.close(timeout=0.1)
    assert o.status("s") is StreamingSessionStatus.CLOSED
    with pytest.raises(StreamingSessionError, match="closed"):
        o.create_session("t")
    gate.set()
    o.close(timeout=5.0)


def test_a_close_gives_shutdown_as_the_reason() -> None:
    p = Pipeline(chain())
    p.orchestrator.create_session("s")
    p.orchestrator.close()
    assert [reason for _, reason in p.actors["encode"].closings] == [StreamingSessionCloseReason.SHUTDOWN]
    assert p.orchestrator.health().closed and not p.orchestrator.health().ok


def test_a_barrier_waits_for_every_actor() -> None:
    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")
        o.barrier()
        o.push_input("s", 0, "x", 0)
        with pytest.raises(TimeoutError):
            o.barrier(timeout=0.0)


def test_a_session_is_idle_when_it_waits_for_its_caller() -> None:
    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")
        assert o.wait_until_idle("s", timeout=0.0)
        o.push_input("s", 0, "x", 0)
        assert not o.wait_until_idle("s", timeout=0.0)
        answering = threading.Thread(target=p.run)
        answering.start()
        assert o.wait_until_idle("s")
        answering.join()


# -- tasks


async def test_a_pushing_task_waits_for_room() -> None:
    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")

        async def produce() -> None:
            for sequence_id in range(12):
                await o.push_inputs("s", sequence_id, {"x": sequence_id})

        producer = asyncio.create_task(produce())
        got: list[int] = []
        while len(got) < 12:
            p.run()
            got += sequences(o.poll_outputs("s"))
            await asyncio.sleep(0)
        await producer
        assert got == list(range(12)) and not o._sessions.get("s").push_line


async def test_a_waiting_push_hears_of_the_end_and_of_its_own() -> None:
    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")
        for sequence_id in range(2):
            await o.push_inputs("s", sequence_id, {"x": 0})
        waiting = asyncio.create_task(o.push_inputs("s", 2, {"x": 0}))
        given_up = asyncio.create_task(o.push_inputs("s", 2, {"x": 0}))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([given_up])
        assert len(o._sessions.get("s").push_line) == 1
        await asyncio.to_thread(o.cancel_session, "s")
        with pytest.raises(SessionEndedError):
            await waiting


async def test_outputs_come_to_an_iterator_without_polling() -> None:
    actors = {s: LocalStageActor(lambda i, s=s: {PRODUCES[s]: i.key.sequence_id}) for s in STAGES}
    with StreamingPipelineOrchestrator(chain(), actors) as o:
        o.create_session("s", final_sequence_id=19)

        async def produce() -> None:
            for sequence_id in range(20):
                await o.push_inputs("s", sequence_id, {"x": sequence_id})

        producer = asyncio.create_task(produce())
        assert [output.value async for output in o.outputs("s")] == list(range(20))
        await producer
        assert not o._sessions.get("s").output_line


async def test_an_iterator_raises_why_its_session_failed_after_the_last_output() -> None:
    with pipeline(chain(2)) as p:
        o = p.orchestrator
        o.create_session("s")
        o.push_input("s", 0, "x", 0)
        p.run()
        outputs = o.outputs("s")
        assert (await anext(outputs)).sequence_id == 0
        o.push_input("s", 1, "x", 0)
        p.actors["encode"].answer(error=ValueError("broken"))
        with pytest.raises(ValueError, match="broken"):
            await anext(outputs)
        with pytest.raises(UnknownSessionError):
            o.outputs("nobody")


async def test_iterators_of_cancelled_sessions_end() -> None:
    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")
        reading = asyncio.create_task(anext(o.outputs("s"), None))
        await asyncio.sleep(0)
        await asyncio.to_thread(o.cancel_session, "s")
        assert await reading is None


# -- memory


class Value:
    """Something whose life can be watched."""


def local(spec: StreamingPipelineSpec) -> StreamingPipelineOrchestrator:
    return StreamingPipelineOrchestrator(
        spec, {s: LocalStageActor(lambda i, s=s: {PRODUCES[s]: i.inputs[next(iter(i.inputs))]}) for s in STAGES}
    )


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("make", [inline, local])
def test_nothing_keeps_a_value_that_was_read(make: Callable[[StreamingPipelineSpec], Any]) -> None:
    o = make(chain(control=True))
    o.create_session("s")
    alive: weakref.WeakSet[Value] = weakref.WeakSet()
    for sequence_id in range(300):
        value = Value()
        alive.add(value)
        o.set_control("s", "steer", value)
        o.push_input("s", sequence_id, "x", value)
        assert o.wait_until_idle("s")
        assert len(o.poll_outputs("s")) == 1
    del value
    o.barrier()
    assert len(alive) == 1  # the newest control
    session = o._sessions.get("s")
    assert all(len(progress.arrived) == 0 for progress in session.stages) and not session.slots
    assert len(o.stage_timings("s", "decode")) == 128
    o.close()
    assert len(o.session_metrics("s").output_emitted_at) == 128


class Caller:
    """A value whose end asks the orchestrator for something."""

    def __init__(self, orchestrator: StreamingPipelineOrchestrator, asked: list[bool]) -> None:
        self._orchestrator = orchestrator
        self._asked = asked

    def __del__(self) -> None:
        self._asked.append(self._orchestrator.can_push_input("s", "x"))


def test_values_are_freed_outside_the_lock() -> None:
    asked: list[bool] = []
    with pipeline(chain(2)) as p:
        o = p.orchestrator
        p.actors["encode"].outputs = {"y": 0}
        o.create_session("s")
        for sequence_id in range(3):
            o.push_input("s", sequence_id, "x", Caller(o, asked))
        p.actors["encode"].answer()  # its input is over
        assert len(asked) == 1
        o.cancel_session("s", timeout=5.0)
        p.actors["encode"].taken.clear()
        gc.collect()
    assert len(asked) == 3


def test_a_task_of_a_closed_loop_blocks_no_other() -> None:
    """The collector throws it away, at the worst moment: while the scheduling lock is held."""
    collect = False

    class CollectingClock(ManualClock):
        def now_ns(self) -> int:
            if collect:
                gc.collect()
            return 0

    actors = {name: ManualActor({PRODUCES[name]: 0}) for name in STAGES}
    o = StreamingPipelineOrchestrator(chain(), actors, clock=CollectingClock())
    o.create_session("s")

    async def push() -> None:
        for sequence_id in itertools.count():
            await o.push_inputs("s", sequence_id, {"x": 0})

    def abandon() -> None:
        loop = asyncio.new_event_loop()
        task = loop.create_task(push())
        task._log_destroy_pending = False  # it is meant
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

    abandon()
    done = threading.Event()

    def use() -> None:
        nonlocal collect
        with contextlib.suppress(TimeoutError):
            o.cancel_session("s", timeout=0.0)  # wakes the task: nothing else knows it from here on
        collect = True
        o.create_session("t")
        o.push_input("t", 0, "x", 0)
        done.set()

    threading.Thread(target=use, daemon=True).start()
    assert done.wait(TIMEOUT_S)


def test_an_error_that_is_raised_often_does_not_grow() -> None:
    def depth(error: BaseException) -> int:
        return len(traceback.extract_tb(error.__traceback__))

    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")
        o.push_input("s", 0, "x", 0)
        p.actors["encode"].answer(error=ValueError("broken"))
        depths = []
        for _ in range(3):
            with pytest.raises(ValueError, match="broken") as raised:
                o.drain_session("s")
            depths.append(depth(raised.value))
        assert depths[0] == depths[2]


def test_the_callers_mapping_is_not_asked_under_the_lock() -> None:
    class Curious(dict[str, object]):
        def keys(self) -> Any:
            o.status("s")
            o.poll_outputs("s")
            return super().keys()

        def items(self) -> Any:
            o.poll_outputs("s")
            return super().items()

    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")
        done = threading.Event()

        def push() -> None:
            assert o.try_push_inputs("s", 0, Curious(x=0))
            done.set()

        threading.Thread(target=push, daemon=True).start()
        assert done.wait(TIMEOUT_S)


@pytest.mark.parametrize("inputs", [None, ["x"], {"x"}, "x", 3, {}, {"nobody": 0}, {None: 0}])
def test_inputs_are_a_mapping(inputs: Any) -> None:
    with pipeline() as p:
        p.orchestrator.create_session("s")
        with pytest.raises(ValueError, match="inputs|input of"):
            p.orchestrator.try_push_inputs("s", 0, inputs)


def test_an_edge_as_wide_as_can_be_costs_only_what_waits_there() -> None:
    o = inline(chain(sys.maxsize))
    o.create_session("s")
    for sequence_id in range(300):
        o.push_input("s", sequence_id, "x", sequence_id)
    assert sequences(o.poll_outputs("s")) == list(range(300))
    assert [timing.sequence_id for timing in o.stage_timings("s", "decode")] == list(range(172, 300))


@pytest.mark.parametrize(
    "options", [{"cleanup_timeout": None}, {"cleanup_timeout": -1}, {"metrics_window": 0}, {"spec": 3}]
)
def test_arguments_are_checked(options: dict[str, Any]) -> None:
    actors = {name: ManualActor({}) for name in STAGES}
    with pytest.raises(ValueError, match=next(iter(options))):
        StreamingPipelineOrchestrator(**{"spec": chain(), "actors": actors, **options})


def test_a_finalizer_during_scheduling_gets_an_error() -> None:
    told: list[str] = []
    meddle = False

    class MeddlingClock(ManualClock):
        def now_ns(self) -> int:
            if meddle:
                with pytest.raises(RuntimeError) as raised:
                    o.cancel_session("s")
                told.append(str(raised.value))
            return 0

    actors = {name: ManualActor({}) for name in STAGES}
    o = StreamingPipelineOrchestrator(chain(), actors, clock=MeddlingClock())
    o.create_session("s")
    done = threading.Event()

    def push() -> None:
        o.push_input("s", 0, "x", 0)
        done.set()

    meddle = True
    threading.Thread(target=push, daemon=True).start()
    assert done.wait(TIMEOUT_S)
    meddle = False
    assert told and all("called during scheduling" in text for text in told)
    assert o.status("s") is StreamingSessionStatus.RUNNING


def test_looking_takes_no_scheduling_lock() -> None:
    with pipeline() as p:
        o = p.orchestrator
        o.create_session("s")
        o.push_input("s", 0, "x", 0)
        p.run()
        seen: list[object] = []

        def look() -> None:
            seen.append(o.session_metrics("s"))
            seen.append(o.stage_timings("s", "encode"))
            seen.append(o.stage_idle_intervals("s", "encode"))
            seen.append((o.status("s"), o.error("s"), o.diagnostics(), o.health(), o.actor_health("encode")))

        looking = threading.Thread(target=look, daemon=True)
        with o._dispatcher:
            looking.start()
            looking.join(TIMEOUT_S)
        assert len(seen) == 4
