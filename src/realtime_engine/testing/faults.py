"""Failures on order, at every hook of an engine or of a stage model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from ..core.contract import EngineManifest, RealtimeInterface, SessionInit, StepResult
from ..core.lanes import Lane
from ..core.stages import Stage, StageBatch, StageModel

Decide = Callable[[str, Collection[str]], "BaseException | None"]


@dataclass
class _Order:
    hook: str
    error: BaseException
    session_id: str | None
    times: int
    skip: int


class FaultPlan:
    """Which call of which hook fails, for whom and how often.

    Hooks of an engine: ``attach``, ``step``, ``finalize``, ``detach``. Of a model: ``seed``, ``detach``, and ``hot``,
    ``deferred``, ``encode`` for its stages.

    Args:
        decide: optional; asked for each call with the hook's name and the session ids concerned (rows, for ``seed``),
            returns the error to raise or ``None``.
    """

    def __init__(self, decide: Decide | None = None) -> None:
        self._decide = decide
        self._orders: list[_Order] = []
        self._poisons: list[tuple[str, str, BaseException]] = []
        self._lock = threading.Lock()  # of the orders: hooks may be called from several threads
        self.raised = 0

    def fail(
        self, hook: str, error: BaseException, *, session_id: str | None = None, times: int = 1, skip: int = 0
    ) -> None:
        """Let the next ``times`` calls of ``hook`` that concern ``session_id`` (``None``: any) raise ``error``, once
        ``skip`` such calls have passed."""
        self._orders.append(_Order(hook, error, session_id, times, skip))

    def poison(self, hook: str, error: BaseException, *, session_id: str) -> None:
        """Let the next call of a model's stage ``hook`` with ``session_id`` raise ``error`` from within: where it first
        looks at the conditioning of that session. A stage that does not look does not fail."""
        self._poisons.append((hook, session_id, error))

    @contextmanager
    def poisoned(self, hook: str, batch: StageBatch) -> Iterator[None]:
        """Put the ordered poison into a batch for as long as a stage runs."""
        given: dict[str, Mapping[str, Any]] = {}
        for order in list(self._poisons):
            ordered_hook, session_id, error = order
            if ordered_hook == hook and session_id in batch.conditioning:
                self._poisons.remove(order)
                given[session_id] = batch.conditioning[session_id]
                batch.conditioning[session_id] = _Poison(self, error)
        try:
            yield
        finally:
            batch.conditioning.update(given)

    def check(self, hook: str, session_ids: Collection[str]) -> None:
        """Raise if this call is to fail."""
        error = self._ordered(hook, session_ids)
        if error is None and self._decide is not None:
            error = self._decide(hook, session_ids)
        if error is not None:
            self.raised += 1
            raise error.with_traceback(None)

    def _ordered(self, hook: str, session_ids: Collection[str]) -> BaseException | None:
        with self._lock:
            for order in self._orders:
                concerned = order.session_id is None or order.session_id in session_ids
                if order.times > 0 and order.hook == hook and concerned:
                    if order.skip == 0:
                        order.times -= 1
                        return order.error
                    order.skip -= 1
        return None


class _Poison(Mapping[str, Any]):
    """Conditioning that nobody can read."""

    def __init__(self, plan: FaultPlan, error: BaseException) -> None:
        self._plan = plan
        self._error = error

    def __getitem__(self, key: str) -> Any:
        self._raise()

    def __iter__(self) -> Iterator[str]:
        self._raise()

    def __len__(self) -> int:
        self._raise()

    def _raise(self) -> NoReturn:
        self._plan.raised += 1
        raise self._error.with_traceback(None)


class FaultyEngine:
    """An engine with a :class:`FaultPlan` in front of every hook; everything else is the engine's own."""

    def __init__(self, engine: RealtimeInterface, plan: FaultPlan) -> None:
        self._engine = engine
        self._plan = plan

    def manifest(self) -> EngineManifest:
        return self._engine.manifest()

    def attach(self, init: SessionInit) -> None:
        self._plan.check("attach", (init.session_id,))
        self._engine.attach(init)

    def step(self, due: Mapping[str, Mapping[str, Any]]) -> list[StepResult]:
        self._plan.check("step", due.keys())
        return self._engine.step(due)

    def finalize(self, session_ids: list[str]) -> None:
        self._plan.check("finalize", session_ids)
        self._engine.finalize(session_ids)

    def detach(self, session_id: str) -> None:
        self._plan.check("detach", (session_id,))
        self._engine.detach(session_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class FaultyModel:
    """A stage model with a :class:`FaultPlan` in front of ``seed``, ``detach`` and each stage."""

    def __init__(self, model: StageModel, plan: FaultPlan) -> None:
        self._model = model
        self._plan = plan

    def manifest(self) -> EngineManifest:
        return self._model.manifest()

    def stages(self) -> list[Stage]:
        return [_FaultyStage(stage, self._plan) for stage in self._model.stages()]

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        self._plan.check("seed", [str(row) for row in rows])
        self._model.seed(rows)

    def detach(self, row: int, session_id: str) -> None:
        self._plan.check("detach", (session_id,))
        self._model.detach(row, session_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class _FaultyStage:
    def __init__(self, stage: Stage, plan: FaultPlan) -> None:
        self.lane: Lane = stage.lane
        self._stage = stage
        self._plan = plan

    def __call__(self, batch: StageBatch) -> None:
        hook = self.lane.name.lower()
        self._plan.check(hook, batch.due)
        with self._plan.poisoned(hook, batch):
            self._stage(batch)
