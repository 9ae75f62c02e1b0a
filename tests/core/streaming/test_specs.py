"""Specs refuse nonsense, and say which."""

from __future__ import annotations

import dataclasses

import pytest

from realtime_engine.core.streaming.specs import (
    StageOrdering,
    StreamingEdgeSpec,
    StreamingPipelineSpec,
    StreamingResourceGroupSpec,
    StreamingStageSpec,
)

X, Y = frozenset({"x"}), frozenset({"y"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stage_id": ""}, "stage_id must be a name"),
        ({"consumes": "x"}, "stage 'a': consumes must be a set of names"),
        ({"consumes": None}, "stage 'a': consumes must be a collection, got None"),
        ({"produces": [["y"]]}, "stage 'a': produces must be a name, got \\['y'\\]"),
        ({"produces": frozenset({""})}, "stage 'a': produces must be a name"),
        ({"produces": X}, "stage 'a': consumes and produces 'x'"),
        ({"ordering": "none"}, "stage 'a': ordering must be a StageOrdering"),
        ({"max_in_flight_per_session": 0}, "max_in_flight_per_session must be an integer of 1 or more, got 0"),
        ({"max_in_flight_per_session": 2}, "must be 1 when the order is strict, got 2"),
        ({"max_in_flight_global": True}, "max_in_flight_global must be an integer"),
        ({"resource_group": ""}, "resource_group must be a name"),
    ],
)
def test_stages(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StreamingStageSpec(**{"stage_id": "a", "consumes": X, "produces": Y, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"artifact": 3}, "artifact must be a name, got 3"),
        ({"target_stage": ""}, "target_stage must be a name"),
        ({"source_stage": ""}, "edge of 'x' to 'a': source_stage must be a name"),
        ({"capacity_per_session": 0}, "edge of 'x' to 'a': capacity_per_session"),
        ({"kind": "newest"}, "kind must be 'queue' or 'latest', got 'newest'"),
        ({"kind": "latest", "source_stage": "b"}, "a latest edge is an input of the pipeline"),
    ],
)
def test_edges(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StreamingEdgeSpec(**{"artifact": "x", "target_stage": "a", **options})


def test_groups_and_pipelines() -> None:
    with pytest.raises(ValueError, match="resource group 'gpu': max_concurrency"):
        StreamingResourceGroupSpec("gpu", 0)
    with pytest.raises(ValueError, match="stages must hold StreamingStageSpec, got 'a'"):
        StreamingPipelineSpec(("a",), ())
    for parts in ({"stages": None}, {"edges": 3}, {"resource_groups": None}, {"output_artifacts": None}):
        with pytest.raises(ValueError, match=f"{next(iter(parts))} must be a collection"):
            StreamingPipelineSpec(**{"stages": (), "edges": (), **parts})
    with pytest.raises(ValueError, match="output_capacity_per_session"):
        StreamingPipelineSpec((), (), output_capacity_per_session=0)
    with pytest.raises(ValueError, match="output_artifacts must be a set of names"):
        StreamingPipelineSpec((), (), output_artifacts="out")


def test_specs_are_values() -> None:
    spec = StreamingStageSpec("a", {"x"}, ["y"])  # any collection of names becomes a frozen set
    assert spec == StreamingStageSpec("a", X, Y) and hash(spec)
    assert spec.ordering is StageOrdering.PER_SESSION_STRICT
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.stage_id = "b"
    pipeline = StreamingPipelineSpec([spec], [StreamingEdgeSpec("x", "a")], {"y"})
    assert hash(pipeline) and pipeline.stages == (spec,) and pipeline.output_artifacts == Y
