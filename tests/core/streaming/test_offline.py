from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping

import pytest

from realtime_engine.core.streaming import (
    LocalStageActor,
    StreamingEdgeSpec,
    StreamingLastOutput,
    StreamingPipelineOrchestrator,
    StreamingPipelineSpec,
    StreamingStageInvocation,
    StreamingStageSpec,
    run_offline,
)
from realtime_engine.core.streaming.errors import SessionActiveError, SessionEndedError, UnknownSessionError

from .workers import TIMEOUT_S

SPEC = StreamingPipelineSpec(
    stages=(
        StreamingStageSpec("double", frozenset({"x", "gain"}), frozenset({"y"})),
        StreamingStageSpec("sum", frozenset({"y"}), frozenset({"z", "last"})),
    ),
    edges=(
        StreamingEdgeSpec("x", "double"),
        StreamingEdgeSpec("gain", "double", kind="latest"),
        StreamingEdgeSpec("y", "sum", source_stage="double"),
    ),
    output_artifacts=frozenset({"z", "last"}),
)


class Summing:
    def __init__(self) -> None:
        self.total = 0
        self.met = threading.Barrier(2)
        self.meet = False
        self.fails_at: int | None = None
        self.ends_at: int | None = None

    def double(self, work: StreamingStageInvocation) -> Mapping[str, object]:
        if self.meet and work.key.sequence_id == 1:
            self.met.wait(TIMEOUT_S)
        return {"y": work.inputs["x"] * work.inputs["gain"]}  # type: ignore[operator]

    def sum(self, work: StreamingStageInvocation) -> Mapping[str, object]:
        if self.meet and work.key.sequence_id == 0:
            self.met.wait(TIMEOUT_S)
        if work.key.sequence_id == self.fails_at:
            raise ValueError("cursed")
        self.total = 0 if work.is_first else self.total
        self.total += work.inputs["y"]  # type: ignore[operator]
        z = StreamingLastOutput(self.total) if work.key.sequence_id == self.ends_at else self.total
        return {"z": z, "last": work.is_last}


@pytest.fixture
def model() -> Summing:
    return Summing()


@pytest.fixture
def pipeline(model: Summing) -> Iterator[StreamingPipelineOrchestrator]:
    with StreamingPipelineOrchestrator(
        SPEC, {"double": LocalStageActor(model.double), "sum": LocalStageActor(model.sum)}
    ) as made:
        yield made


def feed(count: int) -> Iterator[dict[str, object]]:
    for number in range(count):
        yield {"x": number}


def test_outputs_come_in_order_as_a_plain_loop_makes_them(pipeline: StreamingPipelineOrchestrator) -> None:
    for count in (1, 2, 50):
        outputs = list(run_offline(pipeline, feed(count), controls={"gain": 2}))
        sums = [(seq, value) for seq, artifact, value in outputs if artifact == "z"]
        assert sums == [(number, number * (number + 1)) for number in range(count)]
        lasts = [(seq, value) for seq, artifact, value in outputs if artifact == "last"]
        assert lasts == [(number, number == count - 1) for number in range(count)]


def test_stages_overlap(pipeline: StreamingPipelineOrchestrator, model: Summing) -> None:
    model.meet = True  # the second chunk is in the first stage while the first chunk is in the second
    assert len(list(run_offline(pipeline, feed(3), controls={"gain": 1}))) == 6


def test_nothing_in_is_nothing_out(pipeline: StreamingPipelineOrchestrator) -> None:
    assert list(run_offline(pipeline, [], controls={"gain": 1})) == []


def test_little_is_taken_ahead(pipeline: StreamingPipelineOrchestrator) -> None:
    taken: list[int] = []

    def counted() -> Iterator[dict[str, object]]:
        for number in range(1000):
            taken.append(number)
            yield {"x": number}

    outputs = run_offline(pipeline, counted(), controls={"gain": 1})
    for _ in range(20):
        next(outputs)
    assert len(taken) < 20
    outputs.close()  # type: ignore[attr-defined]
    with pytest.raises(UnknownSessionError):
        pipeline.status("offline")


def test_a_stage_that_fails_ends_it_after_the_outputs_before(
    pipeline: StreamingPipelineOrchestrator, model: Summing
) -> None:
    model.fails_at = 3
    outputs = run_offline(pipeline, feed(10), controls={"gain": 1})
    assert [next(outputs).sequence_id for _ in range(6)] == [0, 0, 1, 1, 2, 2]
    with pytest.raises(ValueError, match="cursed"):
        next(outputs)
    model.fails_at = None
    assert len(list(run_offline(pipeline, feed(2), controls={"gain": 1}))) == 4


