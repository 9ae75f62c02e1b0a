"""The dream as a stage graph: encode (places and themes), denoise (dynamics and light field), decode (pictures)."""

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
from ..dream.inference import Chunks, NoiseSettings, PictureEncoder, State
from ..dream.inputs import start_in, strength_in, theme_in
from ..dream.level import CONTROLS
from ..dream.model import DreamModel
from ..dream.training.data import control_vectors
from ..maze.motion import MotionControls


class Rows:
    """Assigns each session the lowest free row, from its first chunk until it is closed."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = list(range(count))
        self._taken: dict[str, int] = {}

    def of(self, session_id: str) -> int:
        """Return the row of a session."""
        if session_id not in self._taken:
            self._taken[session_id] = self._free.pop(0)
        return self._taken[session_id]

    def release(self, context: StreamingSessionContext, reason: StreamingSessionCloseReason) -> None:
        """Free the row of a session; the session closer of the stage's actor."""
        row = self._taken.pop(context.session_id, None)
        if row is not None:
            bisect.insort(self._free, row)


Invocations: TypeAlias = Sequence[StreamingStageInvocation]
Outputs: TypeAlias = list[Mapping[str, object]]


@dataclass(frozen=True)
class StartPose:
    """Start of a session: (4,) place, and the seed of its latent noise."""

    place: Tensor
    seed: int


@dataclass(frozen=True)
class Encoded:
    """Output of encode: the theme code and, with the first chunk of a session, its start pose."""

    code: Tensor
    start: StartPose | None


@dataclass(frozen=True)
class SessionTheme:
    """Theme of a session in encode: the last request and its code.

    A request is ``{"theme": name}``, or empty if no theme has been requested.
    """

    request: Mapping[str, Any]
    code: Tensor


class Encode:
    """Encodes first pictures as places and themes as codes, only when they change."""

    def __init__(self, picture_encoder: PictureEncoder) -> None:
        self._picture_encoder = picture_encoder
        self._themes: dict[str, SessionTheme] = {}

    def __call__(self, batch: Invocations) -> Outputs:
        """Return ``encoded`` (:class:`Encoded`) of each session."""
        new = self._start([work for work in batch if work.is_first])
        themes = {name: theme for name, (theme, _) in new.items()}
        themes = {name: themes.get(name) or self._themes[name] for name in (work.key.session_id for work in batch)}
        themes.update(self._changed_themes(themes, batch))
        self._themes.update(themes)  # last, so that a failed batch changes no state
        outputs: Outputs = []
        for work in batch:
            name = work.key.session_id
            start = new[name][1] if work.is_first else None
            outputs.append({"encoded": Encoded(themes[name].code, start)})
        return outputs

    def release(self, context: StreamingSessionContext, reason: StreamingSessionCloseReason) -> None:
        """Discard the state of a session; the session closer of the stage's actor."""
        self._themes.pop(context.session_id, None)

    def _start(self, first: Invocations) -> dict[str, tuple[SessionTheme, StartPose]]:
        """Return theme and start pose of the sessions whose first chunk this is."""
        contexts = [request_of(work).context for work in first]
        starts = [start_in(context) for context in contexts]
        encodings = self._picture_encoder.encode([start.picture for start in starts])
        return {
            work.key.session_id: (
                SessionTheme(theme_request(context), encoding.code),
                StartPose(encoding.place, start.seed),
            )
            for work, context, start, encoding in zip(first, contexts, starts, encodings, strict=True)
        }

    def _changed_themes(self, themes: Mapping[str, SessionTheme], batch: Invocations) -> dict[str, SessionTheme]:
        """Return the new themes of sessions whose request differs from the last one."""
        requests = {work.key.session_id: mapping_in(work, "theme_request") for work in batch}
        changed = {
            name: request
            for name, request in requests.items()
            if request and not same_value(request, themes[name].request)
        }
        codes = self._picture_encoder.codes_of([theme_in(request) for request in changed.values()])
        return {name: SessionTheme(request, code) for (name, request), code in zip(changed.items(), codes, strict=True)}


