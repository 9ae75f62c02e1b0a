"""The batched engine: fixed rows, one lockstep batch, three lanes."""

from __future__ import annotations

import bisect
import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from .contract import AdmissionError, EngineManifest, SessionInit, StepResult
from .errors import EngineContractError, StepFailure, call_hook, describe, reraise_interrupt
from .lanes import (
    DONE,
    Completion,
    Lane,
    Lanes,
    cuda_lanes,
    cuda_torch,
    error_of,
    inline_lanes,
    late_lanes,
    submit,
    thread_lanes,
)
from .rows import Encodes, EncodeSkipBudget, Row, StepPlan, run_stages
from .stages import Stage, StageBatch, StageModel, check_outputs, checked_manifest, checked_stages, name_of
from .values import same_value

__all__ = ["ComposedEngine"]

logger = logging.getLogger(__name__)

_ABSENT = object()
_SUSPICIOUS_SILENCE = 30
_POLICIES = ("sit_out", "keep_running")


@dataclass(eq=False, slots=True)
class _InFlight:
    """A batch whose HOT work is done or under way and whose DEFERRED work is still to come."""

    batch: StageBatch
    hot_done: Completion


class ComposedEngine:
    """Drives a :class:`~realtime_engine.core.stages.StageModel`; Level 1 of the contract.

    Args:
        model: the model as stages.
        pipeline: let DEFERRED of chunk N-1 overlap HOT of chunk N, for one chunk of latency. ``None`` decides: yes when
            a CUDA device is there and the model has a DEFERRED stage.
        midrun_attach: whether a session may join while seeded ones run. ``False`` is for models that seed a cohort in
            one go; a later arrival gets :class:`AdmissionError`.
        lanes: ``"auto"`` uses CUDA streams where torch has a device, and runs everything on the stepping thread
            elsewhere. ``"thread"`` gives ENCODE, and DEFERRED of a pipeline, worker threads where there is no CUDA;
            with CUDA it feeds ENCODE's stream from a worker thread, so that an encode which waits for the device
            (``.item()``, a copy from pageable memory) or computes long on the host holds up nobody else. Settings that
            torch keeps for each thread (gradients, autocast) are then the stage's own business. ``"late"`` is for
            tests: everything on the stepping thread, and in a pipeline DEFERRED after the HOT beside which it may run,
            so that what HOT overwrites too early shows every time.

    Not thread-safe: the serve loop calls it from one thread.

    Raises:
        ValueError: no HOT stage, an unknown ``lanes`` or heavy policy.
        EngineContractError: the model, its manifest or a stage is not what it should be.
    """

    copies_conditioning = True

    def __init__(
        self,
        model: StageModel,
        *,
        pipeline: bool | None = None,
        midrun_attach: bool = True,
        lanes: Literal["auto", "thread", "late"] = "auto",
    ) -> None:
        if lanes not in ("auto", "thread", "late"):
            raise ValueError(f'lanes must be "auto", "thread" or "late", got {lanes!r}')
        self._model = model
        self._pipeline_choice = pipeline
        self._midrun_attach = midrun_attach
        self._lane_choice = lanes
        stages = checked_stages(model)
        self._hot = [stage for stage in stages if stage.lane is Lane.HOT]
        self._deferred = [stage for stage in stages if stage.lane is Lane.DEFERRED]
        self._encode = [stage for stage in stages if stage.lane is Lane.ENCODE]
        if not self._hot:
            raise ValueError(f"{name_of(model)}.stages() needs at least one stage with lane = Lane.HOT")
        self._read_optional_hooks(model)
        self._pipelined = self._decide_pipeline(pipeline)
        self._manifest = replace(checked_manifest(model), pipeline_depth_chunks=2 if self._pipelined else 1)

        size = self._manifest.max_sessions
        self._rows: dict[str, Row] = {}
        self._free = list(range(size))  # sorted: the lowest free row is taken first
        self._empty_slots: dict[int, str | None] = dict.fromkeys(range(size))
        self._pending: list[Row] = []
        self._encodes = Encodes(self._encode, self._empty_slots, sits_out=self._sits_out)
        self._seeded: Completion = DONE  # the latest seeding, which an encode must not overtake
        self._lanes: Lanes | None = None  # opened by the first step, on its thread
        self._in_flight: _InFlight | None = None
        self._silent_steps = 0
        self._salvaged: list[StepResult] = []  # decoded in a step that failed afterwards

    def _read_optional_hooks(self, model: StageModel) -> None:
        heavy_keys = getattr(model, "heavy_keys", None)
        keys = heavy_keys() if callable(heavy_keys) else ()
        if isinstance(keys, str):
            raise EngineContractError(f"{name_of(model)}.heavy_keys() must return several keys, such as ({keys!r},)")
        self._heavy_keys = tuple(keys) if self._encode else ()
        heavy_policy = getattr(model, "heavy_policy", None)
        policy = heavy_policy() if callable(heavy_policy) else "sit_out"
        if policy not in _POLICIES:
            raise ValueError(f"{name_of(model)}.heavy_policy() must return one of {_POLICIES}, got {policy!r}")
        self._sits_out = policy == "sit_out"
        self._seed_ready = getattr(model, "seed_ready", None)
        self._heavy_equal = getattr(model, "heavy_equal", None) or same_value
        self._cuda_device = getattr(model, "cuda_device", None)

    def _decide_pipeline(self, pipeline: bool | None) -> bool:
        if pipeline is not None:
            return bool(pipeline)
        return bool(self._deferred) and cuda_torch(declared=self._cuda_device is not None) is not None

    # -- the contract

    def manifest(self) -> EngineManifest:
        """The model's manifest with the pipeline depth of this engine."""
        return self._manifest

    def attach(self, init: SessionInit) -> None:
        if not isinstance(init, SessionInit):
            raise EngineContractError(f"attach() takes a SessionInit, got {init!r}")
        if init.session_id in self._rows:
            return
        if not self._free:
            raise AdmissionError(f"the engine is full: all {len(self._rows)} rows are taken")
        self._check_midrun(None)
        context = dict(init.context)
        row = Row(self._free.pop(0), init.session_id, context)
        self._rows[init.session_id] = row
        self._pending.append(row)

    def reset(self, init: SessionInit) -> None:
        """Seed an attached session anew. Raises :class:`AdmissionError`, nothing released, if it may not come back."""
        row = self._rows.get(init.session_id)
        if row is None:
            raise AdmissionError(f"session {init.session_id!r} is not attached")
        self._check_midrun(row)
        fresh = SessionInit(init.session_id, dict(init.context))
        self.detach(init.session_id)
        self.attach(fresh)

    def _check_midrun(self, newcomer: Row | None) -> None:
        others = (row for row in self._rows.values() if row is not newcomer)
        if not self._midrun_attach and any(row.seeded for row in others):
            raise AdmissionError("the cohort is running and this engine admits nobody in mid-run (midrun_attach=False)")

    def step(self, due: Mapping[str, Mapping[str, Any]]) -> list[StepResult]:
        """Advance ``due``; see :class:`~realtime_engine.core.contract.RealtimeInterface`.

        Raises:
            StepFailure: some sessions failed in seeding, ENCODE or DEFERRED; the others have advanced, their chunks are
                inside.
            Exception: what a HOT stage raised. Nobody has advanced.
        """
        began = time.perf_counter()
        lanes = self._lanes or self._open_lanes()
        failures: dict[str, BaseException] = {}
        if self._encodes:
            self._encodes.resolve(lanes, failures)
        if self._pending:
            self._arm(lanes, failures)
        choice = self._choose(due, failures)
        emitted = self._advance(lanes, choice, failures, began)
        results = self._results(emitted, began)
        if failures:
            raise StepFailure(failures, results) from next(iter(failures.values()))
        return results

    def finalize(self, session_ids: list[str]) -> None:
        """Nothing: what follows a chunk belongs into the model's stages."""

    def detach(self, session_id: str) -> None:
        row = self._rows.get(session_id)
        if row is None:
            return
        self._drain(row)
        release = partial(call_hook, self._model.detach, row.index, session_id)
        if self._lanes is None:
            release()
        else:
            self._lanes.hot.submit(release).wait()  # on HOT: before whatever the row's next session does there
        del self._rows[session_id]
        bisect.insort(self._free, row.index)
        if row in self._pending:
            self._pending.remove(row)
        self._encodes.leave(row)
        if self._in_flight is not None:
            self._in_flight.batch.drop(row.index, session_id)
        self._salvaged = [result for result in self._salvaged if result.session_id != session_id]

    # -- properties

    @property
    def pipelined(self) -> bool:
        """Whether DEFERRED lags one chunk behind HOT."""
        return self._pipelined

    @property
    def active_sessions(self) -> int:
        """Sessions attached."""
        return len(self._rows)

    @property
    def pending_sessions(self) -> Collection[str]:
        """Sessions attached and not yet seeded."""
        return [row.session_id for row in self._pending]

    def slot_of(self, session_id: str) -> int | None:
        """The row of a session, ``None`` when it is not attached."""
        row = self._rows.get(session_id)
        return None if row is None else row.index

    def late_twin(self) -> ComposedEngine | None:
        """Another engine for the same model, in a pipeline with ``lanes="late"``; for tests, in place of this one.

        ``None`` for an engine that was told ``pipeline=False``: its stages never overlap.
        """
        if self._pipeline_choice is False:
            return None
        return ComposedEngine(self._model, pipeline=True, midrun_attach=self._midrun_attach, lanes="late")

    # -- arming

    def _arm(self, lanes: Lanes, failures: dict[str, BaseException]) -> None:
        pending = list(self._pending)
        try:
            ready = self._seed_ready is None or self._seed_ready({row.index: row.context for row in pending})
        except BaseException as error:
            reraise_interrupt(error)
            failures.update((row.session_id, error) for row in pending)
            return
        if ready:
            self._seed(lanes, pending, failures)

    def _seed(self, lanes: Lanes, rows: list[Row], failures: dict[str, BaseException]) -> None:
        """Seed all rows in one call; if that fails, each by itself, so that only the culprits stay behind."""
        contexts = {row.index: row.context for row in rows}
        try:
            self._seeded = lanes.hot.submit(partial(call_hook, self._model.seed, contexts))
        except BaseException as error:
            reraise_interrupt(error)
            if len(rows) == 1:
                failures[rows[0].session_id] = error
                return
            for row in rows:
                self._seed(lanes, [row], failures)
            return
        for row in rows:
            row.seeded = True
            row.applied = {key: row.context[key] for key in self._heavy_keys if key in row.context}
            self._pending.remove(row)

    # -- choosing who takes part

    def _choose(self, due: Mapping[str, Mapping[str, Any]], failures: dict[str, BaseException]) -> StepPlan:
        choice = StepPlan(StageBatch(self._empty_slots.copy(), {}))
        slots, conditioning, ages = choice.batch.slots, choice.batch.conditioning, choice.batch.ages
        cohort, rows, heavy_keys = choice.cohort, self._rows, self._heavy_keys
        for session_id, given in due.items():
            row = rows.get(session_id)
            if row is None or row.finished:
                continue
            takes_part, differs = row.seeded, False
            for key in heavy_keys:
                value = given.get(key, _ABSENT)
                if (value is not _ABSENT and value is not row.applied.get(key, _ABSENT)) or row.encode is not None:
                    differs = True
                    takes_part = takes_part and self._heavy_change(row, given, choice.changed, failures)
                    break
            if not takes_part:
                choice.held.append((row, given.get("events", ())))
                continue
            slots[row.index] = session_id
            conditioning[session_id] = row.with_held_events(given) if row.held_events else dict(given)
            ages[row.index] = row.age
            cohort.append(row)
            if differs:
                choice.differing.append(row)
        choice.batch.due.update(conditioning)
        return choice

    def _heavy_change(
        self,
        row: Row,
        given: Mapping[str, Any],
        changed: dict[Row, dict[str, Any]],
        failures: dict[str, BaseException],
    ) -> bool:
        """Whether the row takes part in this step; notes it in ``changed`` if an encode is to start."""
        if row.encode is not None:
            if self._sits_out and row.budget is not None:
                row.budget.sat_out()
            return not self._sits_out
        wanted = row.applied | {key: given[key] for key in self._heavy_keys if key in given}
        try:
            if self._heavy_equal(row.applied, wanted):
                row.applied = wanted  # the same values in the objects that come now: compared by identity from here on
                return True
        except BaseException as error:
            reraise_interrupt(error)
            failures[row.session_id] = error
            return False
        if row.budget is None:
            row.budget = EncodeSkipBudget()
        if self._sits_out and not row.budget.allows and not row.encode_failed:
            return True
        changed[row] = wanted
        return not self._sits_out

    # -- running the lanes

    def _advance(
        self, lanes: Lanes, choice: StepPlan, failures: dict[str, BaseException], began: float
    ) -> StageBatch | None:
        """Run one step's work and return the batch that is ready to leave."""
        leaving, self._in_flight = self._in_flight, None
        decoded = self._decode(lanes, leaving) if leaving is not None else DONE
        if choice.changed:
            self._encodes.start(lanes, choice.changed, (self._seeded, decoded), failures)
        conditioning = choice.batch.conditioning
        for row in choice.differing:
            conditioning[row.session_id] = row.with_applied(conditioning[row.session_id], self._heavy_keys)
        current: _InFlight | None = None
        try:
            if choice.cohort:
                current = _InFlight(choice.batch, lanes.hot.submit(partial(run_stages, self._hot, choice.batch)))
        except BaseException:
            self._sync_after_failure(lanes)
            self._salvage(lanes, leaving, decoded, began)
            raise
        choice.commit()
        if self._pipelined:
            self._in_flight = current
        elif current is not None:
            leaving, decoded = current, self._decode(lanes, current)
        if leaving is None:
            return None
        self._finish_decode(lanes, leaving, decoded, failures)
        return leaving.batch

    def _decode(self, lanes: Lanes, flight: _InFlight) -> Completion:
        return submit(lanes.deferred, partial(_decode, self._deferred, flight.batch), after=(flight.hot_done,))

    def _finish_decode(
        self, lanes: Lanes, flight: _InFlight, decoded: Completion, failures: dict[str, BaseException]
    ) -> None:
        """Wait for DEFERRED; if it failed, run it again by halves, so that only the culprits lose their chunk."""
        error = error_of(decoded)
        batch = flight.batch
        if error is None:
            if batch.finished:
                self._finish_rows(batch, failures)
            return
        batch.outputs.clear()
        rows = batch.rows_in_order()
        if len(rows) == 1:
            self._lose_chunk(str(batch.slots[rows[0]]), error, failures)
            return
        for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
            part = _InFlight(batch.part(half), flight.hot_done)
            self._finish_decode(lanes, part, self._decode(lanes, part), failures)
            batch.outputs.update(part.batch.outputs)
            batch.finished |= part.batch.finished

    def _finish_rows(self, batch: StageBatch, failures: dict[str, BaseException]) -> None:
        """Stop stepping the rows whose last chunk this batch holds, and discard what HOT has made of their next one."""
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
        self._rows[session_id].finished = False  # if it was its last chunk, the next one takes its place

    def _salvage(self, lanes: Lanes, flight: _InFlight | None, decoded: Completion, began: float) -> None:
        """After a HOT failure, keep the chunk before it for the next step."""
        if flight is None:
            return
        lost: dict[str, BaseException] = {}
        self._finish_decode(lanes, flight, decoded, lost)
        if lost:
            logger.debug(
                "chunks in flight are lost with the failed step: %s", {k: describe(v) for k, v in lost.items()}
            )
        self._salvaged.extend(_step_results(flight.batch, began))

    def _results(self, batch: StageBatch | None, began: float) -> list[StepResult]:
        results, self._salvaged = self._salvaged, []
        if batch is not None:
            made = _step_results(batch, began)
            self._note_silence(batch, made)
            results.extend(made)
        return results

    def _note_silence(self, batch: StageBatch, made: list[StepResult]) -> None:
        """Say once that a model makes no output at all, which nobody else can see."""
        if made or not batch.due:
            self._silent_steps = 0
            return
        self._silent_steps += 1
        if self._silent_steps == _SUSPICIOUS_SILENCE:
            logger.warning(
                "%s has filled no batch.outputs[session_id] in %d steps: there is nothing to show for %s",
                name_of(self._model),
                _SUSPICIOUS_SILENCE,
                sorted(batch.due),
            )

    def _open_lanes(self) -> Lanes:
        if self._lane_choice == "late":
            self._lanes = late_lanes()
            return self._lanes
        torch = cuda_torch(declared=self._cuda_device is not None)
        if torch is not None:
            device = self._cuda_device() if self._cuda_device is not None else None
            self._lanes = cuda_lanes(torch, device, threaded=self._lane_choice == "thread")
        elif self._lane_choice == "thread":
            self._lanes = thread_lanes(pipelined=self._pipelined)
        else:
            self._lanes = inline_lanes()
        return self._lanes

    def _drain(self, row: Row) -> None:
        """Wait for everything that may still touch this row. Encodes of other rows go on."""
        if self._lanes is None:
            return
        self._lanes.hot.sync()
        self._lanes.deferred.sync()
        if row.encode is not None:
            self._lanes.encode.sync()

    def _sync_after_failure(self, lanes: Lanes) -> None:
        for lane in (lanes.hot, lanes.deferred):
            try:
                lane.sync()
            except BaseException as error:  # a broken device says so at every call; the first error is on its way up
                reraise_interrupt(error)
                logger.debug("a lane did not drain after a failed step", exc_info=True)


def _decode(stages: list[Stage], batch: StageBatch) -> None:
    """The last stages of a chunk, and a look at what they made."""
    run_stages(stages, batch)
    check_outputs(batch)


def _step_results(batch: StageBatch, began: float) -> list[StepResult]:
    """In row order; ``slots`` is ordered by row."""
    outputs = batch.outputs
    step_ms = (time.perf_counter() - began) * 1000.0
    finished = batch.finished
    return [
        StepResult(session_id, outputs[session_id], {"step_ms": step_ms}, last=row in finished)
        for row, session_id in batch.slots.items()
        if session_id in outputs
    ]
