"""The plan alone: no stall in any interleaving of small graphs, order, groups, holds."""

from __future__ import annotations

import random
from collections import deque

import pytest

from realtime_engine.core.streaming.metrics import WaitReason
from realtime_engine.core.streaming.session import StreamingSession, has_room
from realtime_engine.core.streaming.specs import StreamingEdgeSpec, StreamingPipelineSpec
from realtime_engine.core.streaming.types import (
    StreamingLastOutput,
    StreamingSessionCloseReason,
    StreamingSessionStatus,
)

from .pipelines import Bench, chain, diamond, stage, unordered

CHUNKS = 3


def scrambled(capacity: int) -> StreamingPipelineSpec:
    """Two stages that may overtake, before one that may not."""
    return StreamingPipelineSpec(
        stages=(unordered("a", "x", "y", 2), unordered("b", "y", "z", 2), stage("c", "z", "out")),
        edges=(
            StreamingEdgeSpec("x", "a", None, 2),
            StreamingEdgeSpec("y", "b", "a", 2),
            StreamingEdgeSpec("z", "c", "b", capacity),
        ),
        output_artifacts=frozenset({"out"}),
        output_capacity_per_session=capacity,
    )


def skip(capacity: int) -> StreamingPipelineSpec:
    """Two inputs; one of them, and the first stage's output, jump over a stage."""
    return StreamingPipelineSpec(
        stages=(stage("a", "x", "y"), stage("b", "y", "z"), unordered("c", "w y z", "out", 2)),
        edges=(
            StreamingEdgeSpec("x", "a"),
            StreamingEdgeSpec("w", "c"),
            StreamingEdgeSpec("y", "b", "a", capacity),
            StreamingEdgeSpec("y", "c", "a", capacity),
            StreamingEdgeSpec("z", "c", "b", capacity),
        ),
        output_artifacts=frozenset({"out"}),
    )


GRAPHS = {
    "chain": chain(1),
    "chain of 2": chain(2),
    "chain in one group": chain(2, group=1),
    "diamond": diamond(1),
    "diamond that overtakes": diamond(2, in_flight=2),
    "scrambled": scrambled(1),
    "scrambled of 2": scrambled(2),
    "skip": skip(1),
    "skip of 2": skip(2),
}


class Explorer:
    """One session that makes ``CHUNKS`` chunks, step by step. A step is a name; equal steps lead to equal states."""

    def __init__(self, spec: StreamingPipelineSpec, path: tuple[str, ...] = ()) -> None:
        self.bench = Bench(spec)
        self.session = self.bench.session(final=CHUNKS - 1)
        self.read: list[tuple[int, str]] = []
        for step in path:
            self.take(step)

    def steps(self) -> list[str]:
        session, graph = self.session, self.bench.graph
        pushes = [
            f"push {artifact} {sequence_id}"
            for artifact, accepted in session.inputs.items()
            for sequence_id in range(CHUNKS)
            if sequence_id not in accepted and has_room(session, graph, sequence_id, (artifact,))
        ]
        answers = [f"answer {w.progress.table.spec.stage_id} {w.sequence_id}" for w in self.bench.works]
        return pushes + answers + (["read"] if session.outputs else [])

    def take(self, step: str) -> None:
        kind, *rest = step.split()
        if kind == "push":
            self.bench.push(self.session, int(rest[1]), rest[:1])
        elif kind == "answer":
            work = next(w for w in self.bench.at(rest[0]) if w.sequence_id == int(rest[1]))
            self.bench.answer(work)
        else:
            self.read += [(seq, artifact) for seq, artifact, _ in self.bench.read(self.session)]

    def state(self) -> object:
        session = self.session
        return (
            tuple(seq in accepted for accepted in session.inputs.values() for seq in range(CHUNKS)),
            tuple((p.base, tuple(sorted(p.ahead)), tuple(sorted(p.arrived.items()))) for p in session.stages),
            tuple(sorted((w.progress.table.index, w.sequence_id) for w in self.bench.works)),
            tuple((o.sequence_id, o.artifact) for o in session.outputs),
            tuple(sorted(session.held)),
            tuple(session.polled),
        )

    def check(self) -> None:
        """What holds in every state."""
        session, spec = self.session, self.bench.graph.spec
        for output, artifact in enumerate(self.bench.graph.outputs):
            mine = [seq for seq, name in self.read if name == artifact]
            assert mine == list(range(len(mine)))
            ready = [o for o in session.outputs if o.artifact == artifact]
            kept = [key for key in session.held if key[0] == output]
            assert len(ready) + len(kept) <= spec.output_capacity_per_session
        for progress in session.stages:
            assert len(progress.arrived) <= max(progress.table.capacities.values())
            assert progress.in_flight <= progress.table.spec.max_in_flight_per_session
            assert progress.in_flight == len(self.bench.at(progress.table.spec.stage_id))
        for group in self.bench.scheduler.groups.values():
            assert group.in_use <= group.capacity


