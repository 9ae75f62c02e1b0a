"""The autoencoder: pictures to column latents, and back."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .level import HEIGHT, SIDE, WIDTH

COLUMNS = WIDTH // 2
"""Columns of latents in a picture."""

_MIDDLE = SIDE / 2  # of the level, in cells


class Encoder(nn.Module):
    """A picture to column latents, to where it was taken, and to a code of its theme.

    Args:
        latent: numbers a column.
        code: numbers of the theme's code.
        width: channels of the first layer.
    """

    def __init__(self, latent: int, code: int, width: int) -> None:
        super().__init__()
        channels = (3, width, width * 3 // 2, width * 2, width * 3)
        strides = (2, 2), (2, 1), (2, 1), (2, 1)
        self.layers = nn.ModuleList(
            nn.Conv2d(before, after, 3, stride=stride, padding=1)
            for before, after, stride in zip(channels[:-1], channels[1:], strides, strict=True)
        )
        tall = channels[-1] * HEIGHT // 16
        self.columns = nn.Conv1d(tall, 128, 1)
        self.latents = nn.Conv1d(128, latent, 1)
        self.around = nn.Sequential(
            nn.Conv1d(128, 128, 5, stride=2, padding=2),
            nn.SiLU(),
            nn.Conv1d(128, 128, 5, stride=2, padding=2),
            nn.SiLU(),
            nn.Flatten(),
            nn.Linear(128 * COLUMNS // 4, 384),
            nn.SiLU(),
        )
        self.place = nn.Sequential(nn.Linear(384, 384), nn.SiLU(), nn.Linear(384, 4))
        self.code = nn.Linear(384, code)

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """
        Args:
            pictures: (n, 3, HEIGHT, WIDTH) in [-1, 1].

        Returns:
            (n, latent, COLUMNS) latents; (n, 4) x, y in cells, cosine and sine of the yaw; (n, code).
        """
        x = pictures
        for layer in self.layers:
            x = nn.functional.silu(layer(x))
        x = nn.functional.silu(self.columns(x.flatten(1, 2)))
        around = self.around(x)
        place = self.place(around)
        heading = nn.functional.normalize(place[:, 2:], dim=1)
        return self.latents(x), torch.cat((place[:, :2] + _MIDDLE, heading), 1), self.code(around)


class Decoder(nn.Module):
    """Column latents to a picture: columns are drawn with an eye on their neighbours, then smoothed out.

    Args:
        latent: numbers a column.
        width: of the layers that draw columns.
        channels: of the layers that smooth.
    """

    def __init__(self, latent: int, width: int, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.look = nn.Conv1d(latent, width, 5, padding=2)
        self.think = nn.Conv1d(width, width, 1)
        self.draw = nn.Conv1d(width, channels * HEIGHT // 2, 1)
        self.where = nn.Parameter(torch.zeros(1, channels, HEIGHT // 2, COLUMNS))
        self.smooth = nn.Conv2d(channels, channels * 2, 3, padding=1)
        self.finish = nn.Conv2d(channels * 2, 12, 3, padding=1)

    def forward(self, latents: Tensor) -> Tensor:
        """(n, latent, COLUMNS) -> (n, 3, HEIGHT, WIDTH), about [-1, 1]."""
        silu = nn.functional.silu
        x = silu(self.look(latents))
        x = x + silu(self.think(x))
        x = self.draw(x).unflatten(1, (self.channels, HEIGHT // 2)) + self.where
        x = silu(self.smooth(silu(x)))
        return nn.functional.pixel_shuffle(self.finish(x), 2)
