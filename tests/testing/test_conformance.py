"""The suite passes on good engines and names the broken promise of bad ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from realtime_engine import AdmissionError, ComposedEngine, Lane, ReplicaEngine, SessionInit
from realtime_engine.examples import CpuReferenceEngine, CpuStageModel
from realtime_engine.testing import ConformanceError, EngineCase, FaultyModel, ScriptedEngine, check_engine
from realtime_engine.testing.conformance import CHECKS

HEAVY = ("prompt", "a castle", "the sea")  # of different length, which is all that the toy looks at
PROMISED = {
    "distinct",
    "solo_equals_batched",
    "admission",
    "row_reuse",
    "warm_up",
    "heavy_change",
    "lossless_join",
    "lossless_detach",
    "replica_parity",
}
GOOD = {
    "inline": lambda n: ComposedEngine(CpuStageModel(n), pipeline=False),
    "pipelined": lambda n: ComposedEngine(CpuStageModel(n), pipeline=True),
    "threaded": lambda n: ComposedEngine(CpuStageModel(n), lanes="thread"),
    "threaded-pipelined": lambda n: ComposedEngine(CpuStageModel(n), pipeline=True, lanes="thread"),
    "replica": lambda n: ReplicaEngine(lambda: ComposedEngine(CpuStageModel(1)), max_sessions=n),
    "replica-pipelined": lambda n: ReplicaEngine(
        lambda: ComposedEngine(CpuStageModel(1), pipeline=True), max_sessions=n
    ),
    "replica-parallel": lambda n: ReplicaEngine(
        lambda: ComposedEngine(CpuStageModel(1)), max_sessions=n, parallel=True
    ),
    "replica-parallel-pipelined": lambda n: ReplicaEngine(
        lambda: ComposedEngine(CpuStageModel(1), pipeline=True), max_sessions=n, parallel=True
    ),
}


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD)
def test_good_batched_engines_pass_every_check(make):
    assert check_engine(EngineCase(make_engine=make, heavy=HEAVY)) == list(CHECKS)


ENDING = {
    "scripted": lambda n: ScriptedEngine(n, rollout_chunks=3),
    "inline": lambda n: ComposedEngine(CpuStageModel(n, rollout_chunks=3), pipeline=False),
    "pipelined": lambda n: ComposedEngine(CpuStageModel(n, rollout_chunks=3), pipeline=True),
    "replica-pipelined": lambda n: ReplicaEngine(
        lambda: ComposedEngine(CpuStageModel(1, rollout_chunks=3), pipeline=True), max_sessions=n
    ),
}


@pytest.mark.parametrize("make", ENDING.values(), ids=ENDING)
def test_engines_whose_rollouts_end_pass(make):
    case = EngineCase(make_engine=make, rollout_chunks=3, skip=frozenset(CHECKS) - {"rollout_end", "distinct"})
    assert check_engine(case) == ["distinct", "rollout_end"]


@pytest.mark.parametrize(
    "chunks, complaint", [(2, "no chunk of 2 has last=True"), (4, "chunk 3 has last=True, not chunk 4")]
)
def test_a_rollout_of_another_length_is_named(chunks, complaint):
    with pytest.raises(AssertionError, match=complaint):
        CHECKS["rollout_end"](EngineCase(make_engine=ENDING["scripted"], rollout_chunks=chunks))


@pytest.mark.parametrize("make", [CpuReferenceEngine, ScriptedEngine])
def test_good_plain_engines_pass(make):
    check_engine(EngineCase(make_engine=make))


def test_every_promised_check_is_there():
    assert CHECKS.keys() >= PROMISED


def test_all_failures_are_reported_together():
    with pytest.raises(ConformanceError) as raised:
        check_engine(EngineCase(make_engine=lambda n: ComposedEngine(LeaksBetweenRows(n))))
    failed = raised.value.failures
    assert {"solo_equals_batched", "lossless_join", "replica_parity"} <= failed.keys()
    assert f"{len(failed)} of {len(CHECKS)} checks failed" in str(raised.value)
    for name, error in failed.items():
        assert f"{name}: {error}" in str(raised.value)
    assert raised.value.__cause__ is next(iter(failed.values()))


class Raises(ScriptedEngine):
    def step(self, due):
        raise ZeroDivisionError("a sum of no frames")


def test_what_an_engine_raises_is_reported_with_its_place():
    with pytest.raises(ConformanceError) as raised:
        check_engine(EngineCase(make_engine=Raises, skip=frozenset(CHECKS) - {"manifest", "row_reuse"}))
    assert raised.value.failures.keys() == {"manifest", "row_reuse"}
    assert str(raised.value).count("raised ZeroDivisionError: a sum of no frames (") == 2
    assert "test_conformance.py:" in str(raised.value)


def test_each_check_writes_a_line_when_it_begins(capsys):
    seen = []

    def make(max_sessions: int) -> ScriptedEngine:
        seen.append(capsys.readouterr().err)
        return Repeats(max_sessions)

    with pytest.raises(ConformanceError):
        check_engine(EngineCase(make_engine=make, skip=frozenset(CHECKS) - {"manifest", "admission"}))
    assert seen[0] == "check_engine 1/2 manifest ... "
    assert re.search(r"FAILED \(\d+\.\d s\)\ncheck_engine 2/2 admission \.\.\. $", seen[1])


@pytest.mark.parametrize("steps", [3, 4.0, True])
def test_too_few_steps_are_refused(steps):
    with pytest.raises(ValueError, match=r"EngineCase\.steps must be an integer of at least 4, got"):
        EngineCase(make_engine=ScriptedEngine, steps=steps)


def test_a_leak_beyond_the_steps_is_found_with_more_of_them():
    def make(max_sessions: int) -> ComposedEngine:
        return ComposedEngine(LeaksFromTheSixthChunk(max_sessions))

    check_engine(EngineCase(make_engine=make, steps=6))
    with pytest.raises(AssertionError, match="chunk 6 differs"):
        check_engine(EngineCase(make_engine=make, steps=7))


def test_checks_can_be_skipped_by_name_and_a_wrong_name_is_refused():
    ran = check_engine(EngineCase(make_engine=ScriptedEngine, skip=frozenset({"distinct", "warm_up"})))
    assert set(ran) == CHECKS.keys() - {"distinct", "warm_up"}
    with pytest.raises(ValueError, match="nonsense"):
        check_engine(EngineCase(make_engine=ScriptedEngine, skip=frozenset({"nonsense"})))


# -- broken models


class Toy:
    """A correct model with resident state: each chunk is the running sum of seed, move and prompt of its row."""

    shape = (4,)

    def __init__(self, max_sessions: int) -> None:
        self.size = max_sessions
        self.state = np.zeros(max_sessions)
        self.prompt = np.zeros(max_sessions)

    def manifest(self):
        return CpuStageModel(self.size, self.shape).manifest()

    def heavy_keys(self):
        return ("prompt",)

    def stages(self):
        return [_Stage(Lane.ENCODE, self.encode), _Stage(Lane.HOT, self.hot), _Stage(Lane.DEFERRED, self.deferred)]

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        for row, context in rows.items():
            self.state[row] = context["seed"] * 1000
            self.prompt[row] = len(context.get("prompt", ""))

    def detach(self, row: int, session_id: str) -> None:
        self.state[row] = self.prompt[row] = 0

    def encode(self, batch) -> None:
        for row in batch.rows_in_order():
            self.prompt[row] = len(batch.conditioning[batch.slots[row]]["prompt"])

    def hot(self, batch) -> None:
        before = self.state.copy()
        try:
            for row in batch.rows_in_order():
                self.advance(row, batch.conditioning[batch.slots[row]])
        except BaseException:
            self.state = before
            raise
        batch.data["state"] = self.state.copy()

    def advance(self, row: int, conditioning: Mapping[str, Any]) -> None:
        self.state[row] += 10 + conditioning.get("move", 0) + self.prompt[row] / 64

    def deferred(self, batch) -> None:
        for row in batch.rows_in_order():
            batch.outputs[batch.slots[row]] = self.picture(batch, row)

    def picture(self, batch, row: int) -> Any:
        return np.full(self.shape, batch.data["state"][row])


class _Stage:
    def __init__(self, lane: Lane, work) -> None:
        self.lane, self._work = lane, work

    def __call__(self, batch) -> None:
        self._work(batch)


class LeaksBetweenRows(Toy):
    def hot(self, batch) -> None:
        super().hot(batch)
        batch.data["state"] += self.state.sum() / 1024


class LeaksIntoTheNextRow(Toy):
    """Each row reads what the row before it has just written to a shared scratch variable."""

    scratch = 0.0

    def advance(self, row: int, conditioning: Mapping[str, Any]) -> None:
        super().advance(row, conditioning)
        self.state[row] += self.scratch
        self.scratch = conditioning.get("move", 0) + 1.0


class SharesItsWorkspace(Toy):
    """Every chunk of a row is the same array, written over by each step."""

    def picture(self, batch, row: int) -> Any:
        if not hasattr(self, "workspace"):
            self.workspace = np.zeros((self.size, *self.shape))
        self.workspace[row] = batch.data["state"][row]
        return self.workspace[row]


class SharesAWorkspaceThatIsNoArray(Toy):
    def picture(self, batch, row: int) -> Any:
        if not hasattr(self, "workspace"):
            self.workspace = [{"value": 0.0} for _ in range(self.size)]
        self.workspace[row]["value"] = float(batch.data["state"][row])
        return self.workspace[row]


class Broadcasts(Toy):
    """The first row's picture goes to everybody."""

    def picture(self, batch, row: int) -> Any:
        return super().picture(batch, batch.rows_in_order()[0])


