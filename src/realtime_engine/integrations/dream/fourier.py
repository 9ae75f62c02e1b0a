"""Coordinates as waves, so that a network can tell near places apart (Tancik et al. 2020, Fourier features)."""

from __future__ import annotations

import torch
from torch import Tensor


def waves(values: Tensor, numbers: Tensor) -> Tensor:
    """Sine and cosine of each value at each wave number.

    Args:
        values: (..., n).
        numbers: (k,) radians a unit.

    Returns:
        (..., 2 * n * k).
    """
    phases = (values.unsqueeze(-1) * numbers).flatten(-2)
    return torch.cat((torch.sin(phases), torch.cos(phases)), -1)
