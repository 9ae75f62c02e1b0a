"""The contract between a caller and an engine.

Level 1, which every engine implements: ``manifest``, ``attach``, ``step``, ``finalize``, ``detach``. Level 2, optional:
``async serve(inbox, outbox, *, stop)``, for engines that own their loop; all others are driven by
:func:`~realtime_engine.core.serve.default_serve`.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from .errors import AdmissionError

__all__ = ["AdmissionError", "EngineManifest", "RealtimeInterface", "SessionInit", "StepResult"]


@dataclass(frozen=True)
class EngineManifest:
    """Capacity and cadence of an engine, fixed when it is built.

    Attributes:
        max_sessions: sessions that can be attached at once.
        chunk_shape: shape of one session's output of one step; ``()``: not declared.
        rate_hz: chunks per second in steady state.
        frames_per_chunk: frames in one chunk; playback runs at ``rate_hz * frames_per_chunk`` frames per second.
        input_latency_chunks: chunks from the boundary at which conditioning arrives to the first that depends on it.
        pipeline_depth_chunks: steps from the one that begins a chunk to the one that returns it (1: no pipeline).

    Raises:
        ValueError: naming the field.
    """

    max_sessions: int
    chunk_shape: tuple[int, ...] = ()
    rate_hz: float = 60.0
    frames_per_chunk: int = 1
    input_latency_chunks: int = 1
    pipeline_depth_chunks: int = 1

    def __post_init__(self) -> None:
        for name, least in _MIN.items():
            _check_count(name, getattr(self, name), least)
        if not _is_number(self.rate_hz) or not math.isfinite(self.rate_hz) or self.rate_hz <= 0:
            raise ValueError(f"rate_hz must be a finite number of chunks per second above 0, got {self.rate_hz!r}")
        shape = self.chunk_shape
        if not isinstance(shape, tuple) or not all(_is_count(size) and size >= 1 for size in shape):
            raise ValueError(f"chunk_shape must be a tuple of integers of 1 or more, got {shape!r}")

    @property
    def action_to_output_chunks(self) -> int:
        """Chunks from an action at a boundary to the first chunk that shows it."""
        return self.input_latency_chunks + self.pipeline_depth_chunks - 1


_MIN = {
    "max_sessions": 1,
    "frames_per_chunk": 1,
    "input_latency_chunks": 0,
    "pipeline_depth_chunks": 1,
}


def _is_count(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _check_count(name: str, value: object, least: int) -> None:
    if not _is_count(value) or value < least:  # type: ignore[operator]
        raise ValueError(f"{name} must be an integer of {least} or more, got {value!r}")


@dataclass
class SessionInit:
    """Arguments of an attach: the session's id, and the context that seeds it (prompt, seed, image)."""

    session_id: str
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class StepResult:
    """One session's chunk out of one step.

    Attributes:
        output: the chunk; opaque to the engine.
        stats: numbers that belong to the chunk, such as ``step_ms``.
        last: the rollout ends with this chunk. The session stays attached and is not stepped again until it is reset;
            results that a pipeline had already begun for it are discarded.
    """

    session_id: str
    output: Any
    stats: Mapping[str, float] = field(default_factory=dict)
    last: bool = field(default=False, kw_only=True)


@runtime_checkable
class RealtimeInterface(Protocol):
    """Level 1 of the contract.

    The default loop makes every call from one thread, one at a time, so that thread-local state (the CUDA device, the
    grad mode) which one call sets holds in every later one.

    Optional, looked up by name:

    ``serve(inbox, outbox, *, stop, monitor=None, max_chunks=None)``
        Level 2: a coroutine function that owns the loop and returns after the event ``stop`` is set. Two parameters
        are optional. ``monitor`` is the :class:`~realtime_engine.core.monitor.ServeMonitor` whose counters it updates;
        it is passed when the signature accepts it. ``max_chunks`` limits the chunks of each epoch of a session, with
        :class:`~realtime_engine.core.messages.Finished` after the last; without that parameter a limit is refused.
    ``reset(init)``
        Seed an attached session again in place. Raises :class:`AdmissionError` *before* anything is released if the
        session cannot be admitted again. Without it the loop detaches and attaches.
    ``copies_conditioning``
        True if the engine copies each mapping of ``due`` before it changes it, so that the loop need not.
    ``close()``
        Release what the engine holds besides its sessions, such as threads. Called, if at all, after the last other
        call, by the code that built the engine.
    ``pending_sessions``
        Collection of ids that are attached and not yet seeded; the loop answers their Attach once they are seeded.
    """

    def manifest(self) -> EngineManifest:
        """Capacity and cadence; the same value at every call."""

    def attach(self, init: SessionInit) -> None:
        """Admit a session; does nothing if it is attached. Raises :class:`AdmissionError` when full."""

    def step(self, due: Mapping[str, Mapping[str, Any]]) -> list[StepResult]:
        """Advance each session of ``due`` (session id -> conditioning) by one chunk.

        The engine may change each mapping, but not the values in it (arrays, nested containers). It ignores unknown
        ids and does not advance attached sessions that are not in ``due``. It may return fewer results than ``due`` has
        entries (warm-up of a pipeline, rows that are being encoded). ``step({})`` returns what a pipeline still holds.

        Raises:
            StepFailure: the engine knows which sessions failed.
            Exception: the loop finds the session by bisection, so no session may have advanced.
        """

    def finalize(self, session_ids: list[str]) -> None:
        """Maintenance after the chunks of these sessions were sent. May do nothing."""

    def detach(self, session_id: str) -> None:
        """Release a session; does nothing if it is not attached."""