class IgnoresTheHeavyKey(Toy):
    def advance(self, row: int, conditioning: Mapping[str, Any]) -> None:
        self.state[row] += 10 + conditioning.get("move", 0)


class EncodesForEveryRow(Toy):
    def encode(self, batch) -> None:
        for row in batch.rows_in_order():
            self.prompt[:] = len(batch.conditioning[batch.slots[row]]["prompt"])


class EncodesForEveryOtherRow(Toy):
    """Writes the neighbour's prompt as well."""

    def encode(self, batch) -> None:
        super().encode(batch)
        for row in batch.rows_in_order():
            self.prompt[(row + 1) % self.size] = self.prompt[row]


class LeaksFromTheSixthChunk(Toy):
    """A window of six chunks, kept beside those of the other rows: the seventh chunk of a row reads its neighbour's."""

    def __init__(self, max_sessions: int) -> None:
        super().__init__(max_sessions)
        self.ages = np.zeros(max_sessions, int)

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        super().seed(rows)
        for row in rows:
            self.ages[row] = 0

    def hot(self, batch) -> None:
        super().hot(batch)
        for row in batch.rows_in_order():
            if self.ages[row] >= 6:
                batch.data["state"][row] += self.state[(row + 1) % self.size] / 1024
            self.ages[row] += 1


