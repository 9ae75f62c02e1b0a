"""From a place to what is seen there: each column of a picture is one ray of a learned light field."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .fourier import waves

_POSITION_WAVES = tuple(2 * math.pi * k for k in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0))  # radians a cell
_TURNS = 12  # wave numbers of a ray's direction


class LightField(nn.Module):
    """Column latents of what a visitor sees (after Sitzmann et al. 2021, light field networks).

    A ray is told by the place that it starts from, its direction, its moment (its distance from the origin) and how far
    along it the place lies. Turning on the spot only shifts rays, so what was learned in one view serves the others.

    Args:
        columns: of latents.
        latent: numbers a column.
        code: numbers that tell the theme.
        width: of the hidden layers.
        focal: focal length in picture widths.
    """

    rays: Tensor
    numbers: Tensor

    def __init__(self, columns: int, latent: int, code: int, width: int, focal: float) -> None:
        super().__init__()
        across = (torch.arange(columns) + 0.5) / columns - 0.5
        angles = torch.atan(across / focal)
        self.register_buffer("rays", torch.stack((torch.cos(angles), torch.sin(angles)), 1), persistent=False)
        self.register_buffer("numbers", torch.tensor(_POSITION_WAVES), persistent=False)
        inputs = 4 * 2 * len(_POSITION_WAVES) + 2 * _TURNS + code + 2
        self.enter = nn.Linear(inputs, width)
        self.middle = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.again = nn.Linear(width + inputs, width)
        self.late = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.across = nn.Conv1d(width, width // 2, 3, padding=1)
        self.leave = nn.Conv1d(width // 2, 2 * latent, 3, padding=1)

    def forward(self, place: Tensor, code: Tensor) -> tuple[Tensor, Tensor]:
        """
        Args:
            place: (n, 4) x, y in cells, cosine and sine of the yaw.
            code: (n, code) the theme.

        Returns:
            (n, latent, columns) each: the latents, and the logarithm of how far off they are expected to be.
        """
        told = self._rays(place, code)
        x = nn.functional.silu(self.enter(told))
        for layer in self.middle:
            x = x + nn.functional.silu(layer(x))
        x = nn.functional.silu(self.again(torch.cat((x, told), -1)))
        for layer in self.late:
            x = x + nn.functional.silu(layer(x))
        x = self.leave(nn.functional.silu(self.across(x.transpose(1, 2))))
        mean, spread = x.chunk(2, 1)
        return mean, spread

    def _rays(self, place: Tensor, code: Tensor) -> Tensor:
        """(n, columns, inputs)."""
        at, cos, sin = place[:, None, :2], place[:, 2, None], place[:, 3, None]
        ray_x = cos * self.rays[:, 0] - sin * self.rays[:, 1]  # (n, columns)
        ray_y = sin * self.rays[:, 0] + cos * self.rays[:, 1]
        columns = len(self.rays)
        x, y = place[:, 0, None], place[:, 1, None]
        lines = torch.stack((x * ray_y - y * ray_x, x * ray_x + y * ray_y), -1)
        return torch.cat(
            (
                waves(at, self.numbers).expand(-1, columns, -1),
                waves(lines, self.numbers),
                _turned(ray_x, ray_y),
                code[:, None].expand(-1, columns, -1),
                self.rays.expand(len(place), -1, -1),
            ),
            -1,
        )


def _turned(cos: Tensor, sin: Tensor) -> Tensor:
    """Cosines and sines of 1 to _TURNS times an angle, by the recurrence of Chebyshev."""
    cosines, sines = [torch.ones_like(cos), cos], [torch.zeros_like(sin), sin]
    for _ in range(_TURNS - 1):
        cosines.append(2 * cos * cosines[-1] - cosines[-2])
        sines.append(2 * cos * sines[-1] - sines[-2])
    return torch.stack(cosines[1:] + sines[1:], -1)
