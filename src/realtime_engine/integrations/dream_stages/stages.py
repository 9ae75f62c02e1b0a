"""The dream's three stages: encode looks, denoise walks and sees latents, decode draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ...core.streaming import (
    ChunkRequest,
    StreamingSessionCloseReason,
    StreamingSessionContext,
    StreamingStageInvocation,
)
from ...core.values import same_value
from ..dream.attaching import start_in, strength_in, theme_in
from ..dream.chunks import Astray, Chunks
from ..dream.dreamer import State
from ..dream.eyes import Eyes
from ..dream.walks import CONTROLS, control_numbers
from ..maze.motion import Controls
from .rows import Rows

Invocations: TypeAlias = Sequence[StreamingStageInvocation]
Outputs: TypeAlias = list[Mapping[str, object]]


@dataclass(frozen=True)
class Entrance:
    """Where a session begins: (4,) its place, and the seed of what goes astray."""

    place: Tensor
    seed: int


@dataclass(frozen=True)
class Encoded:
    """What encode tells denoise: the code of the theme and, with the first chunk of a session, where it begins."""

    code: Tensor
    entrance: Entrance | None


@dataclass(frozen=True)
class Look:
    """A session in encode: the wish that it has been given, and the code of that.

    A wish is ``{"theme": name}``, or empty while nobody has said anything.
    """

    wish: Mapping[str, Any]
    code: Tensor


class Encode:
    """Pictures to places, themes to codes; only for what is new."""

    def __init__(self, eyes: Eyes) -> None:
        self._eyes = eyes
        self._looks: dict[str, Look] = {}

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

    def _enter(self, newcomers: Invocations) -> dict[str, tuple[Look, Entrance]]:
        contexts = [request_of(work).context for work in newcomers]
        starts = [start_in(context) for context in contexts]
        seen = self._eyes.look([start.picture for start in starts])
        return {
            work.key.session_id: (Look(wish_in(context), look.code), Entrance(look.place, start.seed))
            for work, context, start, look in zip(newcomers, contexts, starts, seen, strict=True)
        }

    def _change(self, looks: Mapping[str, Look], batch: Invocations) -> dict[str, Look]:
        """Looks of those who wish for something else than before."""
        wishes = {work.key.session_id: mapping_in(work, "wish") for work in batch}
        changed = {name: wish for name, wish in wishes.items() if wish and not same_value(wish, looks[name].wish)}
        codes = self._eyes.codes_of([theme_in(wish) for wish in changed.values()])
        return {name: Look(wish, code) for (name, wish), code in zip(changed.items(), codes, strict=True)}


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