class KeepsTheWindowOfAUsedRow(Toy):
    """A session reads the end of its row's window from its seventh chunk on, and attaching does not clear it."""

    def __init__(self, max_sessions: int) -> None:
        super().__init__(max_sessions)
        self.windows: list[list[float]] = [[] for _ in range(max_sessions)]
        self.ages = np.zeros(max_sessions, int)

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        super().seed(rows)
        for row in rows:
            self.ages[row] = 0

    def hot(self, batch) -> None:
        super().hot(batch)
        for row in batch.rows_in_order():
            window = self.windows[row]
            if self.ages[row] >= 6 and len(window) >= 12:
                batch.data["state"][row] += window[-12]
            window.append(self.state[row])
            self.ages[row] += 1


class SeedsOverAUsedRow(Toy):
    """Row state survives detach, and seeding adds to it."""

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        for row, context in rows.items():
            self.state[row] += context["seed"] * 1000
            self.prompt[row] = len(context.get("prompt", ""))

    def detach(self, row: int, session_id: str) -> None:
        return None


class SeedsTheWholeArena(Toy):
    """A newcomer sends the residents back to their beginning."""

    def __init__(self, max_sessions: int) -> None:
        super().__init__(max_sessions)
        self.seeds: dict[int, Mapping[str, Any]] = {}

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        self.seeds.update(rows)
        super().seed(self.seeds)