@pytest.mark.parametrize("name", GRAPHS)
def test_no_interleaving_stalls(name: str) -> None:
    """Breadth first through all states that pushes, answers and reads can lead to, in any order."""
    spec = GRAPHS[name]
    seen: set[object] = set()
    paths: deque[tuple[str, ...]] = deque([()])
    finished = 0
    while paths:
        path = paths.popleft()
        explorer = Explorer(spec, path)
        state = explorer.state()
        if state in seen:
            continue
        seen.add(state)
        explorer.check()
        steps = explorer.steps()
        if not steps:
            session = explorer.session
            assert session.finished, f"stalled after {path}"
            assert session.artifact_stats().slot_count == 0
            finished += 1
        paths.extend((*path, step) for step in steps)
    assert finished == 1 and len(seen) > 20


@pytest.mark.parametrize("name", GRAPHS)
def test_a_session_may_end_at_any_moment(name: str) -> None:
    """Ended in every state on one way through the graph: nothing is left when its work has been answered."""
    path: list[str] = []
    while steps := Explorer(GRAPHS[name], tuple(path)).steps():
        explorer = Explorer(GRAPHS[name], tuple(path))
        session, bench = explorer.session, explorer.bench
        bench.scheduler.end_session(session, StreamingSessionStatus.CANCELLED, StreamingSessionCloseReason.CANCELLED)
        bench.collect()
        for work in list(bench.works):
            bench.answer(work)
        assert bench.ended == [session] and not bench.works
        bench.scheduler.on_released(session, None)
        assert bench.scheduler.counts.slot_leaks == 0
        assert len(session.slots) == len(session.outputs)
        assert not any(len(queue.waiting) for queue in bench.scheduler.queues)
        path.append(steps[-1])


@pytest.mark.parametrize("name", GRAPHS)
def test_concurrent_sessions_all_finish(name: str) -> None:
    """Random walks: what holds for one session holds for several that share stages and groups."""
    for seed in range(10):
        rng, bench = random.Random(seed), Bench(GRAPHS[name])
        sessions = [bench.session(str(n), final=CHUNKS - 1) for n in range(3)]
        read: dict[str, list[tuple[int, str]]] = {session.session_id: [] for session in sessions}
        while not all(session.finished and not session.outputs for session in sessions):
            pushes = [
                (session, artifact, sequence_id)
                for session in sessions
                for artifact, accepted in session.inputs.items()
                for sequence_id in range(CHUNKS)
                if sequence_id not in accepted and has_room(session, bench.graph, sequence_id, (artifact,))
            ]
            reads = [session for session in sessions if session.outputs]
            step = rng.choice([*pushes, *bench.works, *reads])  # IndexError: a stall
            if isinstance(step, tuple):
                session, artifact, sequence_id = step
                bench.push(session, sequence_id, [artifact])
            elif isinstance(step, StreamingSession):
                read[step.session_id] += [(seq, artifact) for seq, artifact, _ in bench.read(step)]
            else:
                bench.answer(step)
        expected = {(seq, artifact) for seq in range(CHUNKS) for artifact in bench.graph.outputs}
        assert all(len(found) == len(expected) and set(found) == expected for found in read.values())


