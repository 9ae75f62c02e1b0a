"""One child engine per session: no shared batch, no shared fate."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from .contract import AdmissionError, EngineManifest, RealtimeInterface, SessionInit, StepResult
from .errors import EngineContractError, StepFailure, call_hook, reraise_interrupt

__all__ = ["ReplicaEngine"]

logger = logging.getLogger(__name__)


class ReplicaEngine:
    """Serves each session by a child engine of its own, stepped with that session alone; Level 1 of the contract.

    For models that cannot batch yet, and as the plain reference that a batched engine is checked against. Children are
    built on demand and pooled when their session has left cleanly; one whose ``detach`` failed keeps its session and is
    never pooled.

    Args:
        factory: builds one child; called on the thread that steps, at most ``max_sessions`` times while none breaks.
        max_sessions: sessions that can be attached at once.
    """

    def __init__(self, factory: Callable[[], RealtimeInterface], *, max_sessions: int) -> None:
        if not isinstance(max_sessions, int) or isinstance(max_sessions, bool) or max_sessions < 1:
            raise ValueError(f"max_sessions must be an integer of 1 or more, got {max_sessions!r}")
        self._factory = factory
        self._max_sessions = max_sessions
        self._children: dict[str, RealtimeInterface] = {}
        self._pool: list[RealtimeInterface] = []
        self._held: dict[str, int] = {}  # session -> steps that it takes to empty its child's pipeline
        self._manifest: EngineManifest | None = None

    def manifest(self) -> EngineManifest:
        """A child's manifest with this engine's capacity; the first call builds that child."""
        if self._manifest is None:
            if not self._pool and not self._children:
                self._pool.append(self._factory())
            child = next(iter([*self._pool, *self._children.values()]))
            self._manifest = replace(child.manifest(), max_sessions=self._max_sessions)
        return self._manifest

    def attach(self, init: SessionInit) -> None:
        if init.session_id in self._children:
            return
        if len(self._children) >= self._max_sessions:
            raise AdmissionError(f"the engine is full: all {self._max_sessions} children are taken")
        child = self._pool.pop() if self._pool else self._factory()
        try:
            call_hook(child.attach, init)
        except BaseException:
            self._reclaim(child, init.session_id)
            raise
        self._children[init.session_id] = child

    def reset(self, init: SessionInit) -> None:
        """Seed an attached session anew in its own child."""
        child = self._children.get(init.session_id)
        if child is None:
            raise AdmissionError(f"session {init.session_id!r} is not attached")
        reset = getattr(child, "reset", None)
        if reset is not None:
            call_hook(reset, init)
            return
        call_hook(child.detach, init.session_id)
        try:
            call_hook(child.attach, init)
        except BaseException as error:
            reraise_interrupt(error)
            del self._children[init.session_id]
            self._held.pop(init.session_id, None)
            self._reclaim(child, init.session_id)
            raise RuntimeError(f"session {init.session_id!r} was released and could not be attached again") from error

    def step(self, due: Mapping[str, Mapping[str, Any]]) -> list[StepResult]:
        """Step each due session's child, in order of attach; a child that is not due brings out what it still holds.

        Raises:
            StepFailure: some children failed; the others have advanced and their chunks are inside.
        """
        results: list[StepResult] = []
        failures: dict[str, BaseException] = {}
        depth = self.manifest().pipeline_depth_chunks
        for session_id, child in self._children.items():
            own = {session_id: due[session_id]} if session_id in due else {}
            held = depth - 1 if own else self._held.get(session_id, 0) - 1
            if not own and held < 0:
                continue
            self._held[session_id] = held
            try:
                results.extend(_own_results(session_id, call_hook(child.step, own)))
            except StepFailure as failure:
                failures[session_id] = failure.failures.get(session_id, failure)
                results.extend(_own_results(session_id, failure.results))
            except BaseException as error:
                reraise_interrupt(error)
                failures[session_id] = error
        if failures:
            raise StepFailure(failures, results) from next(iter(failures.values()))
        return results

    def finalize(self, session_ids: list[str]) -> None:
        """Raises :class:`StepFailure` when some children failed; the others were finalized."""
        failures: dict[str, BaseException] = {}
        for session_id in session_ids:
            child = self._children.get(session_id)
            if child is None:
                continue
            try:
                call_hook(child.finalize, [session_id])
            except BaseException as error:
                reraise_interrupt(error)
                failures[session_id] = error
        if failures:
            raise StepFailure(failures) from next(iter(failures.values()))

    def detach(self, session_id: str) -> None:
        child = self._children.get(session_id)
        if child is None:
            return
        call_hook(child.detach, session_id)
        del self._children[session_id]
        self._held.pop(session_id, None)
        self._pool.append(child)

    @property
    def active_sessions(self) -> int:
        """Sessions attached."""
        return len(self._children)

    @property
    def pooled_children(self) -> int:
        """Children that wait for a session."""
        return len(self._pool)

    @property
    def pending_sessions(self) -> Collection[str]:
        """Sessions attached and not yet seeded, as the children say."""
        return [sid for sid, child in self._children.items() if sid in getattr(child, "pending_sessions", ())]

    def _reclaim(self, child: RealtimeInterface, session_id: str) -> None:
        """Pool a child whose attach failed if it can be cleaned; else let go of it."""
        try:
            call_hook(child.detach, session_id)
        except BaseException as error:
            reraise_interrupt(error)
            logger.warning("a child that could be neither attached nor cleaned is discarded", exc_info=True)
        else:
            self._pool.append(child)


def _own_results(session_id: str, results: Any) -> list[StepResult]:
    if not isinstance(results, (list, tuple)):
        raise EngineContractError(f"a child's step() must return a list of StepResult, got {type(results).__name__}")
    for result in results:
        if not isinstance(result, StepResult) or result.session_id != session_id:
            raise EngineContractError(f"the child of session {session_id!r} returned {result!r}")
    return list(results)