class ClearsTheWholeArena(Toy):
    def detach(self, row: int, session_id: str) -> None:
        self.state[:] = 0


BROKEN_MODELS = {
    LeaksBetweenRows: "batch of three against alone",
    LeaksIntoTheNextRow: "batch of three against alone",
    LeaksFromTheSixthChunk: "batch of three against alone: chunk 6 differs",
    KeepsTheWindowOfAUsedRow: "used row against a fresh engine: chunk 6 differs",
    SharesItsWorkspace: "changed after it was returned",
    SharesAWorkspaceThatIsNoArray: "changed after it was returned",
    Broadcasts: "same chunk",
    IgnoresTheHeavyKey: "never showed",
    EncodesForEveryRow: "bystander",
    EncodesForEveryOtherRow: "bystander",
    SeedsOverAUsedRow: "used row",
    SeedsTheWholeArena: "join|while the other rested",
    ClearsTheWholeArena: "another's detach",
}


@pytest.mark.parametrize("options", [{"pipeline": False}, {"pipeline": True}], ids=["inline", "pipelined"])
def test_the_toy_itself_is_correct(options):
    check_engine(EngineCase(make_engine=lambda n: ComposedEngine(Toy(n), **options), heavy=HEAVY))


@pytest.mark.parametrize("options", [{"pipeline": False}, {"pipeline": True}], ids=["inline", "pipelined"])
@pytest.mark.parametrize("model", BROKEN_MODELS, ids=lambda model: model.__name__)
def test_a_broken_model_fails_with_the_promise_that_it_breaks(model, options):
    case = EngineCase(make_engine=lambda n: ComposedEngine(model(n), **options), heavy=HEAVY)
    with pytest.raises(AssertionError, match=BROKEN_MODELS[model]):
        check_engine(case)


# -- broken engines


class LosesResidentsChunksOnDetach(ComposedEngine):
    def detach(self, session_id: str) -> None:
        super().detach(session_id)
        self._decoder._in_flight = None


class LosesResidentsChunksOnAttach(ComposedEngine):
    def attach(self, init: SessionInit) -> None:
        super().attach(init)
        self._decoder._in_flight = None


class Restless(ScriptedEngine):
    """Advances everybody, due or not."""

    def step(self, due):
        results = super().step(due)
        for session_id in self._ages.keys() - due.keys():
            self._ages[session_id] += 1
        return results


class AttachesAnew(ScriptedEngine):
    """A second attach of an id starts the session over."""

    def attach(self, init: SessionInit) -> None:
        super().attach(init)
        self._ages[init.session_id] = 0


class RefusesWhoIsThere(ScriptedEngine):
    def attach(self, init: SessionInit) -> None:
        if init.session_id in self._contexts:
            raise AdmissionError("already attached")
        super().attach(init)


class AdmitsEverybody(ScriptedEngine):
    def attach(self, init: SessionInit) -> None:
        self._contexts[init.session_id] = dict(init.context)
        self._ages.setdefault(init.session_id, 0)


class DetachesOnce(ScriptedEngine):
    def detach(self, session_id: str) -> None:
        del self._contexts[session_id]
        del self._ages[session_id]


class NeverMakesRoom(ScriptedEngine):
    def detach(self, session_id: str) -> None:
        return None