@pytest.mark.parametrize("name", GRAPHS)
def test_a_last_output_ends_the_session_in_any_state(name: str) -> None:
    """Random walks of a session whose sequence 2 turns out to be the last when stages have begun later ones."""
    for seed in range(30):
        rng, bench = random.Random(seed), Bench(GRAPHS[name])
        session, read, ended = bench.session(), [], False
        while bench.works or session.outputs or not session.finished:
            pushes = [
                (artifact, sequence_id)
                for artifact, accepted in session.inputs.items()
                for sequence_id in range(accepted.newest + 2)
                if not session.draining
                and not session.is_past_end(sequence_id)
                and sequence_id not in accepted
                and has_room(session, bench.graph, sequence_id, (artifact,))
            ]
            step = rng.choice([*pushes, *bench.works, *([session] if session.outputs else [])])
            if isinstance(step, tuple):
                bench.push(session, step[1], [step[0]])
            elif isinstance(step, StreamingSession):
                read += [(seq, artifact) for seq, artifact, _ in bench.read(session)]
            else:
                table = step.progress.table
                last = step.sequence_id == 2 and bool(table.outputs)
                ended = ended or last
                bench.answer(step, wrap=StreamingLastOutput if last else None)
        assert ended and session.status is StreamingSessionStatus.RUNNING
        for artifact in bench.graph.outputs:
            assert [seq for seq, name in read if name == artifact][:3] == [0, 1, 2]
        assert [seq for seq, _ in read].count(2) == len(bench.graph.outputs)
        assert session.artifact_stats().slot_count == 0 and session.idle
        assert not any(len(queue.waiting) for queue in bench.scheduler.queues)


LATE_INPUT = StreamingPipelineSpec(
    stages=(stage("early", "i", "m"), stage("late", "m j", "y")),
    edges=(
        StreamingEdgeSpec("i", "early", None, 8),
        StreamingEdgeSpec("j", "late", None, 8),
        StreamingEdgeSpec("m", "late", "early", 8),
    ),
    output_artifacts=frozenset({"m", "y"}),
    output_capacity_per_session=8,
)


def test_inputs_before_a_last_output_are_still_accepted() -> None:
    bench = Bench(LATE_INPUT)
    session = bench.session()
    for sequence_id in range(4):
        bench.push(session, sequence_id, ["i"])
    for sequence_id in range(3):
        bench.answer(bench.at("early")[0], wrap=StreamingLastOutput if sequence_id == 2 else None)
    assert (session.final, session.draining, session.finished) == (2, False, False)
    for sequence_id in range(3):
        bench.push(session, sequence_id, ["j"])
        bench.answer(bench.at("late")[0])
    while bench.works:
        bench.answer(bench.works[0])
    assert session.finished
    read = bench.read(session, 99)
    assert sorted(read)[-1][:2] == (2, "y") and len(read) == 6


def test_unread_outputs_after_the_last_one_are_dropped() -> None:
    bench = Bench(LATE_INPUT)
    session = bench.session()
    for sequence_id in range(5):
        bench.push(session, sequence_id, ["i", "j"])
        bench.answer(bench.at("early")[0])
    bench.answer(bench.at("late")[0])
    bench.answer(bench.at("late")[0], wrap=StreamingLastOutput)
    assert [(seq, artifact) for seq, artifact, _ in bench.read(session, 99)] == [(0, "m"), (1, "m"), (0, "y"), (1, "y")]
    while bench.works:
        bench.answer(bench.works[0])
    assert session.finished and session.artifact_stats().slot_count == 0


def run_one(bench: Bench, stage_id: str, seconds: float) -> None:
    bench.clock.advance(seconds)
    bench.answer(bench.at(stage_id)[0])


