"""One suite over every engine: the conformance checks, the lifecycle by hand, and the answers through the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from realtime_engine import (
    Action,
    ActiveChanged,
    AdmissionError,
    Attach,
    Attached,
    Chunk,
    ComposedEngine,
    Detach,
    Detached,
    RealtimeInterface,
    Rejected,
    ReplicaEngine,
    Reset,
    ResetDone,
    SessionInit,
    SetActive,
)
from realtime_engine.examples import CpuReferenceEngine, CpuStageModel
from realtime_engine.testing import EngineCase, FaultPlan, FaultyModel, check_engine
from tests.serving import COMPOSED_OPTIONS, Served

Maker = Callable[[int], RealtimeInterface]


def _composed(options: dict[str, Any]) -> Maker:
    return lambda size: ComposedEngine(CpuStageModel(max_sessions=size), **options)


def _replica(options: dict[str, Any]) -> Maker:
    return lambda size: ReplicaEngine(lambda: _composed(options)(1), max_sessions=size)


ENGINES: dict[str, Maker] = {
    **{name: _composed(options) for name, options in COMPOSED_OPTIONS.items()},
    "replica": _replica({"pipeline": False}),
    "replica-pipelined": _replica({"pipeline": True}),
    "reference": lambda size: CpuReferenceEngine(max_sessions=size),
}
HEAVY = ("prompt", "a castle", "a desert")


@pytest.fixture(params=ENGINES.values(), ids=ENGINES.keys())
def make(request: pytest.FixtureRequest) -> Maker:
    maker: Maker = request.param
    return maker


@pytest.fixture
def full(make: Maker) -> Iterator[RealtimeInterface]:
    """Three places, all taken."""
    engine = make(3)
    for number, name in enumerate("abc"):
        engine.attach(SessionInit(name, {"seed": number + 1}))
    yield engine


def _run(engine: Any, steps: int, *names: str) -> dict[str, list[Any]]:
    """Step and flush; whatever came out."""
    came: dict[str, list[Any]] = {name: [] for name in names}
    depth = engine.manifest().pipeline_depth_chunks
    for due in [dict.fromkeys(names, {})] * steps + [{}] * (depth - 1):
        for result in engine.step(due):
            came[result.session_id].append(result.output)
    return came


# -- the conformance suite


def test_the_engine_conforms(make: Maker) -> None:
    assert len(check_engine(EngineCase(make_engine=make, heavy=HEAVY))) >= 12


def test_the_engine_is_the_protocol(make: Maker) -> None:
    assert isinstance(make(1), RealtimeInterface)


# -- attach and detach


def test_attach_twice_changes_nothing(full: Any, make: Maker) -> None:
    _run(full, 2, "a")
    full.attach(SessionInit("a", {"seed": 77}))
    fresh = make(3)
    fresh.attach(SessionInit("a", {"seed": 1}))
    wanted = _run(fresh, 5, "a")["a"][2:]
    got = _run(full, 3, "a")["a"]
    assert all(np.array_equal(left, right) for left, right in zip(got, wanted, strict=True))


def test_attach_at_capacity_raises_and_changes_nothing(full: Any) -> None:
    with pytest.raises(AdmissionError):
        full.attach(SessionInit("d", {}))
    full.attach(SessionInit("a", {}))  # attached already: no error at capacity either
    assert set(_run(full, 1, "a", "b", "c", "d")) == {"a", "b", "c", "d"}
    assert full.active_sessions == 3


def test_detach_is_idempotent_and_makes_room(full: Any) -> None:
    for _ in range(3):
        full.detach("b")
    full.detach("unknown")
    assert full.active_sessions == 2
    full.attach(SessionInit("d", {"seed": 9}))
    came = _run(full, 2, "a", "b", "c", "d")
    assert {name: len(chunks) for name, chunks in came.items()} == {"a": 2, "b": 0, "c": 2, "d": 2}


def test_a_hundred_sessions_in_one_row(make: Maker) -> None:
    engine: Any = make(1)
    for life in range(100):
        engine.attach(SessionInit(f"s{life}", {"seed": life}))
        assert len(_run(engine, 1, f"s{life}")[f"s{life}"]) == 1
        engine.detach(f"s{life}")
    assert engine.active_sessions == 0


def test_detach_before_the_first_step(make: Maker) -> None:
    engine: Any = make(1)
    engine.attach(SessionInit("a", {"seed": 1}))
    engine.detach("a")
    engine.attach(SessionInit("b", {"seed": 2}))
    assert len(_run(engine, 1, "b")["b"]) == 1


# -- step


def test_step_ignores_unknown_ids_and_leaves_the_absent_where_they_are(full: Any) -> None:
    assert len(_run(full, 1, "a", "ghost")["ghost"]) == 0
    before = _run(full, 1, "b")["b"]
    assert len(before) == 1


def test_results_come_in_row_order_whatever_the_order_of_due(full: Any) -> None:
    orders = []
    for due in ("cba", "bca", "acb"):
        full.step(dict.fromkeys(due, {}))
        orders.append([result.session_id for result in full.step(dict.fromkeys(due, {}))])
    assert orders == [["a", "b", "c"]] * 3


def test_the_lowest_free_row_is_used_first(full: Any) -> None:
    full.detach("a")
    full.detach("b")
    full.attach(SessionInit("x", {}))
    full.attach(SessionInit("y", {}))
    for _ in range(2):
        order = [result.session_id for result in full.step(dict.fromkeys("cyx", {}))]
    if isinstance(full, ComposedEngine):
        assert order == ["x", "y", "c"]
        assert [full.slot_of(name) for name in "xyc"] == [0, 1, 2]
    else:
        assert sorted(order) == ["c", "x", "y"]


def test_step_ms_is_in_the_statistics(full: Any) -> None:
    for _ in range(2):
        results = full.step(dict.fromkeys("abc", {}))
    assert len(results) == 3
    assert all(result.stats["step_ms"] >= 0.0 for result in results)


def test_step_without_sessions(make: Maker) -> None:
    engine = make(2)
    assert engine.step({}) == []
    assert engine.step({"ghost": {}}) == []
    assert engine.step({}) == []


def test_what_the_caller_passed_is_not_changed(full: Any) -> None:
    due = {"a": {"move": 1, "events": ("press",)}, "b": {}}
    full.step(due)
    full.step(due)
    assert due == {"a": {"move": 1, "events": ("press",)}, "b": {}}


def test_finalize_takes_any_ids(full: Any) -> None:
    full.finalize([])
    full.finalize(["a", "unknown"])


@pytest.mark.parametrize("options", COMPOSED_OPTIONS.values(), ids=COMPOSED_OPTIONS.keys())
def test_a_stage_failure_loses_no_resident(options: dict[str, Any]) -> None:
    plan = FaultPlan()
    engine = ComposedEngine(FaultyModel(CpuStageModel(max_sessions=2), plan), **options)
    pipelined = engine.pipelined
    engine.attach(SessionInit("a", {"seed": 1}))
    engine.attach(SessionInit("b", {"seed": 2}))
    engine.step(dict.fromkeys("ab", {}))
    plan.fail("hot", RuntimeError("oom"))
    with pytest.raises(RuntimeError, match="oom"):
        engine.step(dict.fromkeys("ab", {}))
    came = _run(engine, 3, "a", "b")
    assert {len(chunks) for chunks in came.values()} == {3 + pipelined}
    clean = _composed(options)(2)
    clean.attach(SessionInit("a", {"seed": 1}))
    clean.attach(SessionInit("b", {"seed": 2}))
    wanted = _run(clean, 4, "a", "b")
    for name in "ab":
        tail = wanted[name][-len(came[name]) :]
        assert all(np.array_equal(left, right) for left, right in zip(came[name], tail, strict=True))


# -- every message is answered by exactly one event, in order with the chunks


def _answers(served: Served, session_id: str) -> list[str]:
    return [type(event).__name__ for event in served.events(session_id)]


def test_every_message_has_one_answer_in_order(make: Maker) -> None:
    with Served(make(2)) as served:
        steps = [
            (Attach("a", {"seed": 1}), Attached),
            (Reset("a"), ResetDone),
            (SetActive("a", False), ActiveChanged),
            (SetActive("a", False), ActiveChanged),
            (Reset("a", {"seed": 2}), ResetDone),
            (SetActive("a", True), ActiveChanged),
            (Attach("a", {"seed": 3}), Attached),
            (Detach("a"), Detached),
            (Detach("a"), Detached),
            (Reset("a"), Rejected),
            (SetActive("a", True), Rejected),
            (Action("a", {"move": 1}), Rejected),
            (Attach("a", {"seed": 4}), Attached),
        ]
        for message, _ in steps:
            served.do(message)
            served.pump(2)
        assert _answers(served, "a") == [answer.__name__ for _, answer in steps]
        epochs = [event.epoch for event in served.events("a")]
        assert epochs == [1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 4]


def test_the_same_messages_in_one_round_have_the_same_answers(make: Maker) -> None:
    with Served(make(2)) as served:
        served.do(Attach("b"))
        served.do(Attach("a"), Reset("a"), Detach("a"), Detach("a"), Reset("a"), Attach("a"), Attach("a"))
        served.pump(2)
        assert _answers(served, "a") == [
            "Attached",
            "ResetDone",
            "Detached",
            "Detached",
            "Rejected",
            "Attached",
            "Attached",
        ]


def test_an_applied_action_has_no_answer(make: Maker) -> None:
    with Served(make(1)) as served:
        served.do(Attach("a"))
        served.do(*[Action("a", {"move": number}) for number in range(20)])
        served.pump(2)
        assert _answers(served, "a") == ["Attached"]


def test_events_and_chunks_share_one_order(make: Maker) -> None:
    """Between Attached and Detached every chunk bears the epoch that the events before it announced."""
    with Served(make(2)) as served:
        served.do(Attach("a", {"seed": 1}), Attach("b", {"seed": 2}))
        for round_number in range(30):
            served.do(Action("a", {"move": round_number}, action_id=round_number))
            if round_number % 4 == 1:
                served.do(Reset("a"))
            if round_number % 6 == 2:
                served.do(SetActive("a", False))
                served.do(SetActive("a", True))
        served.do(Detach("a"))
        served.pump(2)
        epoch, running = 0, False
        for item in served.items("a"):
            if isinstance(item, Chunk):
                assert running and item.epoch == epoch
            elif isinstance(item, (Attached, ResetDone)):
                epoch, running = item.epoch, True
            elif isinstance(item, ActiveChanged):
                running = item.active
            elif isinstance(item, Detached):
                running = False
        assert not running
        assert [chunk.seq for chunk in served.chunks("a")] == list(range(len(served.chunks("a"))))
        assert [chunk.seq for chunk in served.chunks("b")] == list(range(len(served.chunks("b"))))


def test_a_resident_keeps_every_chunk_while_others_come_and_go(make: Maker) -> None:
    with Served(make(3)) as served:
        served.do(Attach("resident", {"seed": 1}))
        served.pump(2)
        for life in range(40):
            served.do(Attach(f"guest{life}", {"seed": life}))
            served.do(Reset(f"guest{life}"))
            served.do(Detach(f"guest{life}"))
        served.pump()
        chunks = served.chunks("resident")
        alone: Any = make(1)
        alone.attach(SessionInit("resident", {"seed": 1}))
        wanted = _run(alone, len(chunks), "resident")["resident"]
        depth = alone.manifest().pipeline_depth_chunks
        assert len(chunks) == served.monitor.ticks - (depth - 1)
        assert all(np.array_equal(chunk.output, right) for chunk, right in zip(chunks, wanted, strict=True))


def test_the_served_chunks_are_those_of_an_engine_stepped_by_hand(make: Maker) -> None:
    with Served(make(1)) as served:
        served.do(Attach("a", {"seed": 5, "prompt": "a castle"}))
        served.pump(9)
        chunks = served.chunks("a")
    engine: Any = make(1)
    engine.attach(SessionInit("a", {"seed": 5, "prompt": "a castle"}))
    wanted = _run(engine, len(chunks), "a")["a"]
    assert all(np.array_equal(chunk.output, right) for chunk, right in zip(chunks, wanted, strict=True))
