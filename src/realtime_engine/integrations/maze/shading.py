"""Distance shading of texels: fog and the torch of the visitor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .grid import SIZE
from .palette import FOGS
from .rays import Floats
from .textures import LEVELS, MATERIALS
from .world import TORCH

MAX_VISIBLE = 1.5 * SIZE
"""Largest visible distance in cells; more than any line of sight in the map."""
_CLEAR = 0.5  # cells without fog
_TORCH_REACH = 4.0  # cells
_STEPS = 48  # table entries per cell of distance
_ENTRIES = int(MAX_VISIBLE * _STEPS) + 1


def fog_steps(density: float, distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return steps of fog, 0 to FOGS - 1, at distances in cells."""
    steps: NDArray[np.float64] = np.rint((FOGS - 1) * (1 - np.exp(-density * np.maximum(distance - _CLEAR, 0))))
    return steps


def torch_levels(distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the levels added by the torch at distances in cells."""
    levels: NDArray[np.float64] = np.rint(TORCH * np.clip(1 - distance / _TORCH_REACH, 0, 1))
    return levels


class Shading:
    """Tables of fog and torch by distance, one fog table per row.

    Args:
        rows: number of rows.
    """

    def __init__(self, rows: int) -> None:
        self._distances = np.arange(_ENTRIES) / _STEPS
        self._fog = np.zeros((rows, _ENTRIES), np.uint16)
        self._torch = torch_levels(self._distances).astype(np.uint16)

    def set_density(self, row: int, density: float) -> None:
        """Set the fog density of a row, per cell of distance."""
        self._fog[row] = fog_steps(density, self._distances)

    def fog(self, rows: NDArray[np.int64], distance: Floats) -> NDArray[np.uint16]:
        """Return the (n, m) fog offsets of texel indices at distances (n, m)."""
        steps = self._fog.ravel().take(_entry(distance) + (rows * _ENTRIES)[:, None])
        added: NDArray[np.uint16] = steps * np.uint16(MATERIALS * LEVELS)
        return added

    def torch(self, distance: Floats) -> NDArray[np.uint16]:
        """Return the torch offsets of texel indices at the given distances."""
        return self._torch.take(_entry(distance))

    def clear(self, rows: NDArray[np.int64], distance: Floats) -> Floats:
        """Return the (n, m) transmittance of the fog, 0 to 1."""
        clear: Floats = 1 - self.fog(rows, distance) / np.float32((FOGS - 1) * MATERIALS * LEVELS)
        return clear


def _entry(distance: Floats) -> NDArray[np.int64]:
    entry: NDArray[np.int64] = np.clip(distance * np.float32(_STEPS), 0, _ENTRIES - 1).astype(np.int64)
    return entry
