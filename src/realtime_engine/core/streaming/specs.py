"""Declaration of a pipeline: stages, edges between them, and resource groups."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeVar

__all__ = [
    "StageOrdering",
    "StreamingEdgeSpec",
    "StreamingPipelineSpec",
    "StreamingResourceGroupSpec",
    "StreamingStageSpec",
]

T = TypeVar("T")

EDGE_KINDS = ("queue", "latest")
DETACH_POLICIES = ("cancel", "drain")


class StageOrdering(str, Enum):
    """The order in which a stage processes the chunks of one session."""

    PER_SESSION_STRICT = "per_session_strict"  # one at a time, by sequence
    NONE = "none"  # as they become ready; outputs still leave the pipeline in order


@dataclass(frozen=True)
class StreamingStageSpec:
    """One stage.

    Attributes:
        stage_id: its name, which its actor is given under.
        consumes, produces: names of artifacts.
        ordering: see :class:`StageOrdering`.
        max_in_flight_per_session: limit of chunks of one session at its actor; 1 if the order is strict.
        max_in_flight_global: limit of chunks of all sessions at its actor.
        resource_group: the group that it shares with other stages; ``None``: none.

    Raises:
        ValueError: naming the field.
    """

    stage_id: str
    consumes: frozenset[str]
    produces: frozenset[str]
    ordering: StageOrdering = StageOrdering.PER_SESSION_STRICT
    max_in_flight_per_session: int = 1
    max_in_flight_global: int = 1
    resource_group: str | None = None

    def __post_init__(self) -> None:
        check_name("stage_id", self.stage_id)
        where = f"stage {self.stage_id!r}"
        object.__setattr__(self, "consumes", names(f"{where}: consumes", self.consumes))
        object.__setattr__(self, "produces", names(f"{where}: produces", self.produces))
        both = sorted(self.consumes & self.produces)
        if both:
            raise ValueError(f"{where}: consumes and produces {both[0]!r}; a stage keeps its own state itself")
        if not isinstance(self.ordering, StageOrdering):
            raise ValueError(f"{where}: ordering must be a StageOrdering, got {self.ordering!r}")
        check_count(f"{where}: max_in_flight_per_session", self.max_in_flight_per_session)
        check_count(f"{where}: max_in_flight_global", self.max_in_flight_global)
        if self.ordering is StageOrdering.PER_SESSION_STRICT and self.max_in_flight_per_session > 1:
            raise ValueError(
                f"{where}: max_in_flight_per_session must be 1 when the order is strict, "
                f"got {self.max_in_flight_per_session}; use StageOrdering.NONE for more"
            )
        if self.resource_group is not None:
            check_name(f"{where}: resource_group", self.resource_group)


@dataclass(frozen=True)
class StreamingEdgeSpec:
    """The way of one artifact to one stage.

    Attributes:
        artifact: its name.
        target_stage: the stage that consumes it.
        source_stage: the stage that produces it; ``None``: it is an input of the pipeline.
        capacity_per_session: sequences of a session that may wait for the target stage.
        kind: ``"queue"``: one value for each sequence. ``"latest"``: a control, which is an input of the pipeline. The
            newest value is sampled when an invocation begins (``None`` before the first); it never blocks and is not
            consumed.

    Raises:
        ValueError: naming the field.
    """

    artifact: str
    target_stage: str
    source_stage: str | None = None
    capacity_per_session: int = 1
    kind: Literal["queue", "latest"] = "queue"

    def __post_init__(self) -> None:
        check_name("artifact", self.artifact)
        check_name("target_stage", self.target_stage)
        where = f"edge of {self.artifact!r} to {self.target_stage!r}"
        if self.source_stage is not None:
            check_name(f"{where}: source_stage", self.source_stage)
        check_count(f"{where}: capacity_per_session", self.capacity_per_session)
        if self.kind not in EDGE_KINDS:
            raise ValueError(f"{where}: kind must be 'queue' or 'latest', got {self.kind!r}")
        if self.kind == "latest" and self.source_stage is not None:
            raise ValueError(f"{where}: a latest edge is an input of the pipeline, got source {self.source_stage!r}")


@dataclass(frozen=True)
class StreamingResourceGroupSpec:
    """A resource that several stages share, such as one device.

    Attributes:
        name: referenced by :attr:`StreamingStageSpec.resource_group`.
        max_concurrency: invocations that may use it at a time.

    Raises:
        ValueError: naming the field.
    """

    name: str
    max_concurrency: int = 1

    def __post_init__(self) -> None:
        check_name("name", self.name)
        check_count(f"resource group {self.name!r}: max_concurrency", self.max_concurrency)


@dataclass(frozen=True)
class StreamingPipelineSpec:
    """A graph of stages. The graph as a whole is checked when an orchestrator is built.

    Stages run concurrently, except for those of one resource group.

    Attributes:
        stages, edges, resource_groups: its parts.
        output_artifacts: artifacts that leave the pipeline.
        output_capacity_per_session: sequences of each output artifact that may wait for their reader.
        on_detach: policy for a served session that is detached. ``"cancel"`` drops its chunks in flight. ``"drain"``
            delivers them before ``Detached``, if that takes less than 10 seconds.

    Raises:
        ValueError: naming the field.
    """

    stages: tuple[StreamingStageSpec, ...]
    edges: tuple[StreamingEdgeSpec, ...]
    output_artifacts: frozenset[str] = frozenset()
    output_capacity_per_session: int = 1
    resource_groups: tuple[StreamingResourceGroupSpec, ...] = ()
    on_detach: Literal["cancel", "drain"] = "cancel"

    def __post_init__(self) -> None:
        for field, kind in (
            ("stages", StreamingStageSpec),
            ("edges", StreamingEdgeSpec),
            ("resource_groups", StreamingResourceGroupSpec),
        ):
            parts = members(field, getattr(self, field))
            for part in parts:
                if not isinstance(part, kind):
                    raise ValueError(f"{field} must hold {kind.__name__}, got {part!r}")
            object.__setattr__(self, field, parts)
        object.__setattr__(self, "output_artifacts", names("output_artifacts", self.output_artifacts))
        check_count("output_capacity_per_session", self.output_capacity_per_session)
        if self.on_detach not in DETACH_POLICIES:
            raise ValueError(f"on_detach must be 'cancel' or 'drain', got {self.on_detach!r}")


def names(field: str, given: Iterable[str]) -> frozenset[str]:
    """``given`` as a set of names.

    Raises:
        ValueError: naming ``field``, if it is anything else.
    """
    if isinstance(given, str):
        raise ValueError(f"{field} must be a set of names, got the string {given!r}")
    found = members(field, given)
    for name in found:
        check_name(field, name)
    return frozenset(found)


def members(field: str, given: Iterable[T]) -> tuple[T, ...]:
    """``given`` as a tuple.

    Raises:
        ValueError: naming ``field``, if it is not iterable.
    """
    if not isinstance(given, Iterable):
        raise ValueError(f"{field} must be a collection, got {given!r}")
    return tuple(given)


def check_name(field: str, name: object) -> None:
    """``ValueError`` naming ``field`` unless ``name`` is a non-empty string."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"{field} must be a name, got {name!r}")


def check_count(field: str, count: object) -> None:
    """``ValueError`` naming ``field`` unless ``count`` is an integer of 1 or more."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"{field} must be an integer of 1 or more, got {count!r}")


def check_seconds(field: str, seconds: object) -> None:
    """``ValueError`` naming ``field`` unless ``seconds`` is a finite number, 0 or more."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0.0 <= seconds < math.inf:
        raise ValueError(f"{field} must be a finite number of seconds, 0 or more, got {seconds!r}")


def check_callable(field: str, given: object) -> None:
    """``ValueError`` naming ``field`` unless ``given`` is callable."""
    if not callable(given):
        raise ValueError(f"{field} must be a function, got {given!r}")
