"""The interface of a model for :class:`~realtime_engine.core.composed.ComposedEngine`: stages over rows of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from .contract import EngineManifest
from .errors import EngineContractError, call_hook
from .lanes import Lane

__all__ = [
    "LaneStage",
    "Stage",
    "StageBatch",
    "StageModel",
    "check_outputs",
    "checked_manifest",
    "checked_stages",
    "name_of",
    "run_stages",
    "session_in",
]


@dataclass(slots=True)
class StageBatch:
    """One step's batch, which its stages change in place.

    Set by the engine: ``slots``, ``conditioning``, ``due``, ``ages``. Filled by the stages: ``data``, ``outputs``,
    ``finished``.

    Attributes:
        slots: row -> session id, for all rows of the engine; ``None`` for a row that takes no part in this step.
        conditioning: session id -> conditioning of this step; a stage may change it. HOT and DEFERRED see a heavy value
            (see :class:`StageModel`) from the step on in which its encode has ended, and the previous value until then.
        due: the sessions that this step advances.
        ages: row -> chunks begun since the row was seeded (0 for the first).
        data: results of earlier stages for later ones of the same batch.
        outputs: session id -> chunk, filled by the last stages; opaque to the engine.
        finished: rows whose rollout ends with the chunk of this step. A HOT or DEFERRED stage adds them; the engine
            marks the chunk as the last and does not step the row until its session is reset. In a pipeline, HOT's part
            of the row's next chunk is discarded. If the last chunk is lost to a failure, the row is stepped again, so a
            model adds a row at its last chunk and at each one after it.
    """

    slots: dict[int, str | None]
    conditioning: dict[str, Mapping[str, Any]]
    due: set[str] = field(default_factory=set)
    ages: dict[int, int] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)

    def rows_in_order(self) -> list[int]:
        """Rows that take part, ascending."""
        return sorted(row for row, session_id in self.slots.items() if session_id is not None)

    def session_at(self, row: int) -> str | None:
        """The session in ``row``, ``None`` if it takes no part."""
        return self.slots.get(row)

    def part(self, rows: Sequence[int]) -> StageBatch:
        """A batch of the same step with some of its rows, the same ``data`` and no outputs."""
        sessions = {row: self.slots[row] for row in rows}
        ids = {session_id for session_id in sessions.values() if session_id is not None}
        return StageBatch(
            slots={row: sessions.get(row) for row in self.slots},
            conditioning={session_id: self.conditioning[session_id] for session_id in ids},
            due=ids,
            ages={row: self.ages[row] for row in rows},
            data=dict(self.data),
            finished=self.finished.intersection(rows),
        )

    def drop(self, row: int, session_id: str) -> None:
        """Remove one session before its outputs are read."""
        self.slots[row] = None
        self.conditioning.pop(session_id, None)
        self.due.discard(session_id)
        self.ages.pop(row, None)
        self.outputs.pop(session_id, None)
        self.finished.discard(row)


@runtime_checkable
class Stage(Protocol):
    """One unit of work on one lane.

    Boundary-atomic: if it raises, the model's resident state must still be that of the last chunk boundary, because the
    engine runs the same rows again, together or alone. A DEFERRED stage may see fewer rows than HOT did for the same
    batch (a session was detached or failed), so it indexes ``data`` by row, not by position.
    """

    @property
    def lane(self) -> Lane:
        """The lane to run on; may be a plain attribute."""

    def __call__(self, batch: StageBatch) -> None:
        """Run the stage for the rows of ``batch``."""


@runtime_checkable
class StageModel(Protocol):
    """A model as rows and stages; the engine owns admission, batching and the pipeline.

    Optional, looked up by name:

    ``heavy_keys() -> Collection[str]``
        Conditioning keys whose change needs an ENCODE. Absent: none.
    ``heavy_equal(previous, wanted) -> bool``
        Equality of two mappings of heavy values, for models whose values are tensors or revisions.
    ``heavy_policy() -> str``
        ``"sit_out"`` (the default): a row is left out of HOT until its encode has ended. ``"keep_running"``: HOT runs
        the row with the old value during the encode, so ENCODE must not change what a HOT of the same row reads.
    ``seed_ready(pending) -> bool``
        Whether the pending rows (row -> attach context) may be seeded now. Absent: always.
    ``cuda_device() -> Any``
        The CUDA device that the model runs on; called on the stepping thread.

    ENCODE stages may run beside HOT and DEFERRED stages of other rows, so they touch the encoded rows only.
    """

    def manifest(self) -> EngineManifest:
        """Capacity and cadence; the engine sets ``pipeline_depth_chunks``."""

    def stages(self) -> Sequence[Stage]:
        """The stages in order; those of one lane run one after the other."""

    def seed(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        """Give these rows (row -> attach context) their first state, heavy values included. Called at a boundary."""

    def detach(self, row: int, session_id: str) -> None:
        """Release a row's state. Idempotent."""


def checked_stages(model: StageModel) -> list[Stage]:
    """The model's stages. Raises :class:`EngineContractError` if the model or a stage breaks the protocol."""
    for hook in ("manifest", "stages", "seed", "detach"):
        if isinstance(model, type) or not callable(getattr(model, hook, None)):
            what = f"the class {model.__name__}" if isinstance(model, type) else repr(model)
            raise EngineContractError(f"a StageModel has manifest, stages, seed and detach, got {what} (no {hook}())")
    stages = call_hook(model.stages)
    if not isinstance(stages, (list, tuple)):
        raise EngineContractError(f"{name_of(model)}.stages() must return a list of stages, got {stages!r}")
    for stage in stages:
        if not isinstance(getattr(stage, "lane", None), Lane) or not callable(stage):
            raise EngineContractError(f"a stage is callable and has a lane (Lane.HOT ...), got {stage!r}")
    return list(stages)


def checked_manifest(model: StageModel) -> EngineManifest:
    """The model's manifest. Raises :class:`EngineContractError` if it is not an :class:`EngineManifest`."""
    manifest = call_hook(model.manifest)
    if not isinstance(manifest, EngineManifest):
        raise EngineContractError(f"{name_of(model)}.manifest() must return an EngineManifest, got {manifest!r}")
    return manifest


def check_outputs(batch: StageBatch) -> None:
    """Raise :class:`EngineContractError` if the outputs are not keyed by session id."""
    outputs: Any = batch.outputs
    if not isinstance(outputs, dict):
        raise EngineContractError(f"stages must fill batch.outputs[session_id], got {type(outputs).__name__}")
    if not outputs.keys() <= batch.due and not all(isinstance(key, str) for key in outputs):
        raise EngineContractError(f"stages must fill batch.outputs[session_id], got the keys {list(outputs)[:4]}")


def run_stages(stages: list[Stage], batch: StageBatch) -> None:
    """Run the stages of one lane, in order."""
    for stage in stages:
        call_hook(stage, batch)


def name_of(model: object) -> str:
    """The model's type, for messages."""
    return type(model).__name__


class LaneStage:
    """A stage made of a lane and a function."""

    def __init__(self, lane: Lane, work: Callable[[StageBatch], None]) -> None:
        self.lane = lane
        self._work = work

    def __call__(self, batch: StageBatch) -> None:
        """Call the function."""
        self._work(batch)


def session_in(batch: StageBatch, row: int) -> str:
    """The session in a row that takes part."""
    session_id = batch.session_at(row)
    assert session_id is not None, f"row {row} takes no part in this batch"
    return session_id
