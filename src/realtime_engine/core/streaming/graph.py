"""Validation of a pipeline graph, and its tables for the scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .specs import StreamingEdgeSpec, StreamingPipelineSpec, StreamingStageSpec


@dataclass(frozen=True)
class StageTable:
    """Lookup tables of one stage. Stages and output artifacts are numbered.

    Attributes:
        index: of the stage, in topological order.
        spec: its declaration.
        queued: the artifacts that it consumes by sequence, in the order of their bits in a mask of arrived inputs.
        controls: the artifacts of which it samples the newest value.
        bits: artifact -> its bit in the mask.
        capacities: artifact -> sequences of it that may wait here.
        targets: artifact -> the stages that consume it, for everything that this stage produces.
        room: (stage, capacity) for each stage that this one has edges to; the smallest capacity of these.
        outputs: artifact -> number of the output, for what leaves the pipeline here.
        sources: the stages with edges to this one, which may proceed when this one takes a sequence.
        ingress: whether an input of the pipeline is queued here.
        full_mask: the mask of a sequence that has all its inputs.
    """

    index: int
    spec: StreamingStageSpec
    queued: tuple[str, ...]
    controls: tuple[str, ...]
    bits: Mapping[str, int]
    capacities: Mapping[str, int]
    targets: Mapping[str, tuple[int, ...]]
    room: tuple[tuple[int, int], ...]
    outputs: Mapping[str, int]
    sources: tuple[int, ...]
    ingress: bool
    full_mask: int


class PipelineGraph:
    """A validated pipeline.

    Attributes:
        spec: its declaration.
        stages: the tables of the stages, in topological order.
        index: stage id -> index in ``stages``.
        inputs: artifact -> the stages that it is queued for, for inputs that are pushed by sequence.
        controls: artifact -> the stages that sample it.
        outputs: the output artifacts, in the order of their numbers.
        producers: number of an output -> the stage that produces it.

    Raises:
        ValueError: naming the part of the graph that is wrong.
    """

    def __init__(self, spec: StreamingPipelineSpec) -> None:
        self.spec = spec
        check_parts(spec)
        producers = producers_of(spec)
        check_edges(spec, producers)
        check_ends(spec, producers)
        order = topological_order(spec)
        self.index: dict[str, int] = {stage.stage_id: index for index, stage in enumerate(order)}
        self.outputs: tuple[str, ...] = tuple(sorted(spec.output_artifacts))
        self.inputs = self._external("queue")
        self.controls = self._external("latest")
        self.stages: tuple[StageTable, ...] = tuple(self._table(stage) for stage in order)
        self.producers: tuple[int, ...] = tuple(self.index[producers[name]] for name in self.outputs)

    def _external(self, kind: str) -> dict[str, tuple[int, ...]]:
        targets: dict[str, list[int]] = {}
        for edge in self.spec.edges:
            if edge.source_stage is None and edge.kind == kind:
                targets.setdefault(edge.artifact, []).append(self.index[edge.target_stage])
        return {artifact: tuple(sorted(found)) for artifact, found in sorted(targets.items())}

    def _table(self, stage: StreamingStageSpec) -> StageTable:
        arriving = sorted(
            (edge for edge in self.spec.edges if edge.target_stage == stage.stage_id), key=lambda edge: edge.artifact
        )
        leaving = [edge for edge in self.spec.edges if edge.source_stage == stage.stage_id]
        queued = tuple(edge.artifact for edge in arriving if edge.kind == "queue")
        room: dict[int, int] = {}
        for edge in leaving:
            target = self.index[edge.target_stage]
            room[target] = min(edge.capacity_per_session, room.get(target, edge.capacity_per_session))
        return StageTable(
            index=self.index[stage.stage_id],
            spec=stage,
            queued=queued,
            controls=tuple(edge.artifact for edge in arriving if edge.kind == "latest"),
            bits={artifact: 1 << place for place, artifact in enumerate(queued)},
            capacities={edge.artifact: edge.capacity_per_session for edge in arriving},
            targets={
                artifact: tuple(self.index[edge.target_stage] for edge in leaving if edge.artifact == artifact)
                for artifact in sorted(stage.produces)
            },
            room=tuple(sorted(room.items())),
            outputs={name: number for number, name in enumerate(self.outputs) if name in stage.produces},
            sources=tuple(
                sorted({self.index[edge.source_stage] for edge in arriving if edge.source_stage is not None})
            ),
            ingress=any(edge.source_stage is None and edge.kind == "queue" for edge in arriving),
            full_mask=(1 << len(queued)) - 1,
        )


def check_parts(spec: StreamingPipelineSpec) -> None:
    """Check that stages and groups exist, once each, and that references between them resolve."""
    if not spec.stages:
        raise ValueError("a pipeline needs at least one stage, got none")
    refuse_duplicates("stage", (stage.stage_id for stage in spec.stages))
    refuse_duplicates("resource group", (group.name for group in spec.resource_groups))
    groups = {group.name for group in spec.resource_groups}
    for stage in spec.stages:
        if stage.resource_group is not None and stage.resource_group not in groups:
            raise ValueError(f"stage {stage.stage_id!r} names the unknown resource group {stage.resource_group!r}")


def producers_of(spec: StreamingPipelineSpec) -> dict[str, str]:
    """Artifact -> the stage that produces it; ``ValueError`` if there are two."""
    producers: dict[str, str] = {}
    for stage in spec.stages:
        for artifact in sorted(stage.produces):
            if artifact in producers:
                raise ValueError(
                    f"artifact {artifact!r} has two producers: {producers[artifact]!r} and {stage.stage_id!r}"
                )
            producers[artifact] = stage.stage_id
    return producers


def check_edges(spec: StreamingPipelineSpec, producers: Mapping[str, str]) -> None:
    """Check that each edge connects a producer and a consumer, and that each consumed artifact has an edge."""
    stages = {stage.stage_id: stage for stage in spec.stages}
    refuse_duplicates("edge", (f"{edge.artifact} to {edge.target_stage}" for edge in spec.edges))
    kinds: dict[str, str] = {}
    for edge in spec.edges:
        check_edge(edge, stages, producers)
        if edge.source_stage is None and kinds.setdefault(edge.artifact, edge.kind) != edge.kind:
            raise ValueError(f"input {edge.artifact!r} has queue and latest edges; give the control another name")
    connected = {(edge.artifact, edge.target_stage) for edge in spec.edges}
    paced = {edge.target_stage for edge in spec.edges if edge.kind == "queue"}
    for stage in spec.stages:
        for artifact in sorted(stage.consumes):
            if (artifact, stage.stage_id) not in connected:
                raise ValueError(f"stage {stage.stage_id!r} consumes {artifact!r}, but has no edge for it")
        if stage.stage_id not in paced:
            raise ValueError(f"stage {stage.stage_id!r} is unreachable: it has no queue edge")


def check_edge(edge: StreamingEdgeSpec, stages: Mapping[str, StreamingStageSpec], producers: Mapping[str, str]) -> None:
    """Check that the stages of an edge exist, and that they produce and consume its artifact."""
    where = f"edge of {edge.artifact!r}"
    if edge.target_stage not in stages:
        raise ValueError(f"{where}: unknown target stage {edge.target_stage!r}")
    if edge.artifact not in stages[edge.target_stage].consumes:
        raise ValueError(f"{where}: stage {edge.target_stage!r} does not consume it")
    if edge.source_stage is None:
        if edge.artifact in producers:
            raise ValueError(f"{where}: it is both an input and produced by stage {producers[edge.artifact]!r}")
        return
    if edge.source_stage not in stages:
        raise ValueError(f"{where}: unknown source stage {edge.source_stage!r}")
    if edge.artifact not in stages[edge.source_stage].produces:
        raise ValueError(f"{where}: stage {edge.source_stage!r} does not produce it")


def check_ends(spec: StreamingPipelineSpec, producers: Mapping[str, str]) -> None:
    """Check that each produced artifact is used, and that each output is produced."""
    for artifact in sorted(spec.output_artifacts):
        if artifact not in producers:
            raise ValueError(f"output {artifact!r} has no producer")
    wanted = {edge.artifact for edge in spec.edges} | spec.output_artifacts
    for artifact in sorted(producers):
        if artifact not in wanted:
            raise ValueError(
                f"stage {producers[artifact]!r} produces {artifact!r}, which is used by no edge and no output"
            )


def topological_order(spec: StreamingPipelineSpec) -> list[StreamingStageSpec]:
    """Sources before targets, otherwise as declared (Kahn, 1962).

    Since every stage has a queue edge, a stage that no input of the pipeline reaches is on a cycle or behind one.

    Raises:
        ValueError: the graph has a cycle.
    """
    waiting = {
        stage.stage_id: {
            edge.source_stage for edge in spec.edges if edge.target_stage == stage.stage_id and edge.source_stage
        }
        for stage in spec.stages
    }
    order: list[StreamingStageSpec] = []
    remaining = list(spec.stages)
    while remaining:
        stage = next((stage for stage in remaining if not waiting[stage.stage_id]), None)
        if stage is None:
            raise ValueError(f"stages on or behind a cycle: {', '.join(sorted(s.stage_id for s in remaining))}")
        order.append(stage)
        remaining.remove(stage)
        for sources in waiting.values():
            sources.discard(stage.stage_id)
    return order


def refuse_duplicates(what: str, given: Iterable[str]) -> None:
    """``ValueError`` for the first duplicate name."""
    for name, count in Counter(given).items():
        if count > 1:
            raise ValueError(f"duplicate {what}: {name!r}")
