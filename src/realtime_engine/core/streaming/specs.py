"""What a streaming pipeline is made of: stages, the edges between them, and the resources that they share."""

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
    """In which order a stage takes the chunks of one session."""

    PER_SESSION_STRICT = "per_session_strict"  # one after the other, by sequence
    NONE = "none"  # any that is ready; its outputs leave the pipeline in order all the same


@dataclass(frozen=True)
class StreamingStageSpec:
    """One stage.

    Attributes:
        stage_id: its name, and that of its actor.
        consumes, produces: names of artifacts.
        ordering: see :class:`StageOrdering`.
        max_in_flight_per_session: chunks of one session that its actor may hold at a time; 1 when the order is strict.
        max_in_flight_global: chunks of all sessions that its actor may hold at a time.
        resource_group: what it shares with other stages; ``None``: nothing.

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
    """How one artifact reaches one stage.

    Attributes:
        artifact: its name.
        target_stage: who consumes it.
        source_stage: who produces it; ``None``: it is an input of the pipeline.
        capacity_per_session: how many sequences of a session may wait for the target stage.
        kind: ``"queue"``: one value for every sequence. ``"latest"``: a control, which is an input of the pipeline.
            The newest value wins; it is sampled when an invocation begins (``None`` until there is one), and it never
            blocks and is never used up.

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
    """Something that several stages share, such as one device.

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

    Attributes:
        stages, edges, resource_groups: its parts.
        output_artifacts: what leaves the pipeline.
        output_capacity_per_session: sequences of each output artifact that may wait for their reader.
        on_detach: what a served session loses when it is detached. ``"cancel"``: the chunks that are not out yet.
            ``"drain"``: nothing; what was pushed still comes out, within 10 seconds, before ``Detached``.

    Two stages run at the same time unless a resource group says otherwise.

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
    """A set of names. ``ValueError`` naming ``field`` when it is anything else."""
    if isinstance(given, str):
        raise ValueError(f"{field} must be a set of names, got the string {given!r}")
    found = members(field, given)
    for name in found:
        check_name(field, name)
    return frozenset(found)


def members(field: str, given: Iterable[T]) -> tuple[T, ...]:
    """What is in it. ``ValueError`` naming ``field`` when it holds nothing."""
    if not isinstance(given, Iterable):
        raise ValueError(f"{field} must be a collection, got {given!r}")
    return tuple(given)


def check_name(field: str, name: object) -> None:
    """``ValueError`` naming ``field`` unless ``name`` is a string with something in it."""
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
    """``ValueError`` naming ``field`` unless it can be called."""
    if not callable(given):
        raise ValueError(f"{field} must be a function, got {given!r}")
