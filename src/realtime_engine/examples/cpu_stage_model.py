"""A stage model with a stage on each lane, to run :class:`~realtime_engine.core.composed.ComposedEngine` anywhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..core.contract import EngineManifest
from ..core.lanes import Lane
from ..core.stages import Stage, StageBatch
from .pattern import chunk_of, digest

__all__ = ["CpuStageModel"]


class CpuStageModel:
    """Each chunk is a function of the row's seed, its age, its cheap conditioning and its encoded heavy values.

    The seed is ``context["seed"]``, or follows from the session id.

    Args:
        max_sessions: rows.
        chunk_shape: shape of a chunk, frames first.
        heavy_keys: conditioning keys that go through ENCODE.
        rate_hz: chunks per second.
        rollout_chunks: chunks after which a rollout ends; ``None``: it does not end.
    """

    def __init__(
        self,
        max_sessions: int = 4,
        chunk_shape: tuple[int, ...] = (2, 4, 4, 3),
        heavy_keys: tuple[str, ...] = ("prompt",),
        rate_hz: float = 60.0,
        rollout_chunks: int | None = None,
    ) -> None:
        self.chunk_shape = tuple(chunk_shape)
        self._heavy_keys = tuple(heavy_keys)
        self._rollout_chunks = rollout_chunks
        self._manifest = EngineManifest(max_sessions, self.chunk_shape, rate_hz, frames_per_chunk=self.chunk_shape[0])
        self._seeds: dict[int, int | None] = {}
        self._embeddings: dict[int, int] = {}

    def manifest(self) -> EngineManifest:
        return self._manifest

    def stages(self) -> list[Stage]:
        return [_Encode(self), _Generate(self), _Decode(self)]

    def heavy_keys(self) -> Collection[str]:
        return self._heavy_keys

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        seeds = {row: int(context["seed"]) if "seed" in context else None for row, context in rows.items()}
        self._seeds.update(seeds)
        self._embeddings.update((row, self._embed(context)) for row, context in rows.items())

    def detach(self, row: int, session_id: str) -> None:
        self._seeds.pop(row, None)
        self._embeddings.pop(row, None)

    def encode(self, batch: StageBatch) -> None:
        """ENCODE: take over the rows' new heavy values."""
        for row in batch.rows_in_order():
            self._embeddings[row] = self._embed(batch.conditioning[_session(batch, row)])

    def generate(self, batch: StageBatch) -> None:
        """HOT: one latent a row."""
        batch.data["latents"] = {row: self._latent(batch, row) for row in batch.rows_in_order()}
        if self._rollout_chunks is not None:
            batch.finished.update(row for row, age in batch.ages.items() if age + 1 >= self._rollout_chunks)

    def decode(self, batch: StageBatch) -> None:
        """DEFERRED: latents to chunks."""
        for row in batch.rows_in_order():
            batch.outputs[_session(batch, row)] = chunk_of(batch.data["latents"][row], self.chunk_shape)

    def _latent(self, batch: StageBatch, row: int) -> int:
        session_id = _session(batch, row)
        seed = self._seeds[row]
        if seed is None:
            seed = self._seeds[row] = digest(session_id) % 10_000
        cheap = {key: value for key, value in batch.conditioning[session_id].items() if key not in self._heavy_keys}
        return digest((seed, batch.ages[row], cheap, self._embeddings[row]))

    def _embed(self, conditioning: Mapping[str, Any]) -> int:
        return digest({key: conditioning[key] for key in self._heavy_keys if key in conditioning})


def _session(batch: StageBatch, row: int) -> str:
    session_id = batch.session_at(row)
    assert session_id is not None, f"row {row} takes no part in this batch"
    return session_id


class _Encode:
    lane = Lane.ENCODE

    def __init__(self, model: CpuStageModel) -> None:
        self._model = model

    def __call__(self, batch: StageBatch) -> None:
        self._model.encode(batch)


class _Generate:
    lane = Lane.HOT

    def __init__(self, model: CpuStageModel) -> None:
        self._model = model

    def __call__(self, batch: StageBatch) -> None:
        self._model.generate(batch)


class _Decode:
    lane = Lane.DEFERRED

    def __init__(self, model: CpuStageModel) -> None:
        self._model = model

    def __call__(self, batch: StageBatch) -> None:
        self._model.decode(batch)
