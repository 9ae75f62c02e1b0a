"""The network at work on a fixed batch of rows; knows nothing of sessions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...infra.acceleration import Compiled, CompilePolicy
from .level import SIDE
from .light_field import LightField
from .network import DreamWorld
from .noise import dream_noise
from .pictures import Encoder
from .settling import settle

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