class Denoise:
    """Advances the dynamics and predicts the latents of each frame.

    Args:
        chunks: generates the chunks.
        sessions: number of rows.
        all_rows: always compute all rows, so that the output of a session does not depend on other sessions.
    """

    def __init__(self, chunks: Chunks, sessions: int, all_rows: bool) -> None:
        self.rows = Rows(sessions)
        self._chunks = chunks
        self._all_rows = all_rows
        self._places, self._hidden = chunks.at_rest(sessions)
        self._codes = torch.zeros(sessions, chunks.code, device=chunks.device)
        self._seeds = np.zeros(sessions, np.int64)

    def __call__(self, batch: Invocations) -> Outputs:
        """Return ``latent`` (frames, latent, COLUMNS) of each session."""
        conditioning = [{**mapping_in(work, "motion"), "events": request_of(work).events} for work in batch]
        due_controls = control_vectors(MotionControls(conditioning))
        due_strengths = [strength_in(values) for values in conditioning]
        with torch.inference_mode():
            due = [self._prepare(work) for work in batch]
            controls = np.zeros((self.rows.count, CONTROLS), np.float32)
            strengths, ages = np.zeros(self.rows.count, np.float32), np.zeros(self.rows.count, np.int64)
            controls[due], strengths[due] = due_controls, due_strengths
            ages[due] = [work.key.sequence_id for work in batch]
            rows, kept = (list(range(self.rows.count)), due) if self._all_rows else (due, list(range(len(due))))
            state, latents = self._chunks.advance(
                State(self._places[rows], self._hidden[rows]),
                self._codes[rows],
                controls[rows],
                NoiseSettings(self._seeds[rows], ages[rows], strengths[rows]),
            )
            self._places[due], self._hidden[due] = state.places[kept], state.hidden[kept]
            return [{"latent": latents[:, index]} for index in kept]

    def _prepare(self, work: StreamingStageInvocation) -> int:
        """Return the row of the session, initialized on its first chunk. Idempotent: a failed batch is retried."""
        row, encoded = self.rows.of(work.key.session_id), work.inputs["encoded"]
        assert isinstance(encoded, Encoded)
        self._codes[row] = encoded.code
        if encoded.start is not None:
            self._places[row] = encoded.start.place
            self._hidden[row] = 0
            self._seeds[row] = encoded.start.seed
        return row


class Decode:
    """Decodes latents to pictures.

    Args:
        chunks: decodes the chunks.
        sessions, all_rows: see :class:`Denoise`.
    """

    def __init__(self, chunks: Chunks, sessions: int, all_rows: bool) -> None:
        self.rows = Rows(sessions)
        self._chunks = chunks
        self._latents = torch.zeros(chunks.shape[0], sessions, *chunks.latent_shape, device=chunks.device)
        self._all_rows = all_rows

    def __call__(self, batch: Invocations) -> Outputs:
        """Return ``frames`` (frames, height, width, 3) of each session."""
        with torch.inference_mode():
            due = [self.rows.of(work.key.session_id) for work in batch]
            self._latents[:, due] = torch.stack([latent_in(work) for work in batch], 1)
            latents, kept = self._latents, due
            if not self._all_rows:
                latents, kept = self._latents[:, due], list(range(len(due)))
            chunks = {index: np.empty(self._chunks.shape, np.uint8) for index in kept}
            self._chunks.decode(latents, chunks)
            return [{"frames": chunks[index]} for index in kept]


def theme_request(conditioning: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``{"theme": name}``, or an empty mapping if the conditioning has no theme."""
    return {name: value for name, value in conditioning.items() if name == "theme"}


def request_of(work: StreamingStageInvocation) -> ChunkRequest:
    """Return the chunk request of an invocation."""
    request = work.inputs["request"]
    assert isinstance(request, ChunkRequest)
    return request


def mapping_in(work: StreamingStageInvocation, control: str) -> Mapping[str, Any]:
    """Return a control of an invocation whose value is a mapping."""
    value = work.inputs[control]
    assert isinstance(value, Mapping)
    return value


def latent_in(work: StreamingStageInvocation) -> Tensor:
    """Return the latents of an invocation."""
    latent = work.inputs["latent"]
    assert isinstance(latent, Tensor)
    return latent


def build_engine(model: DreamModel) -> StreamingEngine:
    """Build the engine. Its frames are bit-identical to those of the model if the model's ``rows`` is ``"all"``.

    Args:
        model: provides the network. The stages keep their own state, so several engines may share a model.
    """
    manifest = model.manifest()
    sessions, all_rows = manifest.max_sessions, model.rows == "all"
    encode = Encode(model.picture_encoder)
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
    """Split conditioning into the controls of the pipeline: the theme for encode, the rest for denoise."""
    motion = {name: value for name, value in conditioning.items() if name != "theme"}
    return {"theme_request": theme_request(conditioning), "motion": motion}


def pipeline(sessions: int) -> StreamingPipelineSpec:
    """Return the graph encode -> denoise -> decode; each stage processes all ready sessions in one batch."""

    def stage(name: str, consumes: set[str], produces: str) -> StreamingStageSpec:
        return StreamingStageSpec(name, frozenset(consumes), frozenset({produces}), max_in_flight_global=2 * sessions)

    return StreamingPipelineSpec(
        stages=(
            stage("encode", {"request", "theme_request"}, "encoded"),
            stage("denoise", {"request", "motion", "encoded"}, "latent"),
            stage("decode", {"latent"}, "frames"),
        ),
        edges=(
            StreamingEdgeSpec("request", "encode"),
            StreamingEdgeSpec("request", "denoise", capacity_per_session=2),  # waits while encode runs
            StreamingEdgeSpec("theme_request", "encode", kind="latest"),
            StreamingEdgeSpec("motion", "denoise", kind="latest"),
            StreamingEdgeSpec("encoded", "denoise", source_stage="encode"),
            StreamingEdgeSpec("latent", "decode", source_stage="denoise"),
        ),
        output_artifacts=frozenset({"frames"}),
        output_capacity_per_session=2,  # decode does not wait for the event loop
    )
