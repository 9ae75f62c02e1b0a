"""A conformance suite for engines: checks the promises of the contract on an engine of your own.

One call, in a script or in a test::

    from realtime_engine.testing import EngineCase, check_engine

    def test_my_engine():
        check_engine(EngineCase(make_engine=lambda max_sessions: ComposedEngine(MyModel(max_sessions))))

Each check builds its own engines with ``make_engine`` and raises :class:`AssertionError`, which names the broken
promise and how it was noticed.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..core.composed import ComposedEngine
from ..core.contract import AdmissionError, RealtimeInterface, SessionInit, StepResult
from ..core.errors import StepFailure, describe
from ..core.replica import ReplicaEngine
from ..core.values import same_value
from .faults import FaultPlan

_ENCODE_DEADLINE_S = 5.0

__all__ = ["CHECKS", "EngineCase", "check_engine"]


def _default_context(index: int) -> dict[str, Any]:
    return {"seed": index + 1}


def _default_conditioning(index: int, step: int) -> dict[str, Any]:
    return {"move": (index + step) % 3 - 1}


@dataclass(frozen=True)
class EngineCase:
    """An engine for the suite.

    Attributes:
        make_engine: builds a new engine for this many sessions; called with 1, 2 and 3.
        context: index of a session -> attach context; different indices must give different output.
        conditioning: index of a session, number of the step -> conditioning.
        heavy: a heavy key and two different values for it; ``None`` skips the check of heavy changes.
        make_faulty: like ``make_engine``, with a fault plan in front of the model, for the check of failures:
            ``lambda n, plan: ComposedEngine(FaultyModel(MyModel(n), plan))``. ``None`` skips that check.
        same: whether two outputs are equal; by default bit for bit. A model whose output depends on the batch size
            within a tolerance needs a function that allows for it.
        rollout_chunks: chunks after which a rollout ends; ``None`` skips the check of ends. The other checks take up to
            60 steps: check shorter rollouts in a case of their own, ``skip=frozenset(CHECKS) - {"rollout_end"}``.
        skip: names of checks that do not apply, each the function's name without ``check_``.
    """

    make_engine: Callable[[int], RealtimeInterface]
    context: Callable[[int], Mapping[str, Any]] = _default_context
    conditioning: Callable[[int, int], Mapping[str, Any]] = _default_conditioning
    heavy: tuple[str, Any, Any] | None = None
    make_faulty: Callable[[int, FaultPlan], RealtimeInterface] | None = None
    same: Callable[[Any, Any], bool] = same_value
    rollout_chunks: int | None = None
    skip: frozenset[str] = field(default_factory=frozenset)


def check_engine(case: EngineCase) -> list[str]:
    """Run every check and return their names. Raises :class:`AssertionError` at the first broken promise."""
    unknown = case.skip - CHECKS.keys()
    if unknown:
        raise ValueError(f"EngineCase.skip names no check: {sorted(unknown)}; there are {sorted(CHECKS)}")
    ran = []
    for name, check in CHECKS.items():
        if name not in case.skip:
            check(case)
            ran.append(name)
    return ran


class Drive:
    """Steps an engine and collects the chunks of each session.

    Sessions are identified by an index; each has its own count of steps, so that a session gets the same conditioning
    alone and in a batch.
    """

    def __init__(self, case: EngineCase, engine: RealtimeInterface) -> None:
        self._case = case
        self._steps: dict[int, int] = {}
        self.engine = engine
        self.outputs: dict[int, list[Any]] = {}

    def attach(self, *indices: int, **extra: Any) -> None:
        for index in indices:
            self.engine.attach(SessionInit(name_of(index), {**self._case.context(index), **extra}))
            self._steps[index] = 0
            self.outputs[index] = []

    def step(self, *indices: int, **extra: Any) -> list[int]:
        """Advance these sessions; returns the sessions whose chunks were returned."""
        due = {name_of(i): {**self._case.conditioning(i, self._steps[i]), **extra} for i in indices}
        for index in indices:
            self._steps[index] += 1
        return self._take(due)

    def flush(self) -> list[int]:
        return self._take({})

    def detach(self, *indices: int) -> None:
        for index in indices:
            self.engine.detach(name_of(index))

    def hold(self, *indices: int, **extra: Any) -> list[int]:
        """Like :meth:`step`, with the conditioning of step 0 each time, so that a chunk depends on its age alone."""
        return self._take({name_of(i): {**self._case.conditioning(i, 0), **extra} for i in indices})

    def hold_each(self, extras: Mapping[int, Mapping[str, Any]]) -> list[int]:
        """Like :meth:`hold`, with additional conditioning for each session."""
        return self._take({name_of(i): {**self._case.conditioning(i, 0), **extra} for i, extra in extras.items()})

    def _take(self, due: Mapping[str, Mapping[str, Any]]) -> list[int]:
        return self.keep(self.engine.step(due))

    def keep(self, results: list[StepResult]) -> list[int]:
        """Collect results and finalize them; returns their sessions."""
        came = [int(result.session_id.removeprefix("session-")) for result in results]
        assert len(set(came)) == len(came), f"step() returned two chunks of one session: {came}"
        for index, result in zip(came, results, strict=True):
            self.outputs[index].append(result.output)
        self.engine.finalize([result.session_id for result in results])
        return came


def name_of(index: int) -> str:
    return f"session-{index}"


def _run(case: EngineCase, engine: RealtimeInterface, indices: tuple[int, ...], steps: int) -> dict[int, list[Any]]:
    drive = Drive(case, engine)
    drive.attach(*indices)
    for _ in range(steps):
        drive.step(*indices)
    drive.flush()
    return drive.outputs


def _assert_same(case: EngineCase, got: list[Any], wanted: list[Any], promise: str) -> None:
    assert len(got) == len(wanted), f"{promise}: {len(got)} chunks instead of {len(wanted)}"
    for step, (left, right) in enumerate(zip(got, wanted, strict=True)):
        assert case.same(left, right), f"{promise}: chunk {step} differs"


def check_manifest(case: EngineCase) -> None:
    """``manifest()`` is stable and declares the requested capacity and the shape of the chunks."""
    engine = case.make_engine(2)
    before = engine.manifest()
    outputs = _run(case, engine, (0,), steps=2)[0]
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
    outputs = _run(case, case.make_engine(2), (0, 1), steps=3)
    for step, (left, right) in enumerate(zip(outputs[0], outputs[1], strict=True)):
        assert not case.same(left, right), f"two sessions with different contexts got the same chunk {step}"


def check_solo_equals_batched(case: EngineCase) -> None:
    """A session's chunks do not depend on the rest of the batch: no state leaks between rows."""
    together = _run(case, case.make_engine(3), (0, 1, 2), steps=4)
    for index in (0, 1, 2):
        alone = _run(case, case.make_engine(3), (index,), steps=4)
        _assert_same(case, together[index], alone[index], f"session {index} in a batch of three against alone")


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
    alone = _run(case, case.make_engine(2), (0,), steps=4)
    _assert_same(case, drive.outputs[0], alone[0], "a session that was attached twice")
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
        alone = _run(case, case.make_engine(2), (index,), steps=3)
        _assert_same(case, drive.outputs[index], alone[index], f"session {index}, stepped while the other rested")


