"""What a chunk costs, counted in calls: the same however many sessions there are."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

from realtime_engine.core.streaming.orchestrator import StreamingPipelineOrchestrator
from realtime_engine.testing import ManualClock

from .manual_actors import InlineActor
from .pipelines import Bench, chain

PRODUCES = {"encode": "y", "denoise": "z", "decode": "out"}


def calls(work: Callable[[], object]) -> int:
    """How many functions ``work`` calls, Python's and C's."""
    count = 0
    gc.collect()
    gc.disable()  # finalizers of what other tests have left would count

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def test_registered_and_finished_sessions_cost_nothing() -> None:
    def one_session_beside(others: int) -> int:
        actors = {name: InlineActor(lambda _, made=made: {made: 0}) for name, made in PRODUCES.items()}
        clock = (
            ManualClock()
        )  # on a real one, a stall of this thread is the cost of a chunk, and decides who visits whom
        orchestrator = StreamingPipelineOrchestrator(chain(), actors, clock=clock)
        for number in range(others):
            orchestrator.create_session(f"idle {number}")
            orchestrator.create_session(f"finished {number}", final_sequence_id=0)
            orchestrator.push_input(f"finished {number}", 0, "x", 0)
        orchestrator.create_session("s")

        def run() -> None:
            for sequence_id in range(20):
                clock.advance(0.001)
                orchestrator.push_input("s", sequence_id, "x", 0)
                assert len(orchestrator.poll_outputs("s")) == 1

        return calls(run)

    assert one_session_beside(200) == one_session_beside(0)


def test_a_chunk_among_many_costs_about_what_it_costs_alone() -> None:
    def per_chunk(count: int) -> float:
        bench = Bench(chain())
        sessions = [bench.session(str(number)) for number in range(count)]

        def run() -> None:
            for sequence_id in range(20):
                for session in sessions:
                    bench.push(session, sequence_id)
                while bench.works:
                    bench.clock.advance(0.001)
                    bench.answer(bench.works[0])
                for session in sessions:
                    assert len(bench.read(session)) == 1

        return calls(run) / (20 * count)

    assert per_chunk(64) <= 1.2 * per_chunk(1)
