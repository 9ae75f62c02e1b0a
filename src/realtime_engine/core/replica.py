"""An engine of child engines, one for each session."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from .contract import AdmissionError, EngineManifest, RealtimeInterface, SessionInit, StepResult
from .errors import EngineContractError, StepFailure, call_hook, reraise_interrupt
from .lanes import InlineLane, ThreadLane, submit

__all__ = ["ReplicaEngine"]

logger = logging.getLogger(__name__)


class ReplicaEngine:
    """Serves each session by a child engine of its own, stepped with that session alone; Level 1 of the contract.

    For models that cannot batch yet, and as the plain reference that a batched engine is checked against. Children are
    built on demand and pooled when their session has left cleanly; one whose ``detach`` failed keeps its session and is
    never pooled.

    Args:
        factory: builds one child; called at most ``max_sessions`` times while none breaks.
        max_sessions: sessions that can be attached at once.
        parallel: give each child a thread of its own, on which it is built and on which all its hooks run, and step the
            children at the same time. Worthwhile for models that release the GIL (array libraries, CUDA). ``False``:
            everything runs on the calling thread, one child after another.

    Not thread-safe: the serve loop calls it from one thread. :meth:`close` ends the children's threads; they also end
    when the engine is garbage-collected.

    Raises:
        ValueError: ``max_sessions`` is not an integer of 1 or more.
    """

    def __init__(self, factory: Callable[[], RealtimeInterface], *, max_sessions: int, parallel: bool = False) -> None:
        if not isinstance(max_sessions, int) or isinstance(max_sessions, bool) or max_sessions < 1:
            raise ValueError(f"max_sessions must be an integer of 1 or more, got {max_sessions!r}")
        self._factory = factory
        self._max_sessions = max_sessions
        self._parallel = parallel
        self._numbers = itertools.count(1)
        self._children: dict[str, _Child] = {}
        self._pool: list[_Child] = []
        self._manifest: EngineManifest | None = None

    def manifest(self) -> EngineManifest:
        """A child's manifest with this engine's capacity; the first call builds that child."""
        if self._manifest is None:
            if not self._pool and not self._children:
                self._pool.append(self._build_child())
            child = next(iter([*self._pool, *self._children.values()]))
            self._manifest = replace(child.call("manifest").result(), max_sessions=self._max_sessions)
        return self._manifest

    def attach(self, init: SessionInit) -> None:
        """Admit a session in a pooled or new child. Raises :class:`AdmissionError` when full."""
        if init.session_id in self._children:
            return
        if len(self._children) >= self._max_sessions:
            raise AdmissionError(f"the engine is full: all {self._max_sessions} children are taken")
        child = self._pool.pop() if self._pool else self._build_child()
        try:
            child.call("attach", init).result()
        except BaseException:
            self._reclaim(child, init.session_id)
            raise
        self._children[init.session_id] = child

    def reset(self, init: SessionInit) -> None:
        """Seed an attached session anew in its own child.

        Raises:
            AdmissionError: the session is not attached, or its child refuses; nothing has changed.
            RuntimeError: the session was released and could not be attached again.
        """
        child = self._children.get(init.session_id)
        if child is None:
            raise AdmissionError(f"session {init.session_id!r} is not attached")
        if getattr(child.engine, "reset", None) is not None:
            child.call("reset", init).result()
            return
        child.call("detach", init.session_id).result()
        try:
            child.call("attach", init).result()
        except BaseException as error:
            reraise_interrupt(error)
            del self._children[init.session_id]
            self._reclaim(child, init.session_id)
            raise RuntimeError(f"session {init.session_id!r} was released and could not be attached again") from error

    def step(self, due: Mapping[str, Mapping[str, Any]]) -> list[StepResult]:
        """Step each due session's child; a child that is not due brings out what its pipeline still holds.

        Results are in the order in which the sessions were attached.

        Raises:
            StepFailure: some children failed; the others have advanced and their chunks are inside.
        """
        depth = self.manifest().pipeline_depth_chunks
        calls: dict[str, _Call] = {}
        for session_id, child in self._children.items():
            if session_id in due:
                child.steps_to_flush = depth - 1
                calls[session_id] = child.call("step", {session_id: due[session_id]})
            elif child.steps_to_flush > 0:
                child.steps_to_flush -= 1
                calls[session_id] = child.call("step", {})
        results: list[StepResult] = []
        failures: dict[str, BaseException] = {}
        for session_id, call in calls.items():
            try:
                results.extend(_own_results(session_id, call.result()))
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
        """Call each session's child. Raises :class:`StepFailure` when some failed; the others were finalized."""
        attached = [session_id for session_id in session_ids if session_id in self._children]
        calls = {session_id: self._children[session_id].call("finalize", [session_id]) for session_id in attached}
        failures: dict[str, BaseException] = {}
        for session_id, call in calls.items():
            try:
                call.result()
            except BaseException as error:
                reraise_interrupt(error)
                failures[session_id] = error
        if failures:
            raise StepFailure(failures) from next(iter(failures.values()))

    def detach(self, session_id: str) -> None:
        """Release a session and pool its child; nothing happens for an unknown one."""
        child = self._children.get(session_id)
        if child is None:
            return
        child.call("detach", session_id).result()
        del self._children[session_id]
        child.steps_to_flush = 0
        self._pool.append(child)

    def close(self) -> None:
        """Release all children: call ``close`` of those that have it, end their threads and wait for the threads' end.

        Sessions that are still attached are lost. A later :meth:`attach` builds new children. A child whose ``close``
        raises is logged.
        """
        children = [*self._children.values(), *self._pool]
        self._children.clear()
        self._pool.clear()
        for child in children:
            child.close()

    @property
    def active_sessions(self) -> int:
        """Sessions attached."""
        return len(self._children)

    @property
    def pooled_children(self) -> int:
        """Children without a session."""
        return len(self._pool)

    @property
    def pending_sessions(self) -> Collection[str]:
        """Sessions attached and not yet seeded, as the children report them."""
        return [sid for sid, child in self._children.items() if sid in getattr(child.engine, "pending_sessions", ())]

    def _build_child(self) -> _Child:
        lane = ThreadLane(f"replica-{next(self._numbers)}") if self._parallel else InlineLane()
        try:
            return _Child(lane, self._factory)
        except BaseException:
            lane.close()
            raise

    def _reclaim(self, child: _Child, session_id: str) -> None:
        """Pool a child whose attach failed if it can be cleaned; else discard it."""
        child.steps_to_flush = 0
        try:
            child.call("detach", session_id).result()
        except BaseException as error:
            reraise_interrupt(error)
            logger.warning("a child that could be neither attached nor cleaned is discarded", exc_info=True)
            child.close()
        else:
            self._pool.append(child)