@pytest.mark.parametrize("first", [0, 2])
def test_inputs_that_fail_end_it(pipeline: StreamingPipelineOrchestrator, first: int) -> None:
    def broken() -> Iterator[dict[str, object]]:
        yield from feed(first)
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        list(run_offline(pipeline, broken(), controls={"gain": 1}))


def test_inputs_of_another_name_are_refused(pipeline: StreamingPipelineOrchestrator) -> None:
    with pytest.raises(ValueError, match="'w' is not an input"):
        list(run_offline(pipeline, [{"w": 1}], controls={"gain": 1}))


def test_its_session_id_must_be_free(pipeline: StreamingPipelineOrchestrator) -> None:
    pipeline.create_session("offline")
    with pytest.raises(SessionActiveError):
        next(run_offline(pipeline, feed(1)))
    assert len(list(run_offline(pipeline, feed(1), controls={"gain": 1}, session_id="other"))) == 2


def test_a_run_that_was_left_does_not_meddle_with_the_next(pipeline: StreamingPipelineOrchestrator) -> None:
    gate = threading.Event()

    def slow() -> Iterator[dict[str, object]]:
        yield from feed(2)
        assert gate.wait(TIMEOUT_S)
        yield from feed(2)

    first = run_offline(pipeline, slow(), controls={"gain": 1})
    next(first)
    (feeder,) = (thread for thread in threading.enumerate() if thread.name == "feed offline")
    first.close()  # type: ignore[attr-defined]
    second = run_offline(pipeline, feed(10), controls={"gain": 1})
    next(second)
    gate.set()  # the first run's inputs go on, and its session's id is another's now
    feeder.join(TIMEOUT_S)
    assert not feeder.is_alive()
    assert len(list(second)) == 19


@pytest.mark.parametrize("error", [OSError("the disk is full"), SessionEndedError("of another pipeline")])
def test_inputs_before_an_error_are_completed(pipeline: StreamingPipelineOrchestrator, error: Exception) -> None:
    def broken() -> Iterator[dict[str, object]]:
        yield from feed(6)
        raise error

    outputs = []
    with pytest.raises(type(error), match=str(error)):
        for output in run_offline(pipeline, broken(), controls={"gain": 1}):
            outputs.append(output)  # noqa: PERF402 - those before the error
    assert [value for _, artifact, value in outputs if artifact == "z"] == [0, 1, 3, 6, 10, 15]


def test_inputs_may_run_event_loops_and_other_pipelines() -> None:
    async def fetch(number: int) -> dict[str, object]:
        return {"x": number}

    def made() -> StreamingPipelineOrchestrator:
        model = Summing()
        return StreamingPipelineOrchestrator(
            SPEC, {"double": LocalStageActor(model.double), "sum": LocalStageActor(model.sum)}
        )

    with made() as first, made() as second:
        fetched = (asyncio.run(fetch(number)) for number in range(4))
        sums = (output.value for output in run_offline(first, fetched, controls={"gain": 1}) if output.artifact == "z")
        chained = run_offline(second, ({"x": total} for total in sums), controls={"gain": 1})
        assert [output.value for output in chained if output.artifact == "z"] == [0, 1, 4, 10]


def test_what_is_no_mapping_ends_it_with_an_error(pipeline: StreamingPipelineOrchestrator) -> None:
    with pytest.raises(ValueError, match="inputs must be a mapping"):
        list(run_offline(pipeline, [{"x": 1}, None, {"x": 2}], controls={"gain": 1}))


async def test_it_refuses_to_block_an_event_loop(pipeline: StreamingPipelineOrchestrator) -> None:
    with pytest.raises(RuntimeError, match="inside an event loop use push_inputs"):
        next(run_offline(pipeline, feed(1)))
    pipeline.create_session("offline")  # nothing was begun


@pytest.mark.parametrize("more", [0, 1, 2, 5, None])
def test_a_last_output_ends_the_run_before_the_inputs_do(
    pipeline: StreamingPipelineOrchestrator, model: Summing, more: int | None
) -> None:
    """Inputs that follow may be none, some that wait for room, or some that never come."""
    model.ends_at, never = 2, threading.Event()

    def inputs() -> Iterator[Mapping[str, object]]:
        for _ in range(4 if more is None else 3 + more):  # an input is pushed once the next one is read
            yield {"x": 1}
        if more is None:
            never.wait(TIMEOUT_S)

    outputs = list(run_offline(pipeline, inputs(), controls={"gain": 1}))
    assert [(seq, value) for seq, artifact, value in outputs if artifact == "z"] == [(0, 1), (1, 2), (2, 3)]
    assert {seq for seq, _, _ in outputs} == {0, 1, 2} and outputs[-1].last
    assert pipeline.health().session_count == 0
    never.set()
