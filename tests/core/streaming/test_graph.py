"""A graph that cannot work is refused when the orchestrator is built."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from realtime_engine.core.streaming.graph import PipelineGraph
from realtime_engine.core.streaming.orchestrator import StreamingPipelineOrchestrator
from realtime_engine.core.streaming.specs import StreamingEdgeSpec as Edge
from realtime_engine.core.streaming.specs import StreamingPipelineSpec, StreamingResourceGroupSpec

from .manual_actors import ManualActor
from .pipelines import chain, diamond, stage

A, B = stage("a", "x", "y"), stage("b", "y", "z")
EDGES = (Edge("x", "a"), Edge("y", "b", "a"))
GPU = StreamingResourceGroupSpec("gpu")


def spec(
    stages: object = (A, B), edges: object = EDGES, outputs: str = "z", groups: object = ()
) -> StreamingPipelineSpec:
    return StreamingPipelineSpec(stages, edges, frozenset(outputs.split()), resource_groups=groups)


REFUSED: dict[str, tuple[Callable[[], StreamingPipelineSpec], str]] = {
    "no stages": (lambda: spec((), (), ""), "at least one stage"),
    "a stage twice": (lambda: spec((A, B, A)), "duplicate stage: 'a'"),
    "a group twice": (lambda: spec(groups=(GPU, GPU)), "duplicate resource group: 'gpu'"),
    "an unknown group": (
        lambda: spec((A, stage("b", "y", "z", resource_group="gpu"))),
        "stage 'b' names the unknown resource group 'gpu'",
    ),
    "two producers": (lambda: spec((A, B, stage("c", "y", "z"))), "artifact 'z' has two producers: 'b' and 'c'"),
    "an edge twice": (lambda: spec(edges=(*EDGES, Edge("y", "b", "a", 2))), "duplicate edge: 'y to b'"),
    "an unknown target": (lambda: spec(edges=(*EDGES, Edge("y", "c", "a"))), "unknown target stage 'c'"),
    "an unknown source": (lambda: spec(edges=(EDGES[0], Edge("y", "b", "c"))), "unknown source stage 'c'"),
    "not consumed": (lambda: spec(edges=(*EDGES, Edge("x", "b"))), "edge of 'x': stage 'b' does not consume it"),
    "not produced": (lambda: spec(edges=(EDGES[0], Edge("y", "b", "b"))), "stage 'b' does not produce it"),
    "produced and external": (
        lambda: spec(edges=(EDGES[0], Edge("y", "b"))),
        "edge of 'y': it is both an input and produced by stage 'a'",
    ),
    "an input without an edge": (lambda: spec(edges=EDGES[1:]), "stage 'a' consumes 'x', but has no edge for it"),
    "an artifact that nobody takes": (
        lambda: spec((A, B), outputs=""),
        "stage 'b' produces 'z', which is used by no edge",
    ),
    "an output without a producer": (lambda: spec(outputs="z w"), "output 'w' has no producer"),
    "only controls": (
        lambda: spec(edges=(Edge("x", "a", kind="latest"), EDGES[1])),
        "stage 'a' is unreachable: it has no queue edge",
    ),
    "a control that is queued too": (
        lambda: spec((stage("a", "x", "y"), stage("b", "x y", "z")), (*EDGES, Edge("x", "b", kind="latest"))),
        "input 'x' has queue and latest edges",
    ),
    "a cycle": (
        lambda: spec((stage("a", "x z", "y"), B), (*EDGES, Edge("z", "a", "b"))),
        "stages on or behind a cycle: a, b",
    ),
    "an unreachable output": (
        lambda: spec(
            (A, stage("c", "v", "w"), stage("d", "w", "v q")),
            (EDGES[0], Edge("v", "c", "d"), Edge("w", "d", "c")),
            "y q",
        ),
        "stages on or behind a cycle: c, d",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        StreamingPipelineOrchestrator(make(), {})


def test_actors_are_those_of_the_stages() -> None:
    actors = {name: ManualActor({}) for name in ("a", "b")}
    with pytest.raises(ValueError, match="stage 'b' has no actor"):
        StreamingPipelineOrchestrator(spec(), {"a": actors["a"]})
    with pytest.raises(ValueError, match="actor 'c' belongs to no stage; stages: a, b"):
        StreamingPipelineOrchestrator(spec(), {**actors, "c": ManualActor({})})
    with pytest.raises(ValueError, match="stage 'b' needs an actor or a factory"):
        StreamingPipelineOrchestrator(spec(), {**actors, "b": 3})


def test_tables() -> None:
    graph = PipelineGraph(diamond(2))
    left, right, join = graph.stages
    assert graph.inputs == {"x": (0, 1)} and graph.outputs == ("l", "out") and graph.producers == (0, 2)
    assert left.room == ((2, 2),) and left.targets == {"l": (2,)} and left.outputs == {"l": 0} and left.ingress
    assert join.sources == (0, 1) and join.bits == {"l": 1, "r": 2} and join.full_mask == 3 and not join.ingress
    assert right.outputs == {}


def test_the_order_is_topological_and_otherwise_as_given() -> None:
    given = chain(control=True)
    turned = StreamingPipelineSpec(given.stages[::-1], given.edges, given.output_artifacts)
    graph = PipelineGraph(turned)
    assert [table.spec.stage_id for table in graph.stages] == ["encode", "denoise", "decode"]
    assert graph.controls == {"steer": (1,)} and graph.stages[1].queued == ("y",)
