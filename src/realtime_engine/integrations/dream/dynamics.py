"""How a visitor moves: a recurrent state in the shape of a pose, with the rest learned."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .fourier import waves
from .row_linear import RowLinear

_STILL = 1e-6  # cells or radians a step
_WALLS = 1.5  # the largest correction along an axis, as a part of the way
_WAVES = tuple(2 * math.pi * k for k in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0))  # radians a cell


class Dynamics(nn.Module):
    """One step of all rows.

    A linear recurrence turns controls into a twist (ahead, aside, turn): inertia is learned, and without a control it
    dies away, so a visitor who stands still does not drift. The twist moves the pose as rigid bodies do in the plane.
    What walls do to that is a learned correction, in proportion to the way that was to be gone. What is left of a speed
    when it is below what single precision resolves is nothing: a row at rest keeps its place bit for bit.

    Args:
        controls: numbers that a step is told.
        hidden: of the recurrence.
        width: of the layers that know the walls.
    """

    numbers: Tensor

    def __init__(self, controls: int, hidden: int, width: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.decay = nn.Parameter(torch.linspace(0.0, 3.0, hidden))
        self.press = RowLinear(controls, hidden, bias=False)
        self.twist = RowLinear(hidden, 3, bias=False)
        self.at_once = RowLinear(controls, 3, bias=False)
        self.register_buffer("numbers", torch.tensor(_WAVES), persistent=False)
        self.walls = nn.Sequential(
            RowLinear(4 * len(_WAVES) + 2, width),
            nn.SiLU(),
            RowLinear(width, width),
            nn.SiLU(),
            RowLinear(width, width),
            nn.SiLU(),
            RowLinear(width, 2),
        )
        for layer in (self.press, self.twist, self.at_once):
            nn.init.normal_(layer.weight, std=0.05)

    def forward(self, place: Tensor, hidden: Tensor, controls: Tensor) -> tuple[Tensor, Tensor]:
        """
        Args:
            place: (n, 4) x, y in cells, cosine and sine of the yaw.
            hidden: (n, hidden), zero at rest.
            controls: (n, controls).

        Returns:
            place and hidden after the step.
        """
        hidden = torch.sigmoid(self.decay) * hidden + self.press(controls)
        twist = nn.functional.hardshrink(self.twist(hidden) + self.at_once(controls), _STILL)
        ahead, aside, turn = twist.unbind(1)
        x, y, cos, sin = place.unbind(1)
        turn_cos, turn_sin = torch.cos(turn), torch.sin(turn)
        cos, sin = cos * turn_cos - sin * turn_sin, sin * turn_cos + cos * turn_sin
        length = torch.where(turn == 0, 1.0, torch.rsqrt(cos * cos + sin * sin))  # rounding must not add up
        cos, sin = cos * length, sin * length
        way = torch.stack((ahead * cos - aside * sin, ahead * sin + aside * cos), 1)
        at = torch.stack((x, y), 1) + way
        at = at + self.correction(at, way)
        return torch.cat((at, cos[:, None], sin[:, None]), 1), hidden

    def correction(self, at: Tensor, way: Tensor) -> Tensor:
        """(n, 2) what walls do to a move of (n, 2) ``way`` that would end at (n, 2) ``at``."""
        far = torch.sqrt((way * way).sum(1, keepdim=True) + 1e-12)  # the root of 0 has no slope
        correction = far * torch.tanh(self.walls(torch.cat((waves(at, self.numbers), way / far), 1))) * _WALLS
        return torch.where((way == 0).all(1, keepdim=True), 0.0, correction)