class InventsSessions(ScriptedEngine):
    def step(self, due):
        for session_id in due:
            self._contexts.setdefault(session_id, {})
            self._ages.setdefault(session_id, 0)
        return super().step(due)


class RemembersAges(ScriptedEngine):
    """The next session goes on where the last one ended."""

    last = 0

    def attach(self, init: SessionInit) -> None:
        known = init.session_id in self._ages
        super().attach(init)
        if not known:
            self._ages[init.session_id] = self.last

    def detach(self, session_id: str) -> None:
        self.last = self._ages.get(session_id, self.last)
        super().detach(session_id)


class Repeats(ScriptedEngine):
    def step(self, due):
        return [*super().step(due), *super().step(due)]


class ChangesItsMind(ScriptedEngine):
    def manifest(self):
        before = super().manifest()
        return type(before)(before.max_sessions, rate_hz=30.0 + len(self.calls_of("step")))


class LatePipeline(ScriptedEngine):
    """Emits the chunk of the step before, and says that it has no pipeline."""

    held: list = []

    def step(self, due):
        held, self.held = self.held, super().step(due)
        return held


BROKEN_ENGINES = {
    Restless: "while the other rested",
    AttachesAnew: "attach",
    RefusesWhoIsThere: "attach",
    AdmitsEverybody: "AdmissionError",
    DetachesOnce: "detach",
    NeverMakesRoom: "detach|room",
    InventsSessions: "unknown id",
    RemembersAges: "used row",
    Repeats: "two chunks",
    ChangesItsMind: "manifest",
    LatePipeline: "depth 1|step|no chunk came",
}


@pytest.mark.parametrize("engine", BROKEN_ENGINES, ids=lambda engine: engine.__name__)
def test_a_broken_engine_is_told_which_promise_it_breaks(engine):
    with pytest.raises(AssertionError, match=BROKEN_ENGINES[engine]):
        check_engine(EngineCase(make_engine=engine))


@pytest.mark.parametrize(
    ("engine", "promise"),
    [
        (LosesResidentsChunksOnDetach, "another's detach"),
        (LosesResidentsChunksOnAttach, "attached twice|around a join"),
    ],
)
def test_a_lost_chunk_is_noticed(engine, promise):
    with pytest.raises(AssertionError, match=promise):
        check_engine(EngineCase(make_engine=lambda n: engine(CpuStageModel(n), pipeline=True), heavy=HEAVY))


class Scales(Toy):
    """Agrees with itself alone only within a tolerance."""

    def picture(self, batch, row: int) -> Any:
        return super().picture(batch, row) * (1 + 1e-9 * len(batch.rows_in_order()))


def test_a_tolerance_between_batch_sizes_can_be_granted():
    def make(max_sessions: int) -> ComposedEngine:
        return ComposedEngine(Scales(max_sessions))

    with pytest.raises(AssertionError):
        check_engine(EngineCase(make_engine=make))
    check_engine(EngineCase(make_engine=make, same=lambda left, right: bool(np.allclose(left, right, rtol=1e-6))))


@pytest.mark.parametrize("options", [{}, {"pipeline": True}, {"lanes": "thread"}], ids=str)
def test_a_model_that_fails_at_boundaries_passes_the_failure_check(options):
    def make(max_sessions: int, plan=None) -> ComposedEngine:
        model = Toy(max_sessions)
        return ComposedEngine(model if plan is None else FaultyModel(model, plan), **options)

    assert check_engine(EngineCase(make_engine=make, make_faulty=make, heavy=HEAVY)) == list(CHECKS)


class MovesBeforeItFails(FaultyModel):
    """Not boundary-atomic: HOT has changed its rows by the time that it raises."""

    def stages(self):
        return [self._backwards(stage) if stage.lane is Lane.HOT else stage for stage in super().stages()]

    def _backwards(self, faulty):
        def run(batch) -> None:
            faulty._stage(batch)
            self._plan.check("hot", batch.due)

        return _Stage(Lane.HOT, run)


