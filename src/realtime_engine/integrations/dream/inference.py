"""Inference on a batch of rows: noise, stepping and decoding, chunks, and the picture encoder. No session logic."""

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
from .localization import localize
from .network import COLUMNS, DreamSizes, DreamWorld, Encoder, LightField
from .weights import Weights

_PERIOD = 10  # steps between two draws; rotation between draws keeps the variance at 1


def dream_noise(seed: int, step: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return standard normal noise of a step, correlated between consecutive steps.

    Args:
        seed: seed of the session, 0 or more.
        step: index of the step, from 0.
        shape: shape of the noise.
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


class PictureEncoding(NamedTuple):
    """Encoding of one picture.

    Attributes:
        place: (4,) x, y in cells, cosine and sine of the yaw.
        code: (code,) theme code.
    """

    place: Tensor
    code: Tensor


class State(NamedTuple):
    """State of n rows: ``places`` (n, 4), and ``hidden`` (n, hidden), the recurrent state, zero at rest."""

    places: Tensor
    hidden: Tensor


def encode(encoder: Encoder, field: LightField, picture: Pictures) -> PictureEncoding:
    """Encode and localize one (HEIGHT, WIDTH, 3) RGB picture."""
    device = next(encoder.parameters()).device
    with torch.inference_mode():
        latents, places, codes = encoder(as_input(picture[None]).to(device))
        place = localize(field, latents[0], _clamp_to_level(places[0]), codes[0])
        return PictureEncoding(_clamp_to_level(place), codes[0])


def _clamp_to_level(place: Tensor) -> Tensor:
    """Clamp a place to the inside of the level; an unknown picture can be localized far outside of it."""
    return torch.cat((place[:2].clamp(1, SIDE - 1), place[2:]))


class Dreamer:
    """Steps and decodes all rows of a batch in one forward pass each.

    Every operation treats rows independently. With a constant batch size, the output of a row is therefore
    bit-identical, whatever the other rows contain.

    Args:
        world: the network.
        compile: compile the network at the first batch of each size.
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
        """Advance by one step. ``controls`` is (n, CONTROLS)."""
        with torch.inference_mode():
            return State(*self._dynamics(state.places, state.hidden, controls))

    def predict(self, places: Tensor, codes: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the (n, latent, COLUMNS) latents seen from ``places``.

        Args:
            places: (n, 4) x, y in cells, cosine and sine of the yaw.
            codes: (n, code) theme codes.
            noise: (n, latent, COLUMNS) noise in units of the expected error, from :func:`random_walk`.
        """
        with torch.inference_mode():
            latents: Tensor
            latents, spread = self._field(places, codes)
            if noise is not None:
                latents = latents + noise * torch.exp(spread)
            return latents

    def decode(self, latents: Tensor) -> Pictures:
        """Return (n, HEIGHT, WIDTH, 3) RGB pictures of (n, latent, COLUMNS) latents."""
        with torch.inference_mode():
            pixels = self._decoder(latents).add_(1).mul_(127.5).round_().clamp_(0, 255).to(torch.uint8)
            pictures: Pictures = pixels.permute(0, 2, 3, 1).contiguous().cpu().numpy()
            return pictures


def random_walk(
    seeds: NDArray[np.int64], steps: NDArray[np.int64], strengths: NDArray[np.float32], shape: tuple[int, int]
) -> Tensor | None:
    """Return (n, *shape) noise of n rows, each from its own seed and step; ``None`` if all strengths are 0."""
    if not strengths.any():
        return None
    noise = np.zeros((len(seeds), *shape), np.float32)
    for row in np.flatnonzero(strengths).tolist():
        noise[row] = strengths[row] * dream_noise(int(seeds[row]), int(steps[row]), shape)
    return torch.from_numpy(noise)


def as_input(pictures: Pictures) -> Tensor:
    """Convert (n, height, width, 3) RGB to (n, 3, height, width) in [-1, 1], channels last in memory."""
    return torch.from_numpy(pictures).permute(0, 3, 1, 2).float().div(127.5).sub(1)


MAX_ERRORS = np.float32(6)
"""Standard deviation of the latent noise at full strength, in units of the error that the light field predicts."""


class NoiseSettings(NamedTuple):
    """Latent noise of n rows: (n,) seeds, ages in chunks, and strengths from 0 to 1."""

    seeds: NDArray[np.int64]
    ages: NDArray[np.int64]
    strengths: NDArray[np.float32]


class Chunks:
    """Generates chunks for any number of rows.

    Args:
        dreamer: the network.
        sizes: sizes of the network.
        shape: shape of a chunk, (frames, height, width, 3).
        steps_per_frame: steps of the dynamics per frame.

    Attributes:
        shape: shape of a chunk.
        latent_shape: shape of the latents of one picture.
        code: size of the theme code.
        device: device of the network.
    """

    def __init__(
        self, dreamer: Dreamer, sizes: DreamSizes, shape: tuple[int, int, int, int], steps_per_frame: int
    ) -> None:
        self.shape = shape
        self.latent_shape = (sizes.latent, COLUMNS)
        self.code = sizes.code
        self.device = dreamer.device
        self._dreamer = dreamer
        self._steps_per_frame = steps_per_frame

    def at_rest(self, rows: int) -> State:
        """Return the state of unused rows: a fixed pose at rest, so that all results stay finite."""
        places = torch.zeros(rows, 4, device=self.device)
        places[:, 2] = 1  # a heading
        return State(places, torch.zeros(rows, self._dreamer.hidden, device=self.device))

    def advance(
        self, state: State, codes: Tensor, controls: NDArray[np.float32], noise: NoiseSettings
    ) -> tuple[State, Tensor]:
        """Advance n rows by one chunk.

        Args:
            state: the state before the chunk; not modified.
            codes: (n, code) theme codes.
            controls: (n, CONTROLS); the pointer travel is applied in the first step only.
            noise: the latent noise of each row.

        Returns:
            The state after the chunk, and its (frames, n, latent, COLUMNS) latents.
        """
        inputs = torch.tensor(controls, device=self.device)
        latents = []
        for frame in range(self.shape[0]):
            for _ in range(self._steps_per_frame):
                state = self._dreamer.step(state, inputs)
                inputs[:, -1] = 0
            errors = noise.strengths * MAX_ERRORS
            offsets = random_walk(noise.seeds, noise.ages * self.shape[0] + frame, errors, self.latent_shape)
            if offsets is not None:
                offsets = offsets.to(self.device)
            latents.append(self._dreamer.predict(state.places, codes, offsets))
        return state, torch.stack(latents)

    def decode(self, latents: Tensor, chunks: Mapping[int, NDArray[np.uint8]]) -> None:
        """Decode (frames, n, latent, COLUMNS) latents; ``chunks`` maps rows to the arrays to write into."""
        for frame, latent in enumerate(latents):
            pictures = self._dreamer.decode(latent)
            for row, chunk in chunks.items():
                enlarge(pictures[row], chunk[frame])


def enlarge(picture: NDArray[np.uint8], into: NDArray[np.uint8]) -> None:
    """Resize a (HEIGHT, WIDTH, 3) picture to the size of ``into``, with bicubic interpolation."""
    height, width = into.shape[:2]
    if (height, width) == (HEIGHT, WIDTH):
        into[...] = picture
    else:
        cv2.resize(picture, (width, height), dst=into, interpolation=cv2.INTER_CUBIC)


_REFERENCE_SEED = 0
_CACHE_BYTES = 2**16  # of tensor data: about 1000 encodings, each about 1 KiB with the overhead of Python objects


class PictureEncoder:
    """Encodes and localizes pictures. Caches the results; unloads the encoder's weights after each use."""

    def __init__(self, weights: Weights, field: LightField, device: torch.device) -> None:
        self._lifecycle: EncoderLifecycle[Encoder, NDArray[np.uint8]] = EncoderLifecycle(
            load=lambda: weights.encoder(device),
            encode=lambda encoder, picture: _on_host(encode(encoder, field, picture)),
            cache_bytes=_CACHE_BYTES,
            name="the dream's encoder",
            thorough=False,  # a few megabytes without reference cycles; a full collection would stall all rows
        )

    def encode(self, pictures: Sequence[NDArray[np.uint8]]) -> list[PictureEncoding]:
        """Return the place and theme code of each picture, on the host, so that any stream may use them."""
        return [PictureEncoding(*encoding) for encoding in self._lifecycle.encode_all(pictures)]

    def codes_of(self, themes: Sequence[str]) -> list[Tensor]:
        """Return the code of each theme, encoded from a reference picture in that theme."""
        return [encoding.code for encoding in self.encode([seed_picture(_REFERENCE_SEED, theme) for theme in themes])]


def _on_host(encoding: PictureEncoding) -> PictureEncoding:
    """Copy an encoding to the host: lanes share the cache but do not synchronize their streams."""
    return PictureEncoding(encoding.place.cpu(), encoding.code.cpu())
