from __future__ import annotations

import dataclasses
import inspect
import math

import numpy as np
import pytest

from realtime_engine import (
    AdmissionError,
    ComposedEngine,
    EngineManifest,
    RealtimeInterface,
    ReplicaEngine,
    SessionInit,
    StepResult,
)
from realtime_engine.core import contract
from realtime_engine.examples import CpuReferenceEngine, CpuStageModel
from realtime_engine.testing import ScriptedEngine


def test_manifest_fields_and_defaults_are_those_of_the_design():
    fields = {field.name: field.default for field in dataclasses.fields(EngineManifest)}
    assert list(fields) == [
        "max_sessions",
        "chunk_shape",
        "rate_hz",
        "frames_per_chunk",
        "input_latency_chunks",
        "pipeline_depth_chunks",
    ]
    assert fields.pop("max_sessions") is dataclasses.MISSING
    assert list(fields.values()) == [(), 60.0, 1, 1, 1]


def test_manifest_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        EngineManifest(1).max_sessions = 2


@pytest.mark.parametrize("given", [0, -1, 1.5, "2", None, True, math.inf])
def test_max_sessions_must_be_a_count(given):
    with pytest.raises(ValueError, match="max_sessions"):
        EngineManifest(given)


@pytest.mark.parametrize("given", [0, -1.0, math.inf, -math.inf, math.nan, "60", None, True])
def test_rate_must_be_finite_and_positive(given):
    with pytest.raises(ValueError, match="rate_hz"):
        EngineManifest(1, rate_hz=given)


@pytest.mark.parametrize("given", [0, -2, 1.0, None])
def test_pipeline_depth_must_be_one_or_more(given):
    with pytest.raises(ValueError, match="pipeline_depth_chunks"):
        EngineManifest(1, pipeline_depth_chunks=given)


@pytest.mark.parametrize(("name", "given"), [("frames_per_chunk", 0), ("input_latency_chunks", -1)])
def test_the_other_counts_are_checked_too(name, given):
    with pytest.raises(ValueError, match=name):
        EngineManifest(1, **{name: given})


@pytest.mark.parametrize("given", [[2, 4], (0,), (2, -1), (1.0,), None, (True,)])
def test_chunk_shape_must_be_a_tuple_of_sizes(given):
    with pytest.raises(ValueError, match="chunk_shape"):
        EngineManifest(1, given)


def test_the_error_says_what_was_given():
    with pytest.raises(ValueError, match="-7"):
        EngineManifest(-7)


@pytest.mark.parametrize(("latency", "depth", "wanted"), [(1, 1, 1), (1, 2, 2), (0, 1, 0), (3, 2, 4)])
def test_action_to_output_chunks(latency, depth, wanted):
    manifest = EngineManifest(1, input_latency_chunks=latency, pipeline_depth_chunks=depth)
    assert manifest.action_to_output_chunks == wanted


def test_an_integer_rate_is_a_rate():
    assert EngineManifest(1, rate_hz=30).rate_hz == 30


def test_session_init_and_step_result_defaults():
    assert SessionInit("a").context == {}
    assert StepResult("a", 1).stats == {}
    assert SessionInit("a").context is not SessionInit("b").context


def test_admission_error_can_be_imported_from_the_contract():
    assert contract.AdmissionError is AdmissionError


@pytest.mark.parametrize(
    "make",
    [
        lambda: ComposedEngine(CpuStageModel()),
        lambda: ReplicaEngine(CpuReferenceEngine, max_sessions=2),
        CpuReferenceEngine,
        ScriptedEngine,
    ],
)
def test_every_engine_answers_level_one(make):
    engine = make()
    assert isinstance(engine, RealtimeInterface)
    for hook in ("manifest", "attach", "step", "finalize", "detach"):
        assert not inspect.iscoroutinefunction(getattr(engine, hook))


def test_numpy_numbers_are_numbers():
    manifest = EngineManifest(np.int64(4), rate_hz=np.float32(30), frames_per_chunk=np.int32(2))
    assert (manifest.max_sessions, manifest.frames_per_chunk) == (4, 2)
