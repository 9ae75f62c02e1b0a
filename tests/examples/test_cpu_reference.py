from __future__ import annotations

import numpy as np
import pytest

from realtime_engine import AdmissionError, EngineManifest, SessionInit
from realtime_engine.examples import CpuReferenceEngine


def attached(*names: str, **context) -> CpuReferenceEngine:
    engine = CpuReferenceEngine()
    for name in names:
        engine.attach(SessionInit(name, context))
    return engine


def test_manifest():
    assert CpuReferenceEngine().manifest() == EngineManifest(4, (2, 4, 4, 3), frames_per_chunk=2)
    assert CpuReferenceEngine(2, (3, 8, 8, 3)).manifest() == EngineManifest(2, (3, 8, 8, 3), frames_per_chunk=3)


def test_a_chunk_depends_on_seed_age_and_conditioning():
    def first(seed: int, **conditioning) -> bytes:
        (result,) = attached("a", seed=seed).step({"a": conditioning})
        return result.output.tobytes()

    engine = attached("a", seed=1)
    chunks = [engine.step({"a": {}})[0].output.tobytes() for _ in range(3)]
    assert len(set(chunks)) == 3
    assert first(1) == chunks[0]
    assert len({first(1), first(2), first(1, move=1)}) == 3


def test_without_a_seed_sessions_differ_by_their_name():
    first, second = attached("a", "b").step({"a": {}, "b": {}})
    assert not np.array_equal(first.output, second.output)


def test_results_in_order_of_attach_with_step_ms_and_unknown_ids_ignored():
    engine = attached("a", "b", "c")
    results = engine.step({"c": {}, "a": {}, "unknown": {}})
    assert [result.session_id for result in results] == ["a", "c"]
    assert all(result.stats["step_ms"] >= 0 for result in results)


def test_admission():
    engine = attached("a", "b", "c", "d")
    engine.attach(SessionInit("a"))
    with pytest.raises(AdmissionError):
        engine.attach(SessionInit("e"))
    engine.detach("a")
    engine.detach("a")
    assert engine.active_sessions == 3
    engine.attach(SessionInit("e"))


def test_a_bad_seed_takes_no_place():
    engine = CpuReferenceEngine(1)
    with pytest.raises(ValueError):
        engine.attach(SessionInit("a", {"seed": "no number"}))
    engine.attach(SessionInit("b"))
