"""From a dream to the graph of stages that dreams it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.streaming import (
    BatchedStageActor,
    StreamingEdgeSpec,
    StreamingEngine,
    StreamingPipelineSpec,
    StreamingStageSpec,
)
from ..dream.model import DreamModel
from .stages import Decode, Denoise, Encode, wish_in


def build_engine(model: DreamModel) -> StreamingEngine:
    """The engine, which makes the frames that the model makes, bit for bit when the model's ``rows`` are ``"all"``.

    Args:
        model: whose network is used, warmed up if it is to be. The state of rows is the stages' own, so any number of
            engines may share it.
    """
    manifest = model.manifest()
    sessions, all_rows = manifest.max_sessions, model.rows == "all"
    encode = Encode(model.eyes)
    denoise = Denoise(model.chunks, sessions, all_rows)
    decode = Decode(model.chunks, sessions, all_rows)
    actors = {
        name: BatchedStageActor(handler, max_batch=sessions, name=name, session_closer=closer)
        for name, handler, closer in (
            ("encode", encode, encode.release),
            ("denoise", denoise, denoise.rows.release),
            ("decode", decode, decode.rows.release),
        )
    }
    return StreamingEngine(pipeline(sessions), actors, manifest, controls=split_controls)


def split_controls(conditioning: Mapping[str, Any]) -> Mapping[str, object]:
    """Conditioning -> the controls of the pipeline: the theme for encode, all else for denoise."""
    motion = {name: value for name, value in conditioning.items() if name != "theme"}
    return {"wish": wish_in(conditioning), "motion": motion}


def pipeline(sessions: int) -> StreamingPipelineSpec:
    """encode -> denoise -> decode; each stage takes all sessions that are ready in one batch."""

    def stage(name: str, consumes: set[str], produces: str) -> StreamingStageSpec:
        return StreamingStageSpec(name, frozenset(consumes), frozenset({produces}), max_in_flight_global=2 * sessions)

    return StreamingPipelineSpec(
        stages=(
            stage("encode", {"request", "wish"}, "encoded"),
            stage("denoise", {"request", "motion", "encoded"}, "latent"),
            stage("decode", {"latent"}, "frames"),
        ),
        edges=(
            StreamingEdgeSpec("request", "encode"),
            StreamingEdgeSpec("request", "denoise", capacity_per_session=2),  # lies there while encode works
            StreamingEdgeSpec("wish", "encode", kind="latest"),
            StreamingEdgeSpec("motion", "denoise", kind="latest"),
            StreamingEdgeSpec("encoded", "denoise", source_stage="encode"),
            StreamingEdgeSpec("latent", "decode", source_stage="denoise"),
        ),
        output_artifacts=frozenset({"frames"}),
        output_capacity_per_session=2,  # decode need not wait until the event loop has read
    )
