from __future__ import annotations

import copy
import pickle

import pytest

from realtime_engine import (
    AdmissionError,
    ComposedEngine,
    EngineContractError,
    OutboxClosed,
    RealtimeEngineError,
    ReplicaEngine,
    SessionClaimedError,
    SessionInit,
    StepFailure,
    StepResult,
)
from realtime_engine.core.errors import brief, call_hook, describe
from realtime_engine.core.lanes import Lane
from realtime_engine.examples import CpuReferenceEngine, CpuStageModel


@pytest.mark.parametrize("kind", [AdmissionError, EngineContractError, OutboxClosed, SessionClaimedError, StepFailure])
def test_every_error_has_the_common_base(kind):
    assert issubclass(kind, RealtimeEngineError)


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        (AdmissionError, RuntimeError),
        (EngineContractError, TypeError),
        (SessionClaimedError, RuntimeError),
        (StepFailure, RuntimeError),
    ],
)
def test_errors_are_also_the_built_in_kind_that_fits(kind, base):
    assert issubclass(kind, base)


def test_a_step_failure_names_the_culprits_and_carries_the_others_chunks():
    chunk = StepResult("bob", 1)
    failure = StepFailure({"alice": ValueError("bad prompt"), "carol": KeyError("k")}, [chunk])
    assert failure.results == [chunk]
    assert set(failure.failures) == {"alice", "carol"}
    assert "'alice': ValueError: bad prompt" in str(failure)
    assert "'carol'" in str(failure)


def test_a_step_failure_keeps_copies_of_what_it_is_given():
    failures, results = {"alice": ValueError()}, [StepResult("bob", 1)]
    failure = StepFailure(failures, results)
    failures.clear()
    results.clear()
    assert failure.failures and failure.results


def test_a_step_failure_without_chunks_has_none():
    assert StepFailure({"alice": ValueError()}).results == []


def test_describe_gives_type_and_text():
    assert describe(ValueError("too big")) == "ValueError: too big"


def test_describe_without_text_gives_the_type_alone():
    assert describe(RuntimeError()) == "RuntimeError"


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


def test_describe_outlives_an_error_whose_text_raises():
    assert describe(Unprintable()).startswith("Unprintable")


def test_a_step_failure_can_hold_an_error_whose_text_raises():
    assert "alice" in str(StepFailure({"alice": Unprintable()}))


def test_describe_is_one_line_whatever_the_text():
    assert "\n" not in describe(ValueError("first\nsecond"))


def test_a_step_failure_can_be_pickled_and_copied():
    failure = StepFailure({"a": ValueError("bad")}, [StepResult("b", 1)])
    for twin in (pickle.loads(pickle.dumps(failure)), copy.copy(failure)):
        assert list(twin.failures) == ["a"] and twin.results == failure.results
        assert str(twin) == str(failure)


def test_describe_gives_what_can_be_sent():
    assert describe(ValueError("half a pair: \ud800")) == r"ValueError: half a pair: \ud800"
    shown_text = describe(ValueError("x" * 10_000_000))
    assert shown_text.startswith("ValueError: xxx") and shown_text.endswith("x...") and len(shown_text) < 5000


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (-1, "-1"),
        ("lava", "'lava'"),
        (["day"], "['day']"),
        (None, "None"),
        (10**5000, None),
        (nested(100_000), "[[[[[[[...]]]]]]]"),
        (list(range(10**6)), "[0, 1, 2, 3, 4, 5, ...]"),
        ("x" * 10**7, None),
        (Mute(), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_brief_shows_any_value_in_a_few_characters(value, shown):
    shown_text = brief(value)
    assert 0 < len(shown_text) < 100 and shown in (None, shown_text)


def test_a_result_is_passed_on():
    assert call_hook(lambda left, right: left + right, 1, 2) == 3


def test_an_async_hook_is_named():
    async def seed() -> None:
        """Never awaited."""

    with pytest.raises(EngineContractError, match="seed must be a plain function, not async def"):
        call_hook(seed)


class AsyncSeed(CpuStageModel):
    async def seed(self, rows) -> None:
        """Never awaited."""


class AsyncDetach(CpuStageModel):
    async def detach(self, row, session_id) -> None:
        """Never awaited."""


class AsyncStage(CpuStageModel):
    def stages(self):
        class Hot:
            lane = Lane.HOT

            async def __call__(self, batch) -> None:
                """Never awaited."""

        return [Hot()]


@pytest.mark.parametrize("model", [AsyncSeed, AsyncDetach, AsyncStage])
def test_an_async_hook_of_a_model_is_refused(model):
    engine = ComposedEngine(model(1))
    engine.attach(SessionInit("a", {}))
    with pytest.raises(RuntimeError if model is AsyncSeed else EngineContractError, match="not async def"):
        engine.step({"a": {}})
        engine.detach("a")


@pytest.mark.parametrize("hook", ["attach", "step", "finalize", "detach"])
def test_an_async_hook_of_a_replicas_child_is_refused(hook):
    async def nobody_awaits_it(*args) -> None:
        """Nothing."""

    def child() -> CpuReferenceEngine:
        engine = CpuReferenceEngine(1)
        setattr(engine, hook, nobody_awaits_it)
        return engine

    engine = ReplicaEngine(child, max_sessions=1)
    with pytest.raises((EngineContractError, RuntimeError), match="not async def"):
        engine.attach(SessionInit("a", {}))
        engine.step({"a": {}})
        engine.finalize(["a"])
        engine.detach("a")