def test_a_model_that_moves_before_it_fails_is_noticed():
    with pytest.raises(AssertionError, match="around a failed step"):
        check_engine(
            EngineCase(
                make_engine=lambda n: ComposedEngine(Toy(n)),
                make_faulty=lambda n, plan: ComposedEngine(MovesBeforeItFails(Toy(n), plan)),
            )
        )


class MovesRowByRow(Toy):
    """Not boundary-atomic: rows that come before the one that fails have moved."""

    def hot(self, batch) -> None:
        for row in batch.rows_in_order():
            self.advance(row, batch.conditioning[batch.slots[row]])
        batch.data["state"] = self.state.copy()


class MovesInTheFirstOfTwoStages(Toy):
    """Not boundary-atomic: when the second HOT stage fails, the first has moved its rows."""

    def stages(self):
        return [*super().stages(), _Stage(Lane.HOT, lambda batch: None)]


@pytest.mark.parametrize("options", [{}, {"pipeline": True}], ids=str)
@pytest.mark.parametrize(
    ("model", "promise"),
    [
        (MovesRowByRow, "session 0 around a step that failed when it read the conditioning of session-1"),
        (MovesInTheFirstOfTwoStages, "around a step that failed before its second HOT stage"),
    ],
)
def test_a_model_that_has_moved_when_it_fails_is_noticed(model, promise, options):
    def make(max_sessions: int, plan=None) -> ComposedEngine:
        toy = model(max_sessions)
        return ComposedEngine(toy if plan is None else FaultyModel(toy, plan), **options)

    with pytest.raises(AssertionError, match=promise):
        check_engine(EngineCase(make_engine=make, make_faulty=make))


class DecodesFromTheState(Toy):
    """HOT of the next chunk overwrites what DEFERRED of this one reads, where they overlap."""

    def hot(self, batch) -> None:
        super().hot(batch)
        batch.data["state"] = self.state


class DecodesByPlace(Toy):
    """DEFERRED looks for a row's share by its place among those that HOT saw."""

    def hot(self, batch) -> None:
        super().hot(batch)
        batch.data["latents"] = [batch.data["state"][row] for row in batch.rows_in_order()]

    def picture(self, batch, row: int) -> Any:
        return np.full(self.shape, batch.data["latents"][batch.rows_in_order().index(row)])


@pytest.mark.parametrize("model", [DecodesFromTheState, DecodesByPlace])
def test_what_a_late_decode_would_show_is_noticed_without_a_pipeline(model):
    with pytest.raises(AssertionError, match="DEFERRED comes after the next chunk's HOT"):
        check_engine(EngineCase(make_engine=lambda n: ComposedEngine(model(n))))


def test_an_engine_that_will_never_have_a_pipeline_need_not_bear_a_late_decode():
    check_engine(EngineCase(make_engine=lambda n: ComposedEngine(DecodesFromTheState(n), pipeline=False)))


def test_a_plan_that_is_never_asked_is_noticed():
    with pytest.raises(AssertionError, match="never asked the plan"):
        check_engine(
            EngineCase(
                make_engine=lambda n: ComposedEngine(Toy(n)),
                make_faulty=lambda n, plan: ComposedEngine(Toy(n)),
            )
        )


class MakesNothing(Toy):
    def deferred(self, batch) -> None:
        """Forgets to fill the outputs."""


class AnnouncesAnotherShape(Toy):
    def manifest(self):
        return CpuStageModel(self.size, (4, 2)).manifest()


@pytest.mark.parametrize(
    ("model", "promise"),
    [
        (MakesNothing, r"MakesNothing filled no batch.outputs\['session-0'\] \(row 0\)"),
        (AnnouncesAnotherShape, "chunk_shape is"),
    ],
)
def test_a_model_that_shows_nothing_or_something_else_is_told(model, promise):
    with pytest.raises(AssertionError, match=promise):
        check_engine(EngineCase(make_engine=lambda n: ComposedEngine(model(n))))
