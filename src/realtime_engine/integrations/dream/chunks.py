"""The way of a chunk, from where rows are to its pictures; keeps no state of any row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .dreamer import Dreamer, State, wander
from .level import HEIGHT, WIDTH
from .network import DreamSizes
from .pictures import COLUMNS

MOST_ERRORS = np.float32(6)
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
            errors = astray.strengths * MOST_ERRORS
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
