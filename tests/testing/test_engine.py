from __future__ import annotations

import threading

import pytest

from realtime_engine import AdmissionError, SessionInit
from realtime_engine.testing import EngineCase, ScriptedChunk, ScriptedEngine, check_engine


def test_it_keeps_the_contract():
    check_engine(EngineCase(make_engine=ScriptedEngine))


def test_a_chunk_is_all_that_it_depends_on():
    engine = ScriptedEngine()
    engine.attach(SessionInit("a", {"seed": 1}))
    engine.step({"a": {}})
    (result,) = engine.step({"a": {"move": 1}})
    assert result.output == ScriptedChunk("a", {"seed": 1}, 1, {"move": 1})
    assert result.stats["step_ms"] == 0.0


def test_calls_are_remembered_in_order_with_their_thread():
    engine = ScriptedEngine()
    engine.attach(SessionInit("a"))
    engine.step({"a": {"n": 1}})
    engine.finalize(["a"])
    engine.detach("a")
    assert [(call.hook, call.argument) for call in engine.calls] == [
        ("attach", "a"),
        ("step", {"a": {"n": 1}}),
        ("finalize", ["a"]),
        ("detach", "a"),
    ]
    assert {call.thread for call in engine.calls} == {threading.get_ident()}
    assert engine.calls_of("step") == [{"a": {"n": 1}}]


def test_what_it_remembers_does_not_change_with_the_argument():
    engine, due = ScriptedEngine(), {"a": {"n": 1}}
    engine.attach(SessionInit("a"))
    engine.step(due)
    due["a"]["n"] = 2
    due["b"] = {}
    assert engine.calls_of("step") == [{"a": {"n": 1}}]


def test_admission():
    engine = ScriptedEngine(1, rate_hz=10)
    assert (engine.manifest().max_sessions, engine.manifest().rate_hz) == (1, 10)
    engine.attach(SessionInit("a"))
    with pytest.raises(AdmissionError):
        engine.attach(SessionInit("b"))
    assert engine.active_sessions == 1
