"""A conformance suite for engines: checks the promises of the contract on an engine of your own.

One call, in a script or in a test::

    from realtime_engine.testing import EngineCase, check_engine

    def test_my_engine():
        check_engine(EngineCase(make_engine=lambda max_sessions: ComposedEngine(MyModel(max_sessions))))

Each check builds its own engines with ``make_engine`` and raises :class:`AssertionError`, which names the broken
promise and how it was noticed. :func:`check_engine` runs all of them, writes one line per check to stderr, and reports
the failures together.
"""

from __future__ import annotations

import copy
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..core.composed import ComposedEngine
from ..core.contract import AdmissionError, RealtimeInterface, SessionInit, StepResult
from ..core.errors import StepFailure, describe
from ..core.replica import ReplicaEngine
from .engine_case import Drive, EngineCase, assert_same, name_of, run
from .faults import FaultPlan

_ENCODE_DEADLINE_S = 5.0

__all__ = ["CHECKS", "ConformanceError", "check_engine"]


class ConformanceError(AssertionError):
    """An engine does not pass all checks; the text lists each failed check with its reason.

    Attributes:
        failures: what each failed check raised, by its name.
    """

    def __init__(self, failures: Mapping[str, Exception], checks: int) -> None:
        self.failures = dict(failures)
        reasons = "".join(f"\n\n{name}: {_reason(error)}" for name, error in self.failures.items())
        super().__init__(f"{len(self.failures)} of {checks} checks failed:{reasons}")


def _reason(error: Exception) -> str:
    """The broken promise, or what an engine raised instead, and where."""
    if isinstance(error, AssertionError):
        return str(error)
    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    frames = traceback.extract_tb(root.__traceback__) or traceback.extract_tb(error.__traceback__)
    return f"raised {describe(error)} ({frames[-1].filename}:{frames[-1].lineno})"


def check_engine(case: EngineCase) -> list[str]:
    """Run every check and return their names. Each check writes a line to stderr.

    Raises:
        ConformanceError: one or more checks failed; an :class:`AssertionError` that lists them all.
        ValueError: ``case.skip`` names an unknown check.
    """
    unknown = case.skip - CHECKS.keys()
    if unknown:
        raise ValueError(f"EngineCase.skip names no check: {sorted(unknown)}; there are {sorted(CHECKS)}")
    ran = [name for name in CHECKS if name not in case.skip]
    failures: dict[str, Exception] = {}
    for number, name in enumerate(ran, 1):
        _progress(f"check_engine {number}/{len(ran)} {name} ... ")
        began = time.monotonic()
        try:
            CHECKS[name](case)
        except Exception as error:  # a check may fail by whatever the engine raises; the others run all the same
            failures[name] = error
        _progress(f"{'FAILED' if name in failures else 'ok'} ({time.monotonic() - began:.1f} s)\n")
    if failures:
        raise ConformanceError(failures, len(ran)) from next(iter(failures.values()))
    return ran


