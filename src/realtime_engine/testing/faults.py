"""Fault injection at every hook of an engine or of a stage model."""

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
class _Fault:
    hook: str
    error: BaseException
    session_id: str | None
    times: int
    skip: int


class FaultPlan:
    """Which calls of which hooks fail.

    Hooks of an engine: ``attach``, ``step``, ``finalize``, ``detach``. Of a model: ``seed``, ``detach``, and ``hot``,
    ``deferred``, ``encode`` for its stages.

    Args:
        decide: called for each call with the hook's name and the session ids concerned (rows, for ``seed``); returns
            the error to raise or ``None``.

    Attributes:
        raised: errors raised so far.
    """

    def __init__(self, decide: Decide | None = None) -> None:
        self._decide = decide
        self._faults: list[_Fault] = []
        self._poisons: list[tuple[str, str, BaseException]] = []
        self._lock = threading.Lock()  # of the faults: hooks may be called from several threads
        self.raised = 0

    def fail(
        self, hook: str, error: BaseException, *, session_id: str | None = None, times: int = 1, skip: int = 0
    ) -> None:
        """Make the next calls of a hook raise.

        Args:
            hook: its name.
            error: what they raise.
            session_id: only calls that concern this session; ``None``: any.
            times: how many calls.
            skip: how many such calls succeed before.
        """
        self._faults.append(_Fault(hook, error, session_id, times, skip))

    def poison(self, hook: str, error: BaseException, *, session_id: str) -> None:
        """Make a stage raise in the middle: where it first reads the conditioning of a session.

        Args:
            hook: the stage's lane in lower case.
            error: what the next such read raises. A stage that does not read the conditioning does not fail.
            session_id: whose conditioning.
        """
        self._poisons.append((hook, session_id, error))

    @contextmanager
    def poisoned(self, hook: str, batch: StageBatch) -> Iterator[None]:
        """While the context is open, replace the conditioning of poisoned sessions in a batch."""
        given: dict[str, Mapping[str, Any]] = {}
        for poison in list(self._poisons):
            poisoned_hook, session_id, error = poison
            if poisoned_hook == hook and session_id in batch.conditioning:
                self._poisons.remove(poison)
                given[session_id] = batch.conditioning[session_id]
                batch.conditioning[session_id] = _Poison(self, error)
        try:
            yield
        finally:
            batch.conditioning.update(given)

    def check(self, hook: str, session_ids: Collection[str]) -> None:
        """Raise if this call is to fail."""
        error = self._next_error(hook, session_ids)
        if error is None and self._decide is not None:
            error = self._decide(hook, session_ids)
        if error is not None:
            self.raised += 1
            raise error.with_traceback(None)

    def _next_error(self, hook: str, session_ids: Collection[str]) -> BaseException | None:
        with self._lock:
            for fault in self._faults:
                concerned = fault.session_id is None or fault.session_id in session_ids
                if fault.times > 0 and fault.hook == hook and concerned:
                    if fault.skip == 0:
                        fault.times -= 1
                        return fault.error
                    fault.skip -= 1
        return None


class _Poison(Mapping[str, Any]):
    """Conditioning that raises when it is read."""

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
    """An engine with a :class:`FaultPlan` in front of its hooks; all other attributes are the engine's."""

    def __init__(self, engine: RealtimeInterface, plan: FaultPlan) -> None:
        self._engine = engine
        self._plan = plan

    def manifest(self) -> EngineManifest:
        """The engine's manifest."""
        return self._engine.manifest()

    def attach(self, init: SessionInit) -> None:
        """Fail or attach."""
        self._plan.check("attach", (init.session_id,))
        self._engine.attach(init)

    def step(self, due: Mapping[str, Mapping[str, Any]]) -> list[StepResult]:
        """Fail or step."""
        self._plan.check("step", due.keys())
        return self._engine.step(due)

    def finalize(self, session_ids: list[str]) -> None:
        """Fail or finalize."""
        self._plan.check("finalize", session_ids)
        self._engine.finalize(session_ids)

    def detach(self, session_id: str) -> None:
        """Fail or detach."""
        self._plan.check("detach", (session_id,))
        self._engine.detach(session_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class FaultyModel:
    """A stage model with a :class:`FaultPlan` in front of ``seed``, ``detach`` and each stage.

    All other attributes are the model's.
    """

    def __init__(self, model: StageModel, plan: FaultPlan) -> None:
        self._model = model
        self._plan = plan

    def manifest(self) -> EngineManifest:
        """The model's manifest."""
        return self._model.manifest()

    def stages(self) -> list[Stage]:
        """The model's stages, each behind the plan."""
        return [_FaultyStage(stage, self._plan) for stage in self._model.stages()]

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        """Fail or seed."""
        self._plan.check("seed", [str(row) for row in rows])
        self._model.seed(rows)

    def detach(self, row: int, session_id: str) -> None:
        """Fail or detach."""
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
