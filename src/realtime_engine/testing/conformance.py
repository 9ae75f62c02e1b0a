"""Conformance suite: checks that an engine fulfills the contract.

One call, in a script or in a test::

    from realtime_engine.testing import EngineCase, check_engine

    def test_my_engine():
        check_engine(EngineCase(make_engine=lambda max_sessions: ComposedEngine(MyModel(max_sessions))))

Each check builds its own engines with ``make_engine`` and raises :class:`AssertionError` with the violated requirement
and the observed behavior.
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
    """The engine to check, and its inputs.

    Attributes:
        make_engine: builds a new engine for a number of sessions; called with 1, 2 and 3.
        context: maps the index of a session to its attach context; different indices must give different output.
        conditioning: maps the index of a session and the number of the step to conditioning.
        heavy: a heavy key and two different values; ``None`` skips the check of heavy changes.
        make_faulty: like ``make_engine``, but wraps the model with a fault plan:
            ``lambda n, plan: ComposedEngine(FaultyModel(MyModel(n), plan))``. ``None`` skips the check of failures.
        same: compares two outputs. The default is bitwise equality; pass a comparison with a tolerance for a model
            whose output depends slightly on the batch size.
        rollout_chunks: chunks per rollout; ``None`` skips the check of the end of a rollout. The other checks take up
            to 60 steps: use a separate case for shorter rollouts, with ``skip=frozenset(CHECKS) - {"rollout_end"}``.
        skip: names of checks to skip, without the prefix ``check_``.
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
    """Run all checks and return their names.

    Raises:
        AssertionError: the engine violates the contract.
        ValueError: ``case.skip`` has an unknown name.
    """
    unknown = case.skip - CHECKS.keys()
    if unknown:
        raise ValueError(f"EngineCase.skip has unknown checks {sorted(unknown)}; valid names are {sorted(CHECKS)}")
    ran = []
    for name, check in CHECKS.items():
        if name not in case.skip:
            check(case)
            ran.append(name)
    return ran


class Drive:
    """Drives an engine and collects the chunks of each session.

    Sessions are identified by index. Each has its own step count, which determines its conditioning.

    Args:
        case: provides contexts and conditioning.
        engine: the engine to drive.

    Attributes:
        engine: the engine.
        outputs: outputs by session index.
    """

    def __init__(self, case: EngineCase, engine: RealtimeInterface) -> None:
        self._case = case
        self._steps: dict[int, int] = {}
        self.engine = engine
        self.outputs: dict[int, list[Any]] = {}

    def attach(self, *indices: int, **extra: Any) -> None:
        """Attach sessions; ``extra`` is added to their contexts."""
        for index in indices:
            self.engine.attach(SessionInit(name_of(index), {**self._case.context(index), **extra}))
            self._steps[index] = 0
            self.outputs[index] = []

    def step(self, *indices: int, **extra: Any) -> list[int]:
        """Step sessions with ``extra`` conditioning; return the sessions that produced a chunk."""
        due = {name_of(i): {**self._case.conditioning(i, self._steps[i]), **extra} for i in indices}
        for index in indices:
            self._steps[index] += 1
        return self._step(due)

    def flush(self) -> list[int]:
        """Step without due sessions; return the sessions that produced a chunk."""
        return self._step({})

    def detach(self, *indices: int) -> None:
        """Detach sessions."""
        for index in indices:
            self.engine.detach(name_of(index))

    def step_constant(self, *indices: int, **extra: Any) -> list[int]:
        """Step sessions with the conditioning of step 0, so that a chunk depends only on its age."""
        return self._step({name_of(i): {**self._case.conditioning(i, 0), **extra} for i in indices})

    def step_constant_each(self, extras: Mapping[int, Mapping[str, Any]]) -> list[int]:
        """Step sessions with the conditioning of step 0 and extra conditioning per session."""
        return self._step({name_of(i): {**self._case.conditioning(i, 0), **extra} for i, extra in extras.items()})

    def _step(self, due: Mapping[str, Mapping[str, Any]]) -> list[int]:
        return self.collect(self.engine.step(due))

    def collect(self, results: list[StepResult]) -> list[int]:
        """Record and finalize results; return the indices of their sessions."""
        indices = [int(result.session_id.removeprefix("session-")) for result in results]
        assert len(set(indices)) == len(indices), f"step() returned two chunks of one session: {indices}"
        for index, result in zip(indices, results, strict=True):
            self.outputs[index].append(result.output)
        self.engine.finalize([result.session_id for result in results])
        return indices


def name_of(index: int) -> str:
    """Return the session id of an index."""
    return f"session-{index}"


