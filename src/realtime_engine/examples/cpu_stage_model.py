"""A stage model with one stage on each lane, for :class:`~realtime_engine.core.composed.ComposedEngine`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..core.contract import EngineManifest
from ..core.lanes import Lane
from ..core.stages import LaneStage, Stage, StageBatch, session_in
from .pattern import chunk_of, digest

__all__ = ["CpuStageModel"]


class CpuStageModel:
    """A model whose chunks are functions of the row's seed, its age, its cheap conditioning and its heavy values.

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
        """Capacity and cadence."""
        return self._manifest

    def stages(self) -> list[Stage]:
        """One stage on each lane."""
        return [
            LaneStage(Lane.ENCODE, self.encode),
            LaneStage(Lane.HOT, self.generate),
            LaneStage(Lane.DEFERRED, self.decode),
        ]

    def heavy_keys(self) -> Collection[str]:
        """Keys that go through ENCODE."""
        return self._heavy_keys

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        """Store each row's seed and embed its heavy values."""
        seeds = {row: int(context["seed"]) if "seed" in context else None for row, context in rows.items()}
        self._seeds.update(seeds)
        self._embeddings.update((row, self._embed(context)) for row, context in rows.items())

    def detach(self, row: int, session_id: str) -> None:
        """Forget a row."""
        self._seeds.pop(row, None)
        self._embeddings.pop(row, None)

    def encode(self, batch: StageBatch) -> None:
        """ENCODE: embed the rows' new heavy values."""
        for row in batch.rows_in_order():
            self._embeddings[row] = self._embed(batch.conditioning[session_in(batch, row)])

    def generate(self, batch: StageBatch) -> None:
        """HOT: make one latent for each row."""
        batch.data["latents"] = {row: self._latent(batch, row) for row in batch.rows_in_order()}
        if self._rollout_chunks is not None:
            batch.finished.update(row for row, age in batch.ages.items() if age + 1 >= self._rollout_chunks)

    def decode(self, batch: StageBatch) -> None:
        """DEFERRED: make the rows' chunks of their latents."""
        for row in batch.rows_in_order():
            batch.outputs[session_in(batch, row)] = chunk_of(batch.data["latents"][row], self.chunk_shape)

    def _latent(self, batch: StageBatch, row: int) -> int:
        session_id = session_in(batch, row)
        seed = self._seeds[row]
        if seed is None:
            seed = self._seeds[row] = digest(session_id) % 10_000
        cheap = {key: value for key, value in batch.conditioning[session_id].items() if key not in self._heavy_keys}
        return digest((seed, batch.ages[row], cheap, self._embeddings[row]))

    def _embed(self, conditioning: Mapping[str, Any]) -> int:
        return digest({key: conditioning[key] for key in self._heavy_keys if key in conditioning})