def test_wait_reasons_say_what_kept_a_chunk() -> None:
    bench = Bench(chain(2, output_capacity=1))
    session = bench.session()
    bench.push(session, 0)
    bench.push(session, 1)
    bench.push(session, 2)
    for stage_id in ("encode", "denoise", "decode"):
        run_one(bench, stage_id, 1.0)
    bench.clock.advance(1.0)  # encode did 1 at once when it had done 0
    bench.answer(bench.at("encode")[0])
    run_one(bench, "denoise", 1.0)
    assert bench.at("decode") == []  # its output has no place
    bench.clock.advance(5.0)
    bench.read(session)
    decode = session.stages[2].record.idle_intervals("decode", ("z",))
    assert [(i.reason, i.missing_inputs) for i in decode] == [("edge_capacity", ("z",))]
    denoise = session.stages[1].record.idle_intervals("denoise", ("y",))
    assert [(i.reason, i.idle_seconds) for i in denoise] == [("y", 2.0)]
    encode = session.stages[0].record.idle_intervals("encode", ("x",))
    assert [(i.reason, i.idle_seconds) for i in encode] == [("continuous", 0.0)] * 2


def test_a_busy_stage_and_a_busy_group_are_named() -> None:
    for group, reason in ((None, "stage_capacity"), (1, "resource_group")):
        bench = Bench(chain(1, group=group))
        one, two = bench.session("one"), bench.session("two")
        bench.push(two, 0)
        run_one(bench, "encode", 1.0)  # two has been there once
        if group:
            bench.push(two, 1)  # denoise has the place
            bench.clock.advance(1.0)
            run_one(bench, "denoise", 1.0)
        else:
            bench.push(one, 0)
            bench.push(two, 1)
            run_one(bench, "encode", 2.0)
        while not bench.at("encode"):
            bench.answer(bench.works[0])
        intervals = two.stages[0].record.idle_intervals("encode", ("x",))
        assert [i.reason for i in intervals] == [reason]


def test_a_group_is_shared_in_turn() -> None:
    bench = Bench(chain(2, group=1, output_capacity=2))
    sessions = [bench.session(str(n)) for n in range(2)]
    for session in sessions:
        for sequence_id in range(2):
            bench.push(session, sequence_id)
    served = []
    while bench.works:
        assert len(bench.works) == 1
        served.append(bench.works[0].progress.table.spec.stage_id)
        bench.answer(bench.works[0])
    assert sorted(served) == sorted(["encode", "denoise", "decode"] * 4)
    assert all(session.emitted == [2] for session in sessions)


def test_what_a_dead_actor_had_fails_with_it() -> None:
    bench = Bench(chain(1))
    one, two = bench.session("one"), bench.session("two")
    bench.push(one, 0)
    bench.push(two, 0)
    late = bench.at("encode")[0]
    error = RuntimeError("dead")
    bench.scheduler.replace_lane(0, type(late.lane)(late.lane.actor), error)
    bench.collect()
    assert one.status is StreamingSessionStatus.FAILED and one.error is error
    assert two.status is StreamingSessionStatus.RUNNING
    assert [work.session for work in bench.at("encode")[1:]] == [two]
    bench.scheduler.on_completed(late, {"y": 1}, None)
    bench.scheduler.on_released(one, None)
    bench.scheduler.on_completed(late, {"y": 1}, None)
    counts = bench.scheduler.counts.snapshot()
    assert (counts.duplicate_results, counts.stale_epoch_results, counts.orphaned_results) == (1, 1, 0)


def test_wait_reasons_are_what_the_timings_name() -> None:
    assert [reason.name.lower() for reason in WaitReason] == [
        "scheduler_admission",
        "stage_capacity",
        "resource_group",
        "edge_capacity",
    ]


def test_a_sequence_without_all_its_inputs_is_dropped_by_a_drain() -> None:
    bench = Bench(skip(1))
    session: StreamingSession = bench.session()
    bench.push(session, 0)
    bench.answer(bench.at("a")[0])
    bench.push(session, 1, ["x"])
    bench.scheduler.drain_session(session)
    bench.collect()
    while bench.works:
        bench.answer(bench.works[0])
    assert session.finished and session.final == 0
    assert [output.sequence_id for output in session.outputs] == [0]
