"""The batched engine: fixed rows, one lockstep batch, three lanes."""

from __future__ import annotations

import bisect
import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from .contract import AdmissionError, EngineManifest, SessionInit, StepResult
from .decoder import BatchDecode, BatchDecoder, step_results
from .errors import EngineContractError, StepFailure, call_hook, reraise_interrupt
from .lanes import DONE, Completion, Lane, Lanes, cuda_lanes, cuda_torch, inline_lanes, late_lanes, thread_lanes
from .rows import EncodeSkipBudget, PendingEncodes, Row, StepPlan
from .stages import StageBatch, StageModel, checked_manifest, checked_stages, name_of, run_stages
from .values import same_value

__all__ = ["ComposedEngine"]

logger = logging.getLogger(__name__)

_ABSENT = object()
_POLICIES = ("sit_out", "keep_running")


class ComposedEngine:
    """Drives a :class:`~realtime_engine.core.stages.StageModel`; Level 1 of the contract.

    Args:
        model: the model as stages.
        pipeline: let DEFERRED of chunk N-1 overlap HOT of chunk N, for one chunk of latency. ``None``: yes if a CUDA
            device is available and the model has a DEFERRED stage.
        midrun_attach: whether a session may join while seeded ones run. ``False`` is for models that seed a cohort in
            one call; a later attach raises :class:`AdmissionError`.
        lanes: ``"auto"`` uses CUDA streams if torch has a device, and otherwise runs everything on the stepping thread.
            ``"thread"`` without CUDA gives ENCODE, and DEFERRED of a pipeline, worker threads; with CUDA it feeds
            ENCODE's stream from a worker thread, so that an encode which waits for the device (``.item()``, a copy from
            pageable memory) or computes long on the host delays no other lane. The stages themselves then set what
            torch keeps for each thread (grad mode, autocast). ``"late"`` is for tests: everything on the stepping
            thread, and in a pipeline DEFERRED after the HOT that may overlap it, so that a HOT which overwrites
            DEFERRED's input fails every time.

    Not thread-safe: the serve loop calls it from one thread.

    Raises:
        ValueError: no HOT stage, an unknown ``lanes`` or heavy policy.
        EngineContractError: the model, its manifest or a stage breaks the contract.
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
        deferred = [stage for stage in stages if stage.lane is Lane.DEFERRED]
        encode = [stage for stage in stages if stage.lane is Lane.ENCODE]
        if not self._hot:
            raise ValueError(f"{name_of(model)}.stages() needs at least one stage with lane = Lane.HOT")
        self._read_optional_hooks(model, has_encode=bool(encode))
        if pipeline is None:
            pipeline = bool(deferred) and cuda_torch(declared=self._cuda_device is not None) is not None
        self._pipelined = bool(pipeline)
        self._manifest = replace(checked_manifest(model), pipeline_depth_chunks=2 if self._pipelined else 1)

        size = self._manifest.max_sessions
        self._rows: dict[str, Row] = {}
        self._free = list(range(size))  # sorted: the lowest free row is used first
        self._empty_slots: dict[int, str | None] = dict.fromkeys(range(size))
        self._pending: list[Row] = []
        self._encodes = PendingEncodes(encode, self._empty_slots, skips_steps=self._sits_out)
        self._decoder = BatchDecoder(deferred, self._rows, name_of(model))
        self._seeded: Completion = DONE  # the latest seeding, which an encode must not overtake
        self._lanes: Lanes | None = None  # opened by the first step, on its thread

    def _read_optional_hooks(self, model: StageModel, *, has_encode: bool) -> None:
        heavy_keys = getattr(model, "heavy_keys", None)
        keys = heavy_keys() if callable(heavy_keys) else ()
        if isinstance(keys, str):
            raise EngineContractError(f"{name_of(model)}.heavy_keys() must return several keys, such as ({keys!r},)")
        self._heavy_keys = tuple(keys) if has_encode else ()
        heavy_policy = getattr(model, "heavy_policy", None)
        policy = heavy_policy() if callable(heavy_policy) else "sit_out"
        if policy not in _POLICIES:
            raise ValueError(f"{name_of(model)}.heavy_policy() must return one of {_POLICIES}, got {policy!r}")
        self._sits_out = policy == "sit_out"
        self._seed_ready = getattr(model, "seed_ready", None)
        self._heavy_equal = getattr(model, "heavy_equal", None) or same_value
        self._cuda_device = getattr(model, "cuda_device", None)

    # -- the contract

    def manifest(self) -> EngineManifest:
        """The model's manifest with the pipeline depth of this engine."""
        return self._manifest

    def attach(self, init: SessionInit) -> None:
        """Admit a session, in the lowest free row; the next step seeds it.

        Raises:
            AdmissionError: the engine is full, or the cohort is running and ``midrun_attach`` is false.
            EngineContractError: ``init`` is not a :class:`SessionInit`.
        """
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
        """Seed an attached session anew. Raises :class:`AdmissionError`, nothing released, if it cannot be admitted."""
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
            raise AdmissionError("the cohort is running and this engine admits no session then (midrun_attach=False)")

    def step(self, due: Mapping[str, Mapping[str, Any]]) -> list[StepResult]:
        """Advance ``due``; see :class:`~realtime_engine.core.contract.RealtimeInterface`.

        Raises:
            StepFailure: some sessions failed in seeding, ENCODE or DEFERRED; the others have advanced, and their chunks
                are inside.
            Exception: what a HOT stage raised. No session has advanced.
        """
        began = time.perf_counter()
        lanes = self._lanes or self._open_lanes()
        failures: dict[str, BaseException] = {}
        if self._encodes:
            self._encodes.resolve(lanes, failures)
        if self._pending:
            self._seed_pending(lanes, failures)
        plan = self._make_plan(due, failures)
        decoded = self._run_plan(lanes, plan, failures, began)
        results = self._decoder.take_salvaged()
        if decoded is not None:
            results.extend(step_results(decoded, began))
        if failures:
            raise StepFailure(failures, results) from next(iter(failures.values()))
        return results

    def finalize(self, session_ids: list[str]) -> None:
        """Do nothing: what follows a chunk belongs into the model's stages."""

    def detach(self, session_id: str) -> None:
        """Release a session's row once no lane works on it. Raises what the model's ``detach`` raises."""
        row = self._rows.get(session_id)
        if row is None:
            return
        self._drain(row)
        release = partial(call_hook, self._model.detach, row.index, session_id)
        if self._lanes is None:
            release()
        else:
            self._lanes.hot.submit(release).wait()  # on HOT: before what the row's next session does there
        del self._rows[session_id]
        bisect.insort(self._free, row.index)
        if row in self._pending:
            self._pending.remove(row)
        self._encodes.remove(row)
        self._decoder.discard(row)

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

        ``None`` for an engine with ``pipeline=False``: its stages never overlap.
        """
        if self._pipeline_choice is False:
            return None
        return ComposedEngine(self._model, pipeline=True, midrun_attach=self._midrun_attach, lanes="late")

    # -- seeding

    def _seed_pending(self, lanes: Lanes, failures: dict[str, BaseException]) -> None:
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
        """Seed all rows in one call; if that fails, each alone, so that only the culprits stay unseeded."""
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

    # -- planning a step

    def _make_plan(self, due: Mapping[str, Mapping[str, Any]], failures: dict[str, BaseException]) -> StepPlan:
        plan = StepPlan(StageBatch(self._empty_slots.copy(), {}))
        slots, conditioning, ages = plan.batch.slots, plan.batch.conditioning, plan.batch.ages
        cohort, rows, heavy_keys = plan.cohort, self._rows, self._heavy_keys
        for session_id, given in due.items():
            row = rows.get(session_id)
            if row is None or row.finished:
                continue
            takes_part = row.seeded
            for key in heavy_keys:
                value = given.get(key, _ABSENT)
                if (value is not _ABSENT and value is not row.applied.get(key, _ABSENT)) or row.encode is not None:
                    takes_part = takes_part and self._plan_heavy_change(row, given, plan, failures)
                    if takes_part:
                        plan.differing.append(row)
                    break
            if not takes_part:
                plan.deferred_events.append((row, given.get("events", ())))
                continue
            slots[row.index] = session_id
            conditioning[session_id] = row.with_deferred_events(given) if row.deferred_events else dict(given)
            ages[row.index] = row.age
            cohort.append(row)
        plan.batch.due.update(conditioning)
        return plan

    def _plan_heavy_change(
        self, row: Row, given: Mapping[str, Any], plan: StepPlan, failures: dict[str, BaseException]
    ) -> bool:
        """Plan the encode of a changed heavy value, if it can start now; returns whether the row takes part."""
        if row.encode is not None:
            if self._sits_out and row.budget is not None:
                row.budget.record_skip()
            return not self._sits_out
        wanted = row.applied | {key: given[key] for key in self._heavy_keys if key in given}
        try:
            if self._heavy_equal(row.applied, wanted):
                row.applied = wanted  # equal values in new objects, which later steps compare by identity
                return True
        except BaseException as error:
            reraise_interrupt(error)
            failures[row.session_id] = error
            return False
        if row.budget is None:
            row.budget = EncodeSkipBudget()
        if self._sits_out and not row.budget.allows and not row.encode_failed:
            return True
        plan.changed[row] = wanted
        return not self._sits_out

    # -- running the lanes

    def _run_plan(
        self, lanes: Lanes, plan: StepPlan, failures: dict[str, BaseException], began: float
    ) -> StageBatch | None:
        """Run one step's work; returns the batch that is decoded."""
        decode = self._decoder.start_in_flight(lanes)
        if plan.changed:
            self._encodes.start(lanes, plan.changed, (self._seeded, DONE if decode is None else decode.done), failures)
        conditioning = plan.batch.conditioning
        for row in plan.differing:
            conditioning[row.session_id] = row.with_applied(conditioning[row.session_id], self._heavy_keys)
        if plan.cohort:
            hot_done = self._run_hot(lanes, plan.batch, decode, began)
            plan.commit()
            if self._pipelined:
                self._decoder.hold(plan.batch, hot_done)
            else:
                decode = self._decoder.start(lanes, plan.batch, hot_done)
        else:
            plan.commit()
        if decode is None:
            return None
        self._decoder.finish(lanes, decode, failures)
        return decode.batch

    def _run_hot(self, lanes: Lanes, batch: StageBatch, decode: BatchDecode | None, began: float) -> Completion:
        """Run HOT; if it fails, keep the chunks of the batch that is decoded beside it."""
        try:
            return lanes.hot.submit(partial(run_stages, self._hot, batch))
        except BaseException:
            self._sync_after_failure(lanes)
            if decode is not None:
                self._decoder.salvage(lanes, decode, began)
            raise

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
        """Wait for all work that may still touch this row. Encodes of other rows continue."""
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
            except BaseException as error:  # a broken device raises at every call; the first error is raised already
                reraise_interrupt(error)
                logger.debug("a lane did not drain after a failed step", exc_info=True)