def check_row_reuse(case: EngineCase) -> None:
    """A reused row starts from a fresh state."""
    drive = Drive(case, case.make_engine(1))
    drive.attach(0)
    for _ in range(3):
        drive.step(0)
    drive.detach(0)
    drive.attach(1)
    for _ in range(3):
        drive.step(1)
    drive.flush()
    fresh = _run(case, case.make_engine(1), (1,), steps=3)
    _assert_same(case, drive.outputs[1], fresh[1], "a session in a used row against a fresh engine")


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
    drive.attach(0)
    for _ in range(3):
        drive.step(0)
    drive.attach(1)
    for _ in range(3):
        drive.step(0, 1)
    drive.flush()
    for index, steps in ((0, 6), (1, 3)):
        alone = _run(case, case.make_engine(2), (index,), steps)
        _assert_same(case, drive.outputs[index], alone[index], f"session {index} around a join")


def check_lossless_detach(case: EngineCase) -> None:
    """A session that is detached neither costs the others a chunk nor changes one."""
    drive = Drive(case, case.make_engine(3))
    drive.attach(0, 1, 2)
    for _ in range(3):
        drive.step(0, 1, 2)
    drive.detach(1)
    for _ in range(3):
        drive.step(0, 2)
    drive.flush()
    for index in (0, 2):
        alone = _run(case, case.make_engine(3), (index,), steps=6)
        _assert_same(case, drive.outputs[index], alone[index], f"session {index} around another's detach")


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
    _assert_same(case, changed.outputs[1], steady.outputs[1], "a bystander of a heavy change")


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
        alone = _run(case, case.make_engine(3), (index,), steps=5)
        promise = f"session {index} when a chunk's DEFERRED comes after the next chunk's HOT"
        _assert_same(case, drive.outputs[index], alone[index], promise)


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
        _assert_same(case, got, clean.outputs[index][: len(got)], f"session {index} around {event}")
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
    _assert_same(case, again, first, "the rollout of a session that attached again after its end")


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
    batched = _run(case, case.make_engine(3), (0, 1, 2), steps=4)
    replicas = _run(case, ReplicaEngine(lambda: case.make_engine(1), max_sessions=3), (0, 1, 2), steps=4)
    for index in (0, 1, 2):
        _assert_same(case, batched[index], replicas[index], f"session {index} batched against a replica of its own")


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
