"""The maze as a stage graph: encode (theme and world), denoise (motion), decode (rendering)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...core.contract import EngineManifest
from ...core.errors import brief
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
from ..maze.grid import SIZE
from ..maze.motion import ORBS, Motion, MotionControls, Records, first_orbs, first_visitor
from ..maze.palette import Theme, theme_of
from ..maze.renderer import Renderer, View
from ..maze.world import World, make_world

__all__ = ["build_engine"]


Invocations: TypeAlias = Sequence[StreamingStageInvocation]
Outputs: TypeAlias = list[Mapping[str, object]]


@dataclass(frozen=True)
class Encoded:
    """Output of encode: the theme and, with the first chunk of a session, its seed and world."""

    theme: Theme
    seed: int = 0
    world: World | None = None


@dataclass(frozen=True)
class Latent:
    """Output of denoise: the view of each frame as records of one row, with theme and world of the chunk."""

    views: list[View]
    theme: Theme
    world: World | None


class Encode:
    """Maps the prompt to a theme and, on the first chunk, the seed to a world."""

    def __call__(self, batch: Invocations) -> Outputs:
        """Return ``encoded`` (:class:`Encoded`) of each session."""
        return [{"encoded": self._encode(work)} for work in batch]

    @staticmethod
    def _encode(work: StreamingStageInvocation) -> Encoded:
        request = work.inputs["request"]
        assert isinstance(request, ChunkRequest)
        prompt = work.inputs["prompt"]
        theme = _theme_in(request.context.get("prompt", "") if prompt is None else prompt)
        if not work.is_first:
            return Encoded(theme)
        seed = _seed_in(request.context)
        return Encoded(theme, seed, make_world(seed))


@dataclass
class Walk:
    """State of a session in denoise."""

    solid: NDArray[np.bool_]
    turns: NDArray[np.uint8]
    visitor: Records
    orbs: Records


class Denoise:
    """Moves visitors and orbs of all sessions of a batch, frame by frame.

    Args:
        fps: frames per second.
        frames_per_chunk: frames per chunk.
    """

    def __init__(self, fps: float, frames_per_chunk: int) -> None:
        self._walks: dict[str, Walk] = {}
        self._motion = Motion(1 / fps)
        self._frames = frames_per_chunk

    def __call__(self, batch: Invocations) -> Outputs:
        """Return ``latent`` (:class:`Latent`) of each session."""
        walks = [self._walk_of(work) for work in batch]
        controls = MotionControls([_controls_of(work) for work in batch])
        visitors, orbs = np.stack([walk.visitor for walk in walks]), np.stack([walk.orbs for walk in walks])
        solid, turns = np.stack([walk.solid for walk in walks]), np.stack([walk.turns for walk in walks])
        self._motion.look(visitors, controls)
        views = []
        for _ in range(self._frames):
            self._motion.walk(visitors, controls, solid)
            self._motion.drift(orbs, turns)
            views.append(View(visitors.copy(), orbs.copy()))
        # Last, so that a failed batch changes no state.
        for index, (work, walk) in enumerate(zip(batch, walks, strict=True)):
            walk.visitor, walk.orbs = visitors[index], orbs[index]
            self._walks[work.key.session_id] = walk
        return [{"latent": _latent(work, views, index)} for index, work in enumerate(batch)]

    def release(self, context: StreamingSessionContext, reason: StreamingSessionCloseReason) -> None:
        """Discard the state of a session; the session closer of the stage's actor."""
        self._walks.pop(context.session_id, None)

    def _walk_of(self, work: StreamingStageInvocation) -> Walk:
        encoded = work.inputs["encoded"]
        assert isinstance(encoded, Encoded)
        if encoded.world is None:
            return self._walks[work.key.session_id]
        world = encoded.world
        return Walk(
            world.grid.solid.reshape(SIZE * SIZE).astype(bool),
            world.turns,
            first_visitor(world),
            first_orbs(world, encoded.seed).reshape(ORBS),
        )


class Decode:
    """Renders the views of all sessions of a batch.

    Args:
        max_sessions: maximum number of sessions, the number of rows of the renderer.
        width, height: size of a frame in pixels.
        frames_per_chunk: frames per chunk.
    """

    def __init__(self, max_sessions: int, width: int, height: int, frames_per_chunk: int) -> None:
        self._renderer = Renderer(max_sessions, width, height)
        self._free = list(range(max_sessions))
        self._rows: dict[str, int] = {}
        self._themes: dict[str, Theme] = {}
        self._shape = (frames_per_chunk, height, width, 3)

    def __call__(self, batch: Invocations) -> Outputs:
        """Return ``frames`` (frames, height, width, 3) of each session."""
        latents = [self._prepare(work) for work in batch]
        rows = np.array([self._rows[work.key.session_id] for work in batch], np.int64)
        chunks = [np.empty(self._shape, np.uint8) for _ in batch]
        for frame in range(self._shape[0]):
            views = [latent.views[frame] for latent in latents]
            seen = View(np.concatenate([v.visitors for v in views]), np.concatenate([v.orbs for v in views]))
            for chunk, picture in zip(chunks, self._renderer.render(rows, seen), strict=True):
                chunk[frame] = picture
        return [{"frames": chunk} for chunk in chunks]

    def release(self, context: StreamingSessionContext, reason: StreamingSessionCloseReason) -> None:
        """Discard the state of a session; the session closer of the stage's actor."""
        self._themes.pop(context.session_id, None)
        row = self._rows.pop(context.session_id, None)
        if row is not None:
            self._free.append(row)

    def _prepare(self, work: StreamingStageInvocation) -> Latent:
        session_id, latent = work.key.session_id, work.inputs["latent"]
        assert isinstance(latent, Latent)
        if session_id not in self._rows:
            self._rows[session_id] = self._free.pop()
        row = self._rows[session_id]
        if latent.world is not None:
            self._renderer.set_world(row, latent.world)
        if self._themes.get(session_id) != latent.theme:
            self._renderer.set_theme(row, latent.theme)
            self._themes[session_id] = latent.theme
        return latent