def _progress(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def check_manifest(case: EngineCase) -> None:
    """``manifest()`` is stable and declares the requested capacity and the shape of the chunks."""
    engine = case.make_engine(2)
    before = engine.manifest()
    outputs = run(case, engine, (0,), steps=2)[0]
    assert outputs, "no chunk came out of two steps: does the last stage fill batch.outputs[session_id]?"
    for output in outputs:
        shape = getattr(output, "shape", None)
        if before.chunk_shape and shape is not None:
            announced = f"manifest().chunk_shape is {before.chunk_shape}"
            assert tuple(shape) == before.chunk_shape, f"{announced}, a chunk has the shape {tuple(shape)}"
    assert engine.manifest() == before, f"manifest() changed from {before} to {engine.manifest()} while stepping"
    assert before.max_sessions == 2, f"manifest().max_sessions is {before.max_sessions}, make_engine was asked for 2"


def check_distinct(case: EngineCase) -> None:
    """Different sessions get different output: nothing is broadcast over the batch."""
    outputs = run(case, case.make_engine(2), (0, 1), steps=3)
    for step, (left, right) in enumerate(zip(outputs[0], outputs[1], strict=True)):
        assert not case.same(left, right), f"two sessions with different contexts got the same chunk {step}"


def check_solo_equals_batched(case: EngineCase) -> None:
    """A session's chunks do not depend on the rest of the batch: no state leaks between rows."""
    together = run(case, case.make_engine(3), (0, 1, 2), case.steps)
    for index in (0, 1, 2):
        alone = run(case, case.make_engine(3), (index,), case.steps)
        assert_same(case, together[index], alone[index], f"session {index} in a batch of three against alone")


def check_outputs_not_aliased(case: EngineCase) -> None:
    """A returned chunk is not overwritten by later steps."""
    drive = Drive(case, case.make_engine(2))
    drive.attach(0, 1)
    for _ in range(drive.engine.manifest().pipeline_depth_chunks):
        drive.step(0, 1)
    assert drive.outputs[0], "no chunk came out: does the last stage fill batch.outputs[session_id]?"
    given = drive.outputs[0][0]
    kept = copy.deepcopy(given)
    for _ in range(3):
        drive.step(0, 1)
    assert case.same(given, kept), "a chunk changed after it was returned: copy outputs, do not reuse them"


@contextmanager
def _promised(promise: str) -> Iterator[None]:
    """Turn an exception into the failure of a promise."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{promise}, but it raised {describe(error)}") from error


def check_admission(case: EngineCase) -> None:
    """``attach`` is idempotent and refuses sessions beyond the capacity; ``detach`` frees a row."""
    drive = Drive(case, case.make_engine(2))
    drive.attach(0, 1)
    for _ in range(2):
        drive.step(0, 1)
    with _promised("attach of an attached id must change nothing, also in a full engine"):
        drive.engine.attach(SessionInit(name_of(0), case.context(0)))
    for _ in range(2):
        drive.step(0, 1)
    drive.flush()
    alone = run(case, case.make_engine(2), (0,), steps=4)
    assert_same(case, drive.outputs[0], alone[0], "a session that was attached twice")
    try:
        drive.engine.attach(SessionInit(name_of(2), case.context(2)))
    except AdmissionError:
        pass
    else:
        raise AssertionError("attach beyond max_sessions must raise AdmissionError")
    with _promised("detach must be idempotent"):
        drive.detach(0, 1, 0, 1)
        drive.engine.detach("unknown")
    with _promised("detach must make room for the next attach"):
        drive.attach(2)


def check_unknown_and_absent(case: EngineCase) -> None:
    """``step`` ignores unknown ids and does not advance sessions that are not due."""
    drive = Drive(case, case.make_engine(2))
    drive.attach(0, 1)
    results = drive.engine.step({"unknown": {}})
    assert not results, f"step() for an unknown id returned {len(results)} chunks"
    for _ in range(3):
        drive.step(0)
    for _ in range(3):
        drive.step(1)
    drive.flush()
    for index in (0, 1):
        alone = run(case, case.make_engine(2), (index,), steps=3)
        assert_same(case, drive.outputs[index], alone[index], f"session {index}, stepped while the other rested")


def check_row_reuse(case: EngineCase) -> None:
    """A reused row starts from a fresh state."""
    drive = Drive(case, case.make_engine(1))
    drive.attach(0)
    for _ in range(case.steps):
        drive.step(0)
    drive.detach(0)
    drive.attach(1)
    for _ in range(case.steps):
        drive.step(1)
    drive.flush()
    fresh = run(case, case.make_engine(1), (1,), case.steps)
    assert_same(case, drive.outputs[1], fresh[1], "a session in a used row against a fresh engine")


def check_warm_up(case: EngineCase) -> None:
    """A pipeline of depth d returns nothing for d - 1 steps, then a chunk per step, and ``step({})`` flushes it."""
    engine = case.make_engine(1)
    depth = engine.manifest().pipeline_depth_chunks
    drive = Drive(case, engine)
    drive.attach(0)
    for step in range(depth + 3):
        came = drive.step(0)
        wanted = [0] if step >= depth - 1 else []
        assert came == wanted, f"step {step} of a pipeline of depth {depth} gave {came}, not {wanted}"
    for _ in range(depth - 1):
        assert drive.flush() == [0], "step({}) must return what the pipeline still holds"
    assert drive.flush() == [], "step({}) returned a chunk of no step"


def check_lossless_join(case: EngineCase) -> None:
    """A session that joins neither costs the others a chunk nor changes one."""
    drive = Drive(case, case.make_engine(2))
    half = case.steps // 2
    drive.attach(0)
    for _ in range(half):
        drive.step(0)
    drive.attach(1)
    for _ in range(half):
        drive.step(0, 1)
    drive.flush()
    for index, steps in ((0, 2 * half), (1, half)):
        alone = run(case, case.make_engine(2), (index,), steps)
        assert_same(case, drive.outputs[index], alone[index], f"session {index} around a join")


def check_lossless_detach(case: EngineCase) -> None:
    """A session that is detached neither costs the others a chunk nor changes one."""
    drive = Drive(case, case.make_engine(3))
    half = case.steps // 2
    drive.attach(0, 1, 2)
    for _ in range(half):
        drive.step(0, 1, 2)
    drive.detach(1)
    for _ in range(half):
        drive.step(0, 2)
    drive.flush()
    for index in (0, 2):
        alone = run(case, case.make_engine(3), (index,), 2 * half)
        assert_same(case, drive.outputs[index], alone[index], f"session {index} around another's detach")


def check_heavy_change(case: EngineCase) -> None:
    """A heavy change shows in the session's own chunks, and neither costs another session a chunk nor changes one."""
    if case.heavy is None:
        return
    key, first, second = case.heavy
    changed, steady = (Drive(case, case.make_engine(2)) for _ in range(2))
    for drive in (changed, steady):
        drive.attach(0, 1, **{key: first})
        for _ in range(2):
            drive.hold(0, 1, **{key: first})
    deadline = time.monotonic() + _ENCODE_DEADLINE_S
    steps, shown = 0, False
    while steps < 50 or not shown:
        assert shown or time.monotonic() < deadline, f"a change of {key!r} from {first!r} to {second!r} never showed"
        came = changed.hold_each({0: {key: second}, 1: {key: first}})
        assert 1 in came, "a heavy change of one session silenced another"
        steady.hold(0, 1, **{key: first})
        steps += 1
        shown = shown or _differ(case, changed.outputs[0], steady.outputs[0])
        if steps > 50:
            time.sleep(0.001)  # an encode on a thread of the engine's own needs its time
    changed.flush()
    steady.flush()
    assert_same(case, changed.outputs[1], steady.outputs[1], "a bystander of a heavy change")


def _differ(case: EngineCase, left: list[Any], right: list[Any]) -> bool:
    """Whether the newest chunk of both differs."""
    newest = min(len(left), len(right)) - 1
    return newest >= 0 and not case.same(left[newest], right[newest])


def check_late_decode(case: EngineCase) -> None:
    """In a pipeline, DEFERRED of a chunk may run after HOT of the next and after a detach, which must not affect it.

    For a :class:`ComposedEngine` without ``pipeline=False``, even where it is not pipelined by default.
    """
    engine = case.make_engine(3)
    late = engine.late_twin() if isinstance(engine, ComposedEngine) else None
    if late is None:
        return
    drive = Drive(case, late)
    drive.attach(0, 1, 2)
    for _ in range(3):
        drive.step(0, 1, 2)
    drive.detach(1)
    for _ in range(2):
        drive.step(0, 2)
    drive.flush()
    for index in (0, 2):
        alone = run(case, case.make_engine(3), (index,), steps=5)
        promise = f"session {index} when a chunk's DEFERRED comes after the next chunk's HOT"
        assert_same(case, drive.outputs[index], alone[index], promise)


def check_failure_boundary(case: EngineCase) -> None:
    """After a step that failed for one session, all sessions continue as if it had not been called.

    The step fails before its first and before its second HOT stage, and where a stage first reads the conditioning of a
    session: by then, other rows may have been changed.
    """
    if case.make_faulty is None:
        return
    error = RuntimeError("injected")
    for skip, event in enumerate(("a failed step", "a step that failed before its second HOT stage")):
        plan = _check_failure(case, event, partial(FaultPlan.fail, hook="hot", error=error, skip=skip))
        assert plan.raised, "make_faulty never asked the plan: put a FaultyModel around the model"
    for culprit in map(name_of, (0, 1)):
        event = f"a step that failed when it read the conditioning of {culprit}"
        _check_failure(case, event, partial(FaultPlan.poison, hook="hot", error=error, session_id=culprit))


def _check_failure(case: EngineCase, event: str, order: Callable[[FaultPlan], None]) -> FaultPlan:
    """Two sessions' third or fourth step fails as planned and is repeated; returns the plan."""
    assert case.make_faulty is not None
    plan = FaultPlan()
    drive = Drive(case, case.make_faulty(2, plan))
    drive.attach(0, 1)
    for _ in range(2):
        drive.hold(0, 1)
    order(plan)
    for _ in range(3):
        try:
            drive.hold(0, 1)
        except StepFailure as failure:
            drive.keep(failure.results)
        except Exception as raised:
            what = describe(raised)
            assert "injected" in str(raised), f"a stage raised RuntimeError('injected'), step() raised {what}"
    drive.flush()
    clean = Drive(case, case.make_engine(2))
    clean.attach(0, 1)
    for _ in range(6):
        clean.hold(0, 1)
    clean.flush()
    for index in (0, 1):
        got = drive.outputs[index]
        assert_same(case, got, clean.outputs[index][: len(got)], f"session {index} around {event}")
        assert len(got) >= 4, f"session {index} lost {4 - len(got)} of 4 chunks to {event}"
    return plan


def check_rollout_end(case: EngineCase) -> None:
    """The last chunk of a rollout has ``last=True``, and a session that attaches again starts a new rollout."""
    if case.rollout_chunks is None:
        return
    engine = case.make_engine(2)
    first = _run_to_end(case, engine)
    engine.detach(name_of(0))
    again = _run_to_end(case, engine)
    assert_same(case, again, first, "the rollout of a session that attached again after its end")


def _run_to_end(case: EngineCase, engine: RealtimeInterface) -> list[Any]:
    """Session 0's rollout, stepped until its last chunk is out."""
    assert case.rollout_chunks is not None
    engine.attach(SessionInit(name_of(0), case.context(0)))
    results: list[StepResult] = []
    for step in range(case.rollout_chunks + engine.manifest().pipeline_depth_chunks - 1):
        made = engine.step({name_of(0): case.conditioning(0, step)})
        engine.finalize([result.session_id for result in made])
        results += made
        if any(result.last for result in made):
            break
    ends = [number for number, result in enumerate(results, 1) if result.last]
    assert ends, f"no chunk of {len(results)} has last=True, EngineCase.rollout_chunks is {case.rollout_chunks}"
    assert ends == [case.rollout_chunks], f"chunk {ends[0]} has last=True, not chunk {case.rollout_chunks}"
    engine.step({})  # what a pipeline had begun beyond the end is not shown
    return [result.output for result in results]


def check_replica_parity(case: EngineCase) -> None:
    """The batched engine gives the same output as one engine per session."""
    batched = run(case, case.make_engine(3), (0, 1, 2), case.steps)
    replicas = run(case, ReplicaEngine(lambda: case.make_engine(1), max_sessions=3), (0, 1, 2), case.steps)
    for index in (0, 1, 2):
        assert_same(case, batched[index], replicas[index], f"session {index} batched against a replica of its own")


CHECKS: dict[str, Callable[[EngineCase], None]] = {
    check.__name__.removeprefix("check_"): check
    for check in (
        check_manifest,
        check_distinct,
        check_solo_equals_batched,
        check_outputs_not_aliased,
        check_admission,
        check_unknown_and_absent,
        check_row_reuse,
        check_warm_up,
        check_lossless_join,
        check_lossless_detach,
        check_late_decode,
        check_heavy_change,
        check_failure_boundary,
        check_rollout_end,
        check_replica_parity,
    )
}
