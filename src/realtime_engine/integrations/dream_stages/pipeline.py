"""The dream's three stages: encode looks, denoise walks and sees latents, decode draws them."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ...core.streaming import (
    BatchedStageActor,
    ChunkRequest,
    StreamingEdgeSpec,
    StreamingEngine,
    StreamingPipelineSpec,
    StreamingSessionCloseReason,
    StreamingSessionContext,
    StreamingStageInvocation,
    StreamingStageSpec,
)
from ...core.values import same_value
from ..dream.inference import Astray, Chunks, PictureEncoder, State
from ..dream.inputs import start_in, strength_in, theme_in
from ..dream.level import CONTROLS
from ..dream.model import DreamModel
from ..dream.training.data import control_numbers
from ..maze.motion import Controls


class Rows:
    """Gives each session a row from its first chunk to its close, the lowest that is free."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = list(range(count))
        self._taken: dict[str, int] = {}

    def of(self, session_id: str) -> int:
        """The session's row."""
        if session_id not in self._taken:
            self._taken[session_id] = self._free.pop(0)
        return self._taken[session_id]

    def release(self, context: StreamingSessionContext, reason: StreamingSessionCloseReason) -> None:
        """Session closer of a stage's actor."""
        row = self._taken.pop(context.session_id, None)
        if row is not None:
            bisect.insort(self._free, row)


Invocations: TypeAlias = Sequence[StreamingStageInvocation]
Outputs: TypeAlias = list[Mapping[str, object]]


@dataclass(frozen=True)
class StartPose:
    """Where a session begins: (4,) its place, and the seed of what goes astray."""

    place: Tensor
    seed: int


@dataclass(frozen=True)
class Encoded:
    """What encode tells denoise: the code of the theme and, with the first chunk of a session, where it begins."""

    code: Tensor
    entrance: StartPose | None


@dataclass(frozen=True)
class SessionTheme:
    """A session in encode: the wish that it has been given, and the code of that.

    A wish is ``{"theme": name}``, or empty while nobody has said anything.
    """

    wish: Mapping[str, Any]
    code: Tensor


class Encode:
    """Pictures to places, themes to codes; only for what is new."""

    def __init__(self, eyes: PictureEncoder) -> None:
        self._eyes = eyes
        self._looks: dict[str, SessionTheme] = {}

    def __call__(self, batch: Invocations) -> Outputs:
        entrances = self._enter([work for work in batch if work.is_first])
        looks = {name: look for name, (look, _) in entrances.items()}
        looks = {name: looks.get(name) or self._looks[name] for name in (work.key.session_id for work in batch)}
        looks.update(self._change(looks, batch))
        self._looks.update(looks)  # last: a failed batch has changed nothing
        outputs: Outputs = []
        for work in batch:
            name = work.key.session_id
            entrance = entrances[name][1] if work.is_first else None
            outputs.append({"encoded": Encoded(looks[name].code, entrance)})
        return outputs

    def release(self, context: StreamingSessionContext, reason: StreamingSessionCloseReason) -> None:
        """Session closer of the stage's actor."""
        self._looks.pop(context.session_id, None)

    def _enter(self, newcomers: Invocations) -> dict[str, tuple[SessionTheme, StartPose]]:
        contexts = [request_of(work).context for work in newcomers]
        starts = [start_in(context) for context in contexts]
        seen = self._eyes.look([start.picture for start in starts])
        return {
            work.key.session_id: (SessionTheme(wish_in(context), look.code), StartPose(look.place, start.seed))
            for work, context, start, look in zip(newcomers, contexts, starts, seen, strict=True)
        }

    def _change(self, looks: Mapping[str, SessionTheme], batch: Invocations) -> dict[str, SessionTheme]:
        """Looks of those who wish for something else than before."""
        wishes = {work.key.session_id: mapping_in(work, "wish") for work in batch}
        changed = {name: wish for name, wish in wishes.items() if wish and not same_value(wish, looks[name].wish)}
        codes = self._eyes.codes_of([theme_in(wish) for wish in changed.values()])
        return {name: SessionTheme(wish, code) for (name, wish), code in zip(changed.items(), codes, strict=True)}


