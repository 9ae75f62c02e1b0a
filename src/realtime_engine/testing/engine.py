"""An engine that records its calls."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..core.contract import AdmissionError, EngineManifest, SessionInit, StepResult


class ScriptedChunk(NamedTuple):
    """A chunk of :class:`ScriptedEngine`: everything that it depends on."""

    session_id: str
    context: dict[str, Any]
    age: int
    conditioning: dict[str, Any]


class Call(NamedTuple):
    """A recorded call of a hook."""

    hook: str
    argument: Any
    thread: int


class ScriptedEngine:
    """A Level 1 engine whose chunks are :class:`ScriptedChunk`; ``calls`` lists its calls in order.

    For failures, wrap it in :class:`~realtime_engine.testing.faults.FaultyEngine`.

    Args:
        max_sessions: sessions that can be attached at once.
        rate_hz: chunks per second.
        rollout_chunks: chunks after which a rollout ends; ``None``: it does not end.
    """

    def __init__(self, max_sessions: int = 8, rate_hz: float = 60.0, *, rollout_chunks: int | None = None) -> None:
        self._rollout_chunks = rollout_chunks
        self._manifest = EngineManifest(max_sessions, rate_hz=rate_hz)
        self._contexts: dict[str, dict[str, Any]] = {}
        self._ages: dict[str, int] = {}
        self.calls: list[Call] = []

    def manifest(self) -> EngineManifest:
        """Capacity and rate."""
        return self._manifest

    def attach(self, init: SessionInit) -> None:
        """Admit a session. Raises :class:`AdmissionError` when full."""
        self._record("attach", init.session_id)
        if init.session_id in self._contexts:
            return
        if len(self._contexts) >= self._manifest.max_sessions:
            raise AdmissionError(f"the engine is full: all {len(self._contexts)} places are taken")
        self._contexts[init.session_id] = dict(init.context)
        self._ages[init.session_id] = 0

    def step(self, due: Mapping[str, Mapping[str, Any]]) -> list[StepResult]:
        """Make one chunk for each due session, in order of attach."""
        self._record("step", {session_id: dict(given) for session_id, given in due.items()})
        return [self._advance(session_id, due[session_id]) for session_id in self._contexts if session_id in due]

    def finalize(self, session_ids: list[str]) -> None:
        """Record the call."""
        self._record("finalize", list(session_ids))

    def detach(self, session_id: str) -> None:
        """Forget a session."""
        self._record("detach", session_id)
        self._contexts.pop(session_id, None)
        self._ages.pop(session_id, None)

    @property
    def active_sessions(self) -> int:
        """Sessions attached."""
        return len(self._contexts)

    def calls_of(self, hook: str) -> list[Any]:
        """The arguments of each call of one hook."""
        return [call.argument for call in self.calls if call.hook == hook]

    def _advance(self, session_id: str, given: Mapping[str, Any]) -> StepResult:
        age = self._ages[session_id]
        self._ages[session_id] = age + 1
        chunk = ScriptedChunk(session_id, self._contexts[session_id], age, dict(given))
        return StepResult(session_id, chunk, {"step_ms": 0.0}, last=age + 1 == self._rollout_chunks)

    def _record(self, hook: str, argument: Any) -> None:
        self.calls.append(Call(hook, argument, threading.get_ident()))