def _run(case: EngineCase, engine: RealtimeInterface, indices: tuple[int, ...], steps: int) -> dict[int, list[Any]]:
    drive = Drive(case, engine)
    drive.attach(*indices)
    for _ in range(steps):
        drive.step(*indices)
    drive.flush()
    return drive.outputs


def _assert_same(case: EngineCase, got: list[Any], wanted: list[Any], requirement: str) -> None:
    assert len(got) == len(wanted), f"{requirement}: {len(got)} chunks instead of {len(wanted)}"
    for step, (left, right) in enumerate(zip(got, wanted, strict=True)):
        assert case.same(left, right), f"{requirement}: chunk {step} differs"


def check_manifest(case: EngineCase) -> None:
    """``manifest()`` is constant and matches the requested capacity and the shape of the chunks."""
    engine = case.make_engine(2)
    before = engine.manifest()
    outputs = _run(case, engine, (0,), steps=2)[0]
    assert outputs, "two steps returned no chunk: does the last stage fill batch.outputs[session_id]?"
    for output in outputs:
        shape = getattr(output, "shape", None)
        if before.chunk_shape and shape is not None:
            announced = f"manifest().chunk_shape is {before.chunk_shape}"
            assert tuple(shape) == before.chunk_shape, f"{announced}, a chunk has the shape {tuple(shape)}"
    assert engine.manifest() == before, f"manifest() changed from {before} to {engine.manifest()} while stepping"
    assert before.max_sessions == 2, f"manifest().max_sessions is {before.max_sessions}, make_engine was called with 2"


def check_distinct(case: EngineCase) -> None:
    """Sessions with different contexts get different output: nothing is broadcast over the batch."""
    outputs = _run(case, case.make_engine(2), (0, 1), steps=3)
    for step, (left, right) in enumerate(zip(outputs[0], outputs[1], strict=True)):
        assert not case.same(left, right), f"two sessions with different contexts got the same chunk {step}"


def check_solo_equals_batched(case: EngineCase) -> None:
    """The chunks of a session do not depend on other sessions: no state leaks between rows."""
    together = _run(case, case.make_engine(3), (0, 1, 2), steps=4)
    for index in (0, 1, 2):
        alone = _run(case, case.make_engine(3), (index,), steps=4)
        _assert_same(case, together[index], alone[index], f"session {index} in a batch of three compared to alone")


def check_outputs_not_aliased(case: EngineCase) -> None:
    """Later steps do not overwrite a returned chunk."""
    drive = Drive(case, case.make_engine(2))
    drive.attach(0, 1)
    for _ in range(drive.engine.manifest().pipeline_depth_chunks):
        drive.step(0, 1)
    assert drive.outputs[0], "no chunk was returned: does the last stage fill batch.outputs[session_id]?"
    given = drive.outputs[0][0]
    kept = copy.deepcopy(given)
    for _ in range(3):
        drive.step(0, 1)
    assert case.same(given, kept), "a chunk changed after it was returned: copy outputs, do not reuse their memory"


