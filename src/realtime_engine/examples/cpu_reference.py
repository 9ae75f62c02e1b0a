"""A minimal Level 1 engine."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ..core.contract import AdmissionError, EngineManifest, SessionInit, StepResult
from .pattern import chunk_of, digest

__all__ = ["CpuReferenceEngine"]


class CpuReferenceEngine:
    """An engine whose chunks are functions of the session's seed, its age and its conditioning.

    The seed is ``context["seed"]``, or follows from the session id.

    Args:
        max_sessions: sessions that can be attached at once.
        chunk_shape: shape of a chunk (uint8), frames first.
    """

    def __init__(self, max_sessions: int = 4, chunk_shape: tuple[int, ...] = (2, 4, 4, 3)) -> None:
        self._manifest = EngineManifest(max_sessions, tuple(chunk_shape), frames_per_chunk=chunk_shape[0])
        self._seeds: dict[str, int] = {}
        self._ages: dict[str, int] = {}

    def manifest(self) -> EngineManifest:
        """Capacity, and 60 chunks per second."""
        return self._manifest

    def attach(self, init: SessionInit) -> None:
        """Admit and seed a session. Raises :class:`AdmissionError` when full."""
        if init.session_id in self._seeds:
            return
        if len(self._seeds) >= self._manifest.max_sessions:
            raise AdmissionError(f"the engine is full: all {len(self._seeds)} places are taken")
        self._seeds[init.session_id] = int(init.context.get("seed", digest(init.session_id) % 10_000))
        self._ages[init.session_id] = 0

    def step(self, due: Mapping[str, Mapping[str, Any]]) -> list[StepResult]:
        """Make one chunk for each due session."""
        began = time.perf_counter()
        results = []
        for session_id, seed in self._seeds.items():
            if session_id in due:
                state = digest((seed, self._ages[session_id], due[session_id]))
                self._ages[session_id] += 1
                results.append(StepResult(session_id, chunk_of(state, self._manifest.chunk_shape)))
        step_ms = (time.perf_counter() - began) * 1000.0
        for result in results:
            result.stats = {"step_ms": step_ms}
        return results

    def finalize(self, session_ids: list[str]) -> None:
        """Do nothing."""

    def detach(self, session_id: str) -> None:
        """Forget a session."""
        self._seeds.pop(session_id, None)
        self._ages.pop(session_id, None)

    @property
    def active_sessions(self) -> int:
        """Sessions attached."""
        return len(self._seeds)
