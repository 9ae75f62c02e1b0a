"""The DEFERRED side of a batched engine: from batches that HOT has made to results."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from .contract import StepResult
from .errors import EngineContractError, describe
from .lanes import DONE, Completion, Lanes, error_of, submit
from .rows import Row
from .stages import Stage, StageBatch, check_outputs, run_stages

logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class BatchDecode:
    """A batch whose HOT work is done or under way, and its DEFERRED work once that was started."""

    batch: StageBatch
    hot_done: Completion
    done: Completion = DONE


class BatchDecoder:
    """Runs DEFERRED stages and makes results of their outputs.

    In a pipeline it holds one batch back, which the next step decodes while HOT makes the next one.

    Args:
        stages: the DEFERRED stages.
        rows: session id -> row, of the engine.
        model_name: names the model in errors.
    """

    def __init__(self, stages: list[Stage], rows: Mapping[str, Row], model_name: str = "the model") -> None:
        self._stages = stages
        self._rows = rows
        self._model_name = model_name
        self._has_output = False  # whether the model has ever made one
        self._in_flight: BatchDecode | None = None
        self._salvaged: list[StepResult] = []  # decoded in a step that failed afterwards

    def start(self, lanes: Lanes, batch: StageBatch, hot_done: Completion) -> BatchDecode:
        """Begin to decode a batch once its HOT work has ended."""
        work = partial(_run_and_check, self._stages, batch)
        return BatchDecode(batch, hot_done, submit(lanes.deferred, work, after=(hot_done,)))

    def hold(self, batch: StageBatch, hot_done: Completion) -> None:
        """Keep a batch in flight until :meth:`start_in_flight`."""
        self._in_flight = BatchDecode(batch, hot_done)

    def start_in_flight(self, lanes: Lanes) -> BatchDecode | None:
        """Begin to decode the batch in flight, if there is one."""
        held, self._in_flight = self._in_flight, None
        return None if held is None else self.start(lanes, held.batch, held.hot_done)

    def finish(self, lanes: Lanes, decode: BatchDecode, failures: dict[str, BaseException]) -> None:
        """Wait for DEFERRED. If it failed, repeat it by halves, so that only the culprits lose their chunk."""
        error = error_of(decode.done)
        batch = decode.batch
        if error is None:
            if not self._has_output:
                self._check_first_output(batch, failures)
            if batch.finished:
                self._finish_rows(batch, failures)
            return
        batch.outputs.clear()
        rows = batch.rows_in_order()
        if len(rows) == 1:
            self._lose_chunk(str(batch.slots[rows[0]]), error, failures)
            return
        for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
            part = self.start(lanes, batch.part(half), decode.hot_done)
            self.finish(lanes, part, failures)
            batch.outputs.update(part.batch.outputs)
            batch.finished |= part.batch.finished

    def salvage(self, lanes: Lanes, decode: BatchDecode, began: float) -> None:
        """Keep the chunks of a batch whose step failed in HOT; the next step returns them."""
        lost: dict[str, BaseException] = {}
        self.finish(lanes, decode, lost)
        if lost:
            logger.debug("chunks lost with the failed step: %s", {key: describe(error) for key, error in lost.items()})
        self._salvaged.extend(step_results(decode.batch, began))

    def take_salvaged(self) -> list[StepResult]:
        """Results of steps that failed after their DEFERRED."""
        salvaged, self._salvaged = self._salvaged, []
        return salvaged

    def discard(self, row: Row) -> None:
        """Drop what is decoded or in flight of a row."""
        if self._in_flight is not None:
            self._in_flight.batch.drop(row.index, row.session_id)
        self._salvaged = [result for result in self._salvaged if result.session_id != row.session_id]

    def _check_first_output(self, batch: StageBatch, failures: dict[str, BaseException]) -> None:
        """Fail all sessions while the model has never made an output; later it may make fewer than it has sessions."""
        self._has_output = bool(batch.outputs)
        if self._has_output:
            return
        for index in batch.rows_in_order():
            session_id = str(batch.slots[index])
            what = f"the stages of {self._model_name} filled no batch.outputs[{session_id!r}] (row {index})"
            expected = "the last stage sets a chunk for every session of the batch"
            self._lose_chunk(session_id, EngineContractError(f"{what}: {expected}"), failures)

    def _finish_rows(self, batch: StageBatch, failures: dict[str, BaseException]) -> None:
        """Stop stepping the rows whose last chunk this batch holds, and drop what HOT has made of their next one."""
        for index in batch.finished:
            session_id = batch.slots.get(index)
            if session_id is None:
                continue
            if session_id not in batch.outputs:
                error = EngineContractError(f"batch.finished has row {index}, batch.outputs has no {session_id!r}")
                self._lose_chunk(session_id, error, failures)
                continue
            self._rows[session_id].finished = True
            if self._in_flight is not None:
                self._in_flight.batch.drop(index, session_id)

    def _lose_chunk(self, session_id: str, error: BaseException, failures: dict[str, BaseException]) -> None:
        failures[session_id] = error
        self._rows[session_id].finished = False  # if it was the last chunk, the next one takes its place


def _run_and_check(stages: list[Stage], batch: StageBatch) -> None:
    run_stages(stages, batch)
    check_outputs(batch)


def step_results(batch: StageBatch, began: float) -> list[StepResult]:
    """The outputs of a batch in row order, with the time since ``began`` (``perf_counter``) as ``step_ms``."""
    outputs, finished = batch.outputs, batch.finished
    step_ms = (time.perf_counter() - began) * 1000.0
    results = [
        StepResult(session_id, outputs[session_id], {"step_ms": step_ms})
        for session_id in batch.slots.values()
        if session_id in outputs
    ]
    if finished:
        last = {batch.slots.get(row) for row in finished}
        for result in results:
            result.last = result.session_id in last
    return results