@contextmanager
def _must_not_raise(requirement: str) -> Iterator[None]:
    """Convert any exception to an :class:`AssertionError`."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{requirement}, but it raised {describe(error)}") from error


def check_admission(case: EngineCase) -> None:
    """``attach`` is idempotent and rejects sessions beyond the capacity; ``detach`` frees capacity."""
    drive = Drive(case, case.make_engine(2))
    drive.attach(0, 1)
    for _ in range(2):
        drive.step(0, 1)
    with _must_not_raise("attach of an attached id must change nothing, also in a full engine"):
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
    with _must_not_raise("detach must be idempotent"):
        drive.detach(0, 1, 0, 1)
        drive.engine.detach("unknown")
    with _must_not_raise("detach must free capacity for the next attach"):
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
        _assert_same(case, drive.outputs[index], alone[index], f"session {index}, stepped while the other was not due")


def check_row_reuse(case: EngineCase) -> None:
    """A row reused by another session starts from its initial state."""
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
    _assert_same(case, drive.outputs[1], fresh[1], "a session in a reused row compared to a new engine")


def check_warm_up(case: EngineCase) -> None:
    """A pipeline of depth d returns no chunk for d - 1 steps, then one per step; ``step({})`` drains it."""
    engine = case.make_engine(1)
    depth = engine.manifest().pipeline_depth_chunks
    drive = Drive(case, engine)
    drive.attach(0)
    for step in range(depth + 3):
        stepped = drive.step(0)
        wanted = [0] if step >= depth - 1 else []
        assert stepped == wanted, f"step {step} of a pipeline of depth {depth} returned {stepped}, not {wanted}"
    for _ in range(depth - 1):
        assert drive.flush() == [0], "step({}) must return the chunks left in the pipeline"
    assert drive.flush() == [], "step({}) returned a chunk that was not requested"


def check_lossless_join(case: EngineCase) -> None:
    """A joining session neither drops nor changes a chunk of other sessions."""
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
    """A leaving session neither drops nor changes a chunk of other sessions."""
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
    """A heavy change affects the chunks of its session only, and no other session loses a chunk."""
    if case.heavy is None:
        return
    key, first, second = case.heavy
    changed, steady = (Drive(case, case.make_engine(2)) for _ in range(2))
    for drive in (changed, steady):
        drive.attach(0, 1, **{key: first})
        for _ in range(2):
            drive.step_constant(0, 1, **{key: first})
    deadline = time.monotonic() + _ENCODE_DEADLINE_S
    steps, visible = 0, False
    while steps < 50 or not visible:
        assert visible or time.monotonic() < deadline, f"a change of {key!r} from {first!r} to {second!r} had no effect"
        stepped = changed.step_constant_each({0: {key: second}, 1: {key: first}})
        assert 1 in stepped, "a heavy change of one session stopped another"
        steady.step_constant(0, 1, **{key: first})
        steps += 1
        visible = visible or _differ(case, changed.outputs[0], steady.outputs[0])
        if steps > 50:
            time.sleep(0.001)  # yields to an encode in a thread of the engine
    changed.flush()
    steady.flush()
    _assert_same(case, changed.outputs[1], steady.outputs[1], "a bystander of a heavy change")


def _differ(case: EngineCase, left: list[Any], right: list[Any]) -> bool:
    """Return whether the newest common chunk differs."""
    newest = min(len(left), len(right)) - 1
    return newest >= 0 and not case.same(left[newest], right[newest])


def check_late_decode(case: EngineCase) -> None:
    """DEFERRED of a chunk is unaffected if HOT of the next chunk, or a detach, runs first.

    Applies to a :class:`ComposedEngine` unless it has ``pipeline=False``, even if it does not pipeline by default.
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
        requirement = f"session {index} when DEFERRED of a chunk runs after HOT of the next chunk"
        _assert_same(case, drive.outputs[index], alone[index], requirement)


def check_failure_boundary(case: EngineCase) -> None:
    """After a failed step, all sessions continue as if it had not happened.

    The step fails before the first HOT stage, before the second, and when a stage first reads the conditioning of a
    session, since earlier stages may have modified state by then.
    """
    if case.make_faulty is None:
        return
    error = RuntimeError("injected")
    for skip, event in enumerate(("a failed step", "a step that failed before its second HOT stage")):
        plan = _check_failure(case, event, partial(FaultPlan.fail, hook="hot", error=error, skip=skip))
        assert plan.raised, "make_faulty does not use the plan: wrap the model with FaultyModel"
    for culprit in map(name_of, (0, 1)):
        event = f"a step that failed when it read the conditioning of {culprit}"
        _check_failure(case, event, partial(FaultPlan.poison, hook="hot", error=error, session_id=culprit))


def _check_failure(case: EngineCase, event: str, add_fault: Callable[[FaultPlan], None]) -> FaultPlan:
    """Run two sessions with a planned failure of the third or fourth step, which is then retried; return the plan."""
    assert case.make_faulty is not None
    plan = FaultPlan()
    drive = Drive(case, case.make_faulty(2, plan))
    drive.attach(0, 1)
    for _ in range(2):
        drive.step_constant(0, 1)
    add_fault(plan)
    for _ in range(3):
        try:
            drive.step_constant(0, 1)
        except StepFailure as failure:
            drive.collect(failure.results)
        except Exception as raised:
            description = describe(raised)
            assert "injected" in str(raised), f"a stage raised RuntimeError('injected'), step() raised {description}"
    drive.flush()
    clean = Drive(case, case.make_engine(2))
    clean.attach(0, 1)
    for _ in range(6):
        clean.step_constant(0, 1)
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
    """Step session 0 to the end of its rollout; return its outputs."""
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
    engine.step({})  # discards chunks that a pipeline started beyond the end
    return [result.output for result in results]


def check_replica_parity(case: EngineCase) -> None:
    """The batched engine gives the same output as one engine per session."""
    batched = _run(case, case.make_engine(3), (0, 1, 2), steps=4)
    replicas = _run(case, ReplicaEngine(lambda: case.make_engine(1), max_sessions=3), (0, 1, 2), steps=4)
    for index in (0, 1, 2):
        _assert_same(case, batched[index], replicas[index], f"session {index} batched compared to a replica")


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
