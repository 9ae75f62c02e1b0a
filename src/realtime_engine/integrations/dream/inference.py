"""The network at work on a fixed batch of rows; knows nothing of sessions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...infra.acceleration import Compiled, CompilePolicy, EncoderLifecycle
from .inputs import seed_picture
from .level import HEIGHT, SIDE, WIDTH
from .localization import settle
from .network import COLUMNS, DreamSizes, DreamWorld, Encoder, LightField
from .weights import Weights

_PERIOD = 10  # steps from one draw to the next; the way between is turned, which keeps the variance at 1


def dream_noise(seed: int, step: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Standard normal numbers of a step; those of the next one are close to them.

    Args:
        seed: of the session, 0 or more.
        step: from 0.
    """
    before, part = divmod(step, _PERIOD)
    angle = math.pi / 2 * part / _PERIOD
    noise: NDArray[np.float32] = math.cos(angle) * _draw(seed, before, shape)
    if part:
        noise += math.sin(angle) * _draw(seed, before + 1, shape)
    return noise


def _draw(seed: int, number: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.random.default_rng([seed, number]).standard_normal(shape, np.float32)


Pictures = NDArray[np.uint8]


class Seen(NamedTuple):
    """What one picture tells: (4,) the place (x, y in cells, cosine and sine of the yaw), (code,) the theme."""

    place: Tensor
    code: Tensor


class State(NamedTuple):
    """Where n rows are: (n, 4) places, (n, hidden) the recurrence of the dynamics, zero at rest."""

    places: Tensor
    hidden: Tensor


def encode(encoder: Encoder, field: LightField, picture: Pictures) -> Seen:
    """Look at one (HEIGHT, WIDTH, 3) RGB picture."""
    device = next(encoder.parameters()).device
    with torch.inference_mode():
        latents, places, codes = encoder(as_input(picture[None]).to(device))
        return Seen(_within(settle(field, latents[0], _within(places[0]), codes[0])), codes[0])


def _within(place: Tensor) -> Tensor:
    """Inside of the level's border: pictures of anything else may seem to come from far beyond, where no wall leads
    back."""
    return torch.cat((place[:2].clamp(1, SIDE - 1), place[2:]))


class Dreamer:
    """Steps and decodes all rows of a batch in one forward each.

    Every operation works on one row or on all rows by themselves, and the batch has always the same size, so the bits
    of a row do not depend on its company.

    Args:
        world: the network.
        compile: compile it with the first batch of each size.
    """

    def __init__(self, world: DreamWorld, compile: bool = False) -> None:
        policy = CompilePolicy(enabled=compile, dynamic=False)
        self._dynamics = Compiled(world.dynamics, policy, name="the dynamics")
        self._field = Compiled(world.field, policy, name="the light field")
        self._decoder = Compiled(world.decoder, policy, name="the decoder")
        self.field = world.field
        self.device = next(world.parameters()).device
        self.hidden = world.dynamics.hidden

    def step(self, state: State, controls: Tensor) -> State:
        """Move one step on. ``controls`` is (n, CONTROLS)."""
        with torch.inference_mode():
            return State(*self._dynamics(state.places, state.hidden, controls))

    def see(self, places: Tensor, codes: Tensor, noise: Tensor | None = None) -> Tensor:
        """(n, latent, COLUMNS) latents of what is seen from ``places``.

        Args:
            noise: (n, latent, COLUMNS) how many of the expected errors to go astray, as :func:`wander` gives it.
        """
        with torch.inference_mode():
            latents: Tensor
            latents, spread = self._field(places, codes)
            if noise is not None:
                latents = latents + noise * torch.exp(spread)
            return latents

    def decode(self, latents: Tensor) -> Pictures:
        """(n, HEIGHT, WIDTH, 3) RGB."""
        with torch.inference_mode():
            pixels = self._decoder(latents).add_(1).mul_(127.5).round_().clamp_(0, 255).to(torch.uint8)
            pictures: Pictures = pixels.permute(0, 2, 3, 1).contiguous().cpu().numpy()
            return pictures


def wander(
    seeds: NDArray[np.int64], steps: NDArray[np.int64], strengths: NDArray[np.float32], shape: tuple[int, int]
) -> Tensor | None:
    """(n, *shape) noise of n rows, each from its own seed and step; ``None`` when no row wants any."""
    if not strengths.any():
        return None
    noise = np.zeros((len(seeds), *shape), np.float32)
    for row in np.flatnonzero(strengths).tolist():
        noise[row] = strengths[row] * dream_noise(int(seeds[row]), int(steps[row]), shape)
    return torch.from_numpy(noise)


def as_input(pictures: Pictures) -> Tensor:
    """(n, height, width, 3) RGB -> (n, 3, height, width) in [-1, 1], channels last in memory."""
    return torch.from_numpy(pictures).permute(0, 3, 1, 2).float().div(127.5).sub(1)


MAX_ERRORS = np.float32(6)
"""How many of the errors that the light field expects of itself it goes astray by at full strength."""


class Astray(NamedTuple):
    """How n rows go astray: (n,) the seed of each, how many chunks it has made, and how far it strays (0 to 1)."""

    seeds: NDArray[np.int64]
    ages: NDArray[np.int64]
    strengths: NDArray[np.float32]


class Chunks:
    """Makes chunks of any number of rows.

    Args:
        dreamer: the network at work.
        sizes: of the network.
        shape: of a chunk: (frames, height, width, 3).
        steps_per_frame: steps of the dynamics from one frame to the next.

    Attributes:
        shape: as given.
        seen_shape: of the latents of one picture.
        code: numbers in the code of a theme.
        device: where it computes.
    """

    def __init__(
        self, dreamer: Dreamer, sizes: DreamSizes, shape: tuple[int, int, int, int], steps_per_frame: int
    ) -> None:
        self.shape = shape
        self.seen_shape = (sizes.latent, COLUMNS)
        self.code = sizes.code
        self.device = dreamer.device
        self._dreamer = dreamer
        self._steps_per_frame = steps_per_frame

    def at_rest(self, rows: int) -> State:
        """Rows without a session: somewhere, at rest, so that what is computed of them stays finite."""
        places = torch.zeros(rows, 4, device=self.device)
        places[:, 2] = 1  # a heading
        return State(places, torch.zeros(rows, self._dreamer.hidden, device=self.device))

    def walk(self, state: State, codes: Tensor, controls: NDArray[np.float32], astray: Astray) -> tuple[State, Tensor]:
        """Move n rows on by a chunk.

        Args:
            state: before; it is not written to.
            codes: (n, code) the themes that they see.
            controls: (n, CONTROLS); the travel of the pointer counts in the first step.

        Returns:
            The state after, and (frames, n, latent, COLUMNS) latents of what is seen.
        """
        told = torch.tensor(controls, device=self.device)
        seen = []
        for frame in range(self.shape[0]):
            for _ in range(self._steps_per_frame):
                state = self._dreamer.step(state, told)
                told[:, -1] = 0
            errors = astray.strengths * MAX_ERRORS
            noise = wander(astray.seeds, astray.ages * self.shape[0] + frame, errors, self.seen_shape)
            seen.append(self._dreamer.see(state.places, codes, None if noise is None else noise.to(self.device)))
        return state, torch.stack(seen)

    def show(self, latents: Tensor, chunks: Mapping[int, NDArray[np.uint8]]) -> None:
        """Draw (frames, n, latent, COLUMNS) latents; ``chunks`` says of which rows, and into what."""
        for frame, seen in enumerate(latents):
            pictures = self._dreamer.decode(seen)
            for row, chunk in chunks.items():
                enlarge(pictures[row], chunk[frame])


def enlarge(picture: NDArray[np.uint8], into: NDArray[np.uint8]) -> None:
    """Write a (HEIGHT, WIDTH, 3) picture into a larger one, smoothly."""
    height, width = into.shape[:2]
    if (height, width) == (HEIGHT, WIDTH):
        into[...] = picture
    else:
        cv2.resize(picture, (width, height), dst=into, interpolation=cv2.INTER_CUBIC)


_REFERENCE_SEED = 0
_KEPT_BYTES = 2**16  # of numbers: some thousand looks, each of which takes a kilobyte with what Python adds


class PictureEncoder:
    """Looks at pictures. What was seen is kept, the encoder's weights are not."""

    def __init__(self, weights: Weights, field: LightField, device: torch.device) -> None:
        self._lifecycle: EncoderLifecycle[Encoder, NDArray[np.uint8]] = EncoderLifecycle(
            load=lambda: weights.encoder(device),
            encode=lambda encoder, picture: _on_host(encode(encoder, field, picture)),
            cache_bytes=_KEPT_BYTES,
            name="the dream's encoder",
            thorough=False,  # a few megabytes without cycles, while all rows wait
        )

    def look(self, pictures: Sequence[NDArray[np.uint8]]) -> list[Seen]:
        """Where each picture was taken, and in which theme; on the host, so that any stream may use it."""
        return [Seen(*seen) for seen in self._lifecycle.encode_all(pictures)]

    def codes_of(self, themes: Sequence[str]) -> list[Tensor]:
        """The code of each theme, as a picture in its colours has it."""
        return [seen.code for seen in self.look([seed_picture(_REFERENCE_SEED, theme) for theme in themes])]


def _on_host(seen: Seen) -> Seen:
    """What one lane has looked at is kept for all lanes, which do not wait for each other's streams."""
    return Seen(seen.place.cpu(), seen.code.cpu())
