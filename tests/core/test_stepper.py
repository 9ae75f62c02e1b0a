"""How the stepper calls an engine and attributes failures to sessions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from realtime_engine import Chunk, EngineContractError, StepFailure, StepResult
from realtime_engine.core.loglimit import LogLimiter
from realtime_engine.core.monitor import ServeMonitor
from realtime_engine.core.session import Session
from realtime_engine.core.stepper import Outcome, Stepper, StepperOptions, call_hook
from realtime_engine.testing import ManualClock


class Bench:
    """A stepper over a scripted ``step`` function."""

    def __init__(self, step: Callable[[Mapping[str, Any]], Any], ids: str = "abcd", depth: int = 1) -> None:
        self.calls: list[list[str]] = []
        self.finalized: list[list[str]] = []
        self.chunks: list[Chunk] = []
        self.stop = False
        self.sessions = {session_id: Session(session_id, {}, epoch=1, seq=0) for session_id in ids}
        self.monitor = ServeMonitor()
        self.clock = ManualClock()
        self._step = step
        self.stepper = Stepper(
            self,  # type: ignore[arg-type]
            self.sessions,
            self,
            StepperOptions(
                self.clock, self.monitor, LogLimiter(logging.getLogger("stepper-under-test"), self.clock), depth
            ),
        )

    @property
    def interrupted(self) -> bool:
        return self.stop

    def send_chunks(self, chunks: list[Chunk]) -> None:
        self.chunks.extend(chunks)

    def awaits_chunks(self, session: Session) -> bool:
        return False

    def step(self, due: Mapping[str, Any]) -> Any:
        self.calls.append(list(due))
        return self._step(due)

    def finalize(self, ids: list[str]) -> None:
        self.finalized.append(ids)

    def run(self, ids: str | None = None) -> Outcome:
        outcome = Outcome()
        due = {session_id: {} for session_id in (self.sessions if ids is None else ids)}
        self.stepper.step(due, outcome)
        self.stepper.finalize(outcome)
        return outcome

    @property
    def came(self) -> list[tuple[str, int]]:
        return [(chunk.session_id, chunk.seq) for chunk in self.chunks]


def answer(due: Mapping[str, Any]) -> list[StepResult]:
    return [StepResult(session_id, session_id.upper()) for session_id in due]


def failing_for(*culprits: str, error: BaseException | None = None) -> Callable[[Mapping[str, Any]], Any]:
    def step(due: Mapping[str, Any]) -> list[StepResult]:
        if any(culprit in due for culprit in culprits):
            raise error or ValueError("bad")
        return answer(due)

    return step


def test_one_call_when_all_is_well() -> None:
    bench = Bench(answer)
    outcome = bench.run()
    assert bench.calls == [["a", "b", "c", "d"]]
    assert bench.came == [("a", 0), ("b", 0), ("c", 0), ("d", 0)]
    assert bench.finalized == [["a", "b", "c", "d"]]
    assert not outcome.failures


def test_halves_lead_to_the_culprit_and_the_others_advance_once() -> None:
    bench = Bench(failing_for("c"))
    outcome = bench.run()
    assert bench.calls == [["a", "b", "c", "d"], ["a", "b"], ["c", "d"], ["c"], ["d"]]
    assert bench.came == [("a", 0), ("b", 0), ("d", 0)]
    assert list(outcome.failures) == ["c"]
    assert bench.finalized == [["a", "b", "d"]]


def test_several_culprits_are_all_found() -> None:
    bench = Bench(failing_for("a", "d", "g"), ids="abcdefgh")
    outcome = bench.run()
    assert sorted(outcome.failures) == ["a", "d", "g"]
    assert sorted(bench.came) == [(session_id, 0) for session_id in "bcefh"]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration()])
def test_no_exception_of_any_kind_leaves_the_stepper(error: BaseException) -> None:
    bench = Bench(failing_for("b", error=error))
    outcome = bench.run()
    assert list(outcome.failures) == ["b"] and outcome.failures["b"] is error
    assert len(bench.chunks) == 3


def test_an_engine_that_fails_for_all_sessions_costs_a_bounded_number_of_calls() -> None:
    ids = "".join(chr(ord("a") + number) for number in range(16))
    bench = Bench(failing_for(*ids), ids=ids)
    outcome = bench.run()
    assert sorted(outcome.failures) == list(ids)
    assert len(bench.calls) == 2 * 16 - 1


def test_a_step_failure_names_the_culprits_and_needs_no_search() -> None:
    def step(due: Mapping[str, Any]) -> list[StepResult]:
        raise StepFailure({"b": OSError("gone")}, answer({"a": {}}))

    bench = Bench(step, ids="ab")
    outcome = bench.run()
    assert bench.calls == [["a", "b"]]
    assert bench.came == [("a", 0)]
    assert list(outcome.failures) == ["b"] and list(outcome.emitted) == ["a"]


@pytest.mark.parametrize(
    "returned",
    [None, 7, "text", {"a": 1}, iter(()), [None], [("a", 1)], ["a"]],
    ids=["none", "int", "str", "dict", "iterator", "list-of-none", "list-of-tuples", "list-of-str"],
)
def test_a_wrong_return_type_is_a_failure(returned: Any) -> None:
    bench = Bench(lambda due: returned, ids="a")
    outcome = bench.run()
    assert isinstance(outcome.failures["a"], EngineContractError)
    assert not bench.chunks


def test_a_wrong_item_leaves_no_gap_in_the_others_numbers() -> None:
    rubbish: list[Any] = ["junk"]

    def step(due: Mapping[str, Any]) -> list[Any]:
        return answer(due) + ([rubbish.pop()] if rubbish else [])

    bench = Bench(step, ids="ab")
    bench.run()
    bench.run()
    for session_id in "ab":
        numbers = [seq for who, seq in bench.came if who == session_id]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) == 2


def test_a_tuple_of_results_is_accepted() -> None:
    bench = Bench(lambda due: tuple(answer(due)), ids="ab")
    assert not bench.run().failures
    assert len(bench.chunks) == 2


def test_async_def_step_is_a_failure_and_its_coroutine_is_closed() -> None:
    async def step(due: Mapping[str, Any]) -> list[StepResult]:
        return answer(due)

    bench = Bench(step, ids="ab")
    outcome = bench.run()
    assert {type(error) for error in outcome.failures.values()} == {EngineContractError}


def test_call_hook_names_the_async_hook() -> None:
    async def attach(init: object) -> None: ...

    with pytest.raises(EngineContractError, match="attach.*async def"):
        call_hook(attach, None)


def test_a_finalize_that_fails_is_repeated_for_each_session() -> None:
    bench = Bench(answer)
    tried: list[list[str]] = []

    def finalize(ids: list[str]) -> None:
        tried.append(ids)
        if "b" in ids:
            raise ValueError("bad")

    bench.finalize = finalize  # type: ignore[method-assign]
    outcome = bench.run()
    assert list(outcome.failures) == ["b"]
    assert tried == [["a", "b", "c", "d"], ["a"], ["b"], ["c"], ["d"]]


def test_finalize_is_not_called_when_nothing_left() -> None:
    bench = Bench(lambda due: [])
    bench.run()
    assert bench.finalized == []


def test_a_stop_ends_the_search() -> None:
    bench = Bench(failing_for("a"))
    bench.stop = True
    bench.run()
    assert len(bench.calls) == 1


def test_an_empty_step_that_always_fails_ends() -> None:
    """A pipeline whose sessions are all paused is flushed by empty steps; a dead engine refuses those, too."""
    bench = Bench(failing_for(), ids="a", depth=2)
    bench.run()
    assert bench.stepper.primed

    def dead(due: Mapping[str, Any]) -> list[StepResult]:
        raise RuntimeError("dead device")

    bench._step = dead
    outcome = Outcome()
    bench.stepper.step({}, outcome, flush=True)
    assert len(bench.calls) < 10
    assert not outcome.failures


def test_an_engine_that_empties_due_and_fails_is_contained() -> None:
    def rude(due: Any) -> list[StepResult]:
        due.clear()
        raise RuntimeError("rude")

    bench = Bench(rude, ids="ab")
    outcome = bench.run()
    assert set(outcome.failures) <= {"a", "b"}
    assert len(bench.calls) < 10


class Pipe:
    """A pipeline of any depth over one list: a chunk leaves ``depth - 1`` steps after its own."""

    def __init__(self, depth: int, culprit: str = "") -> None:
        self.line: list[list[str]] = [[] for _ in range(depth - 1)]
        self.culprit = culprit

    def __call__(self, due: Mapping[str, Any]) -> list[StepResult]:
        if self.culprit in due:
            raise ValueError("bad")
        self.line.append(list(due))
        return answer(dict.fromkeys(self.line.pop(0), {}))


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_a_search_in_a_pipeline_loses_no_chunk(depth: int) -> None:
    pipe = Pipe(depth)
    bench = Bench(pipe, depth=depth)
    for _ in range(3):
        bench.run()
    pipe.culprit = "c"
    outcome = bench.run()
    pipe.culprit = ""
    for _ in range(depth):
        bench.run()
    assert "c" in outcome.failures
    for session_id in "abd":
        assert [seq for who, seq in bench.came if who == session_id] == list(range(5))
    assert [seq for who, seq in bench.came if who == "c"] == list(range(4))


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_the_begin_of_a_chunk_in_a_pipeline_is_that_of_its_own_step(depth: int) -> None:
    bench = Bench(Pipe(depth), ids="a", depth=depth)
    begins = []
    for _ in range(6):
        begins.append(bench.clock.now_ns())
        bench.run()
        bench.clock.advance(0.5)
    assert [chunk.stamps.step_begin for chunk in bench.chunks] == begins[: len(bench.chunks)]
    assert len(bench.chunks) == 6 - depth + 1


def test_a_step_failure_without_a_known_session_leads_to_a_search() -> None:
    def step(due: Mapping[str, Any]) -> list[StepResult]:
        if "b" in due:
            raise StepFailure({"ghost": OSError("gone")})
        return answer(due)

    bench = Bench(step, ids="abc")
    outcome = bench.run()
    assert list(outcome.failures) == ["b"]
    assert sorted(who for who, _ in bench.came) == ["a", "c"]
