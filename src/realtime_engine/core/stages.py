"""How a model is written for :class:`~realtime_engine.core.composed.ComposedEngine`: stages over a batch of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from .contract import EngineManifest
from .lanes import Lane

__all__ = ["Stage", "StageBatch", "StageModel"]


@dataclass(slots=True)
class StageBatch:
    """What one step's stages work on, in place.

    Set by the engine: ``slots``, ``conditioning``, ``due``, ``ages``. Filled by the stages: ``data``, ``outputs``.

    Attributes:
        slots: row -> session id, the whole arena; ``None`` for a row that takes no part in this step.
        conditioning: session id -> conditioning of this step; a stage may change it.
        due: the sessions that this step advances.
        ages: row -> chunks made since the row was seeded (0 for the first).
        data: workspace that earlier stages leave for later ones of the same batch.
        outputs: session id -> chunk, filled by the last stages; opaque to the engine.
    """

    slots: dict[int, str | None]
    conditioning: dict[str, Mapping[str, Any]]
    due: set[str] = field(default_factory=set)
    ages: dict[int, int] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)

    def rows_in_order(self) -> list[int]:
        """Rows that take part, ascending."""
        return sorted(row for row, session_id in self.slots.items() if session_id is not None)

    def session_at(self, row: int) -> str | None:
        """The session in ``row``, ``None`` when it takes no part."""
        return self.slots.get(row)

    def part(self, rows: Sequence[int]) -> StageBatch:
        """The same step for some of its rows only, with the same ``data`` and no outputs yet."""
        sessions = {row: self.slots[row] for row in rows}
        ids = {session_id for session_id in sessions.values() if session_id is not None}
        return StageBatch(
            slots={row: sessions.get(row) for row in self.slots},
            conditioning={session_id: self.conditioning[session_id] for session_id in ids},
            due=ids,
            ages={row: self.ages[row] for row in rows},
            data=dict(self.data),
        )

    def drop(self, row: int, session_id: str) -> None:
        """Take one session out, before its outputs are read."""
        self.slots[row] = None
        self.conditioning.pop(session_id, None)
        self.due.discard(session_id)
        self.ages.pop(row, None)
        self.outputs.pop(session_id, None)


@runtime_checkable
class Stage(Protocol):
    """One unit of work on one lane.

    Boundary-atomic: when it raises, the model's resident state must still be that of the last chunk boundary, because
    the engine runs the same rows again, together or apart. A DEFERRED stage may see fewer rows than HOT did for the
    same batch (one left, one failed): it finds a row's share of ``data`` by the row, never by its position.
    """

    @property
    def lane(self) -> Lane:
        """A plain attribute will do."""

    def __call__(self, batch: StageBatch) -> None: ...


@runtime_checkable
class StageModel(Protocol):
    """A model as rows and stages; the engine owns admission, batching and the pipeline.

    Optional, looked up by name:

    ``heavy_keys() -> Collection[str]``
        Conditioning keys whose change needs an ENCODE. Absent: none.
    ``heavy_equal(previous, wanted) -> bool``
        Equality of two mappings of heavy values, for models that carry tensors or revisions.
    ``heavy_policy() -> str``
        ``"sit_out"`` (the default): a row is left out of HOT until its encode has ended. ``"keep_running"``: the row
        goes on with the old value meanwhile, so its ENCODE must not disturb a HOT of the same row beside it.
    ``seed_ready(pending) -> bool``
        Whether the rows that wait (row -> attach context) may be seeded now. Absent: always.
    ``cuda_device() -> Any``
        The CUDA device that the model runs on; asked for on the stepping thread.

    ENCODE stages may run beside HOT and DEFERRED stages of other rows: they touch the encoded rows alone.
    """

    def manifest(self) -> EngineManifest: ...

    def stages(self) -> Sequence[Stage]:
        """In the order in which they run; those of one lane run one after the other."""

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        """Give these rows (row -> attach context) their first state, heavy values included. Called at a boundary."""

    def detach(self, row: int, session_id: str) -> None:
        """Release a row's state. Idempotent."""