class _Child:
    """A child engine and the lane that all its hooks run on.

    Attributes:
        engine: the child.
        lane: the calling thread, or a thread of the child's own.
        steps_to_flush: steps that it takes to empty the child's pipeline.
    """

    def __init__(self, lane: InlineLane | ThreadLane, factory: Callable[[], RealtimeInterface]) -> None:
        self.lane = lane
        self.engine: RealtimeInterface = _Call(lane, factory).result()
        self.steps_to_flush = 0

    def call(self, hook: str, *args: Any) -> _Call:
        """Begin a call of one of the child's hooks."""
        return _Call(self.lane, call_hook, getattr(self.engine, hook), *args)

    def close(self) -> None:
        if callable(getattr(self.engine, "close", None)):
            try:
                self.call("close").result()
            except BaseException as error:
                reraise_interrupt(error)
                logger.warning("closing a child failed", exc_info=True)
        self.lane.close()


class _Call:
    """A function call on a lane."""

    def __init__(self, lane: InlineLane | ThreadLane, function: Callable[..., Any], *args: Any) -> None:
        self._function = function
        self._args = args
        self._result: Any = None
        self._completion = submit(lane, self._run)

    def result(self) -> Any:
        """Wait for the end of the call; what it returned. Raises what it raised."""
        self._completion.wait()
        return self._result

    def _run(self) -> None:
        self._result = self._function(*self._args)


def _own_results(session_id: str, results: Any) -> list[StepResult]:
    if not isinstance(results, (list, tuple)):
        raise EngineContractError(f"a child's step() must return a list of StepResult, got {type(results).__name__}")
    for result in results:
        if not isinstance(result, StepResult) or result.session_id != session_id:
            raise EngineContractError(f"the child of session {session_id!r} returned {result!r}")
    return list(results)