class Denoise:
    """Dynamics and light field: where sessions go, and what they see there, as latents.

    Args:
        chunks: what computes.
        sessions: rows.
        all_rows: compute all rows every time, so that the bits of one do not depend on its company.
    """

    def __init__(self, chunks: Chunks, sessions: int, all_rows: bool) -> None:
        self.rows = Rows(sessions)
        self._chunks = chunks
        self._all_rows = all_rows
        self._places, self._hidden = chunks.at_rest(sessions)
        self._codes = torch.zeros(sessions, chunks.code, device=chunks.device)
        self._seeds = np.zeros(sessions, np.int64)

    def __call__(self, batch: Invocations) -> Outputs:
        told = [{**mapping_in(work, "motion"), "events": request_of(work).events} for work in batch]
        given, how_far = control_numbers(Controls(told)), [strength_in(one) for one in told]
        with torch.inference_mode():
            due = [self._prepare(work) for work in batch]
            controls = np.zeros((self.rows.count, CONTROLS), np.float32)
            strengths, ages = np.zeros(self.rows.count, np.float32), np.zeros(self.rows.count, np.int64)
            controls[due], strengths[due] = given, how_far
            ages[due] = [work.key.sequence_id for work in batch]
            rows, kept = (list(range(self.rows.count)), due) if self._all_rows else (due, list(range(len(due))))
            state, latents = self._chunks.walk(
                State(self._places[rows], self._hidden[rows]),
                self._codes[rows],
                controls[rows],
                Astray(self._seeds[rows], ages[rows], strengths[rows]),
            )
            self._places[due], self._hidden[due] = state.places[kept], state.hidden[kept]
            return [{"latent": latents[:, index]} for index in kept]

    def _prepare(self, work: StreamingStageInvocation) -> int:
        """The session's row. A first chunk may be prepared twice, if the batch fails."""
        row, encoded = self.rows.of(work.key.session_id), work.inputs["encoded"]
        assert isinstance(encoded, Encoded)
        self._codes[row] = encoded.code
        if encoded.entrance is not None:
            self._places[row] = encoded.entrance.place
            self._hidden[row] = 0
            self._seeds[row] = encoded.entrance.seed
        return row


class Decode:
    """Latents to pictures.

    Args:
        chunks: what computes.
        sessions, all_rows: as for :class:`Denoise`.
    """

    def __init__(self, chunks: Chunks, sessions: int, all_rows: bool) -> None:
        self.rows = Rows(sessions)
        self._chunks = chunks
        self._latents = torch.zeros(chunks.shape[0], sessions, *chunks.seen_shape, device=chunks.device)
        self._all_rows = all_rows

    def __call__(self, batch: Invocations) -> Outputs:
        with torch.inference_mode():
            due = [self.rows.of(work.key.session_id) for work in batch]
            self._latents[:, due] = torch.stack([latent_in(work) for work in batch], 1)
            latents, kept = self._latents, due
            if not self._all_rows:
                latents, kept = self._latents[:, due], list(range(len(due)))
            chunks = {index: np.empty(self._chunks.shape, np.uint8) for index in kept}
            self._chunks.show(latents, chunks)
            return [{"frames": chunks[index]} for index in kept]


def wish_in(conditioning: Mapping[str, Any]) -> Mapping[str, Any]:
    """``{"theme": name}`` of what it holds, or nothing."""
    return {name: value for name, value in conditioning.items() if name == "theme"}


def request_of(work: StreamingStageInvocation) -> ChunkRequest:
    request = work.inputs["request"]
    assert isinstance(request, ChunkRequest)
    return request


def mapping_in(work: StreamingStageInvocation, control: str) -> Mapping[str, Any]:
    value = work.inputs[control]
    assert isinstance(value, Mapping)
    return value


def latent_in(work: StreamingStageInvocation) -> Tensor:
    latent = work.inputs["latent"]
    assert isinstance(latent, Tensor)
    return latent


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