def _latent(work: StreamingStageInvocation, views: list[View], index: int) -> Latent:
    encoded = work.inputs["encoded"]
    assert isinstance(encoded, Encoded)
    row = slice(index, index + 1)
    return Latent([View(v.visitors[row], v.orbs[row]) for v in views], encoded.theme, encoded.world)


def _controls_of(work: StreamingStageInvocation) -> dict[str, Any]:
    motion, request = work.inputs["motion"], work.inputs["request"]
    assert isinstance(motion, Mapping) and isinstance(request, ChunkRequest)
    return {**motion, "events": request.events}


def _theme_in(prompt: object) -> Theme:
    if not isinstance(prompt, str):
        raise ValueError(f"prompt must be a string, got {brief(prompt)}")
    return theme_of(prompt)


def _seed_in(context: Mapping[str, Any]) -> int:
    seed = context.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed must be an integer of 0 or more, got {brief(seed)}")
    return seed


def with_minimum_duration(
    duration_s: float, handler: Callable[[Invocations], Outputs]
) -> Callable[[Invocations], Outputs]:
    """Wrap a handler so that each call takes at least ``duration_s``, like a stage that keeps a device busy."""

    def handle(batch: Invocations) -> Outputs:
        until = time.monotonic() + duration_s
        outputs = handler(batch)
        time.sleep(max(until - time.monotonic(), 0.0))
        return outputs

    return handle


def split_controls(conditioning: Mapping[str, Any]) -> Mapping[str, object]:
    """Split conditioning into the controls of the pipeline: the prompt for encode, the rest for denoise."""
    motion = {name: value for name, value in conditioning.items() if name != "prompt"}
    return {"prompt": conditioning.get("prompt"), "motion": motion}


def pipeline(max_sessions: int) -> StreamingPipelineSpec:
    """Return the graph encode -> denoise -> decode; each stage processes all ready sessions in one batch."""

    def stage(name: str, consumes: set[str], produces: str) -> StreamingStageSpec:
        return StreamingStageSpec(
            name, frozenset(consumes), frozenset({produces}), max_in_flight_global=2 * max_sessions
        )

    return StreamingPipelineSpec(
        stages=(
            stage("encode", {"request", "prompt"}, "encoded"),
            stage("denoise", {"request", "motion", "encoded"}, "latent"),
            stage("decode", {"latent"}, "frames"),
        ),
        edges=(
            StreamingEdgeSpec("request", "encode"),
            StreamingEdgeSpec("request", "denoise", capacity_per_session=2),  # waits while encode runs
            StreamingEdgeSpec("prompt", "encode", kind="latest"),
            StreamingEdgeSpec("motion", "denoise", kind="latest"),
            StreamingEdgeSpec("encoded", "denoise", source_stage="encode"),
            StreamingEdgeSpec("latent", "decode", source_stage="denoise"),
        ),
        output_artifacts=frozenset({"frames"}),
        output_capacity_per_session=2,  # decode does not wait for the event loop
    )


def build_engine(
    max_sessions: int = 4,
    width: int = 640,
    height: int = 360,
    fps: float = 30.0,
    frames_per_chunk: int = 2,
    encode_ms: float = 10.0,
    denoise_ms: float = 50.0,
    decode_ms: float = 25.0,
) -> StreamingEngine:
    """Build the engine. Chunks are (frames_per_chunk, height, width, 3) uint8 RGB.

    The attach context may hold ``seed`` (an integer of 0 or more). Conditioning is that of the maze.

    Args:
        max_sessions: maximum number of sessions.
        width, height: size of a frame in pixels.
        fps: frames per second.
        frames_per_chunk: frames per chunk.
        encode_ms, denoise_ms, decode_ms: minimum duration of a stage, independent of the number of sessions.

    Raises:
        ValueError: an argument is invalid.
    """
    manifest = EngineManifest(
        max_sessions=max_sessions,
        chunk_shape=(frames_per_chunk, height, width, 3),
        rate_hz=fps / frames_per_chunk,
        frames_per_chunk=frames_per_chunk,
    )
    denoise, decode = Denoise(fps, frames_per_chunk), Decode(max_sessions, width, height, frames_per_chunk)
    actors = {
        name: BatchedStageActor(
            with_minimum_duration(ms / 1e3, handler), max_batch=max_sessions, name=name, session_closer=closer
        )
        for name, ms, handler, closer in (
            ("encode", encode_ms, Encode(), None),
            ("denoise", denoise_ms, denoise, denoise.release),
            ("decode", decode_ms, decode, decode.release),
        )
    }
    return StreamingEngine(pipeline(max_sessions), actors, manifest, controls=split_controls)
