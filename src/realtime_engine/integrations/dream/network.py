"""The dream's network: encoder, dynamics, light field, decoder and their sizes.

Names of parameters and submodules are the tensor names of the weight file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..maze.renderer import FIELD
from .level import CONTROLS, HEIGHT, SIDE, WIDTH


def waves(values: Tensor, numbers: Tensor) -> Tensor:
    """Return the sine and cosine of each value at each wave number.

    Args:
        values: (..., n).
        numbers: (k,) wave numbers in radians per unit.

    Returns:
        (..., 2 * n * k).
    """
    phases = (values.unsqueeze(-1) * numbers).flatten(-2)
    return torch.cat((torch.sin(phases), torch.cos(phases)), -1)


class RowLinear(nn.Linear):
    """``nn.Linear`` for (n, inputs) whose output for a row is independent of the batch while gradients are disabled.

    A matrix product is computed in tiles, so the rounding of a row depends on its tile and on the batch size. This
    layer computes one product per row instead; the extra cost is negligible in small layers. An activation that
    follows, such as SiLU, has the same problem when a row does not fill whole vector registers: use a multiple of 32
    outputs in front of anything other than sums and products.
    """

    def forward(self, rows: Tensor) -> Tensor:
        """Map (n, inputs) to (n, outputs)."""
        if torch.is_grad_enabled():
            return super().forward(rows)
        count = len(rows)
        products = torch.bmm(rows[:, None], self.weight.t().expand(count, -1, -1))[:, 0]
        return products if self.bias is None else products + self.bias


_STILL = 1e-6  # cells or radians per step
_WALLS = 1.5  # largest correction along an axis, relative to the length of the move
_WAVES = tuple(2 * math.pi * k for k in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0))  # radians per cell


class Dynamics(nn.Module):
    """Advances the poses of all rows by one step.

    A linear recurrence maps controls to a twist (ahead, aside, turn). It learns inertia and decays to zero without
    controls, so a pose at rest does not drift. The twist moves the pose as a rigid body in the plane. A learned
    correction, proportional to the length of the move, accounts for walls. Speeds below the resolution of single
    precision are set to 0, so the pose of a row at rest stays bit-identical.

    Args:
        controls: number of controls per step.
        hidden: size of the recurrent state.
        width: width of the layers of the wall correction.
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
        """Advance by one step.

        Args:
            place: (n, 4) x, y in cells, cosine and sine of the yaw.
            hidden: (n, hidden) recurrent state, zero at rest.
            controls: (n, controls).

        Returns:
            ``place`` and ``hidden`` after the step.
        """
        hidden = torch.sigmoid(self.decay) * hidden + self.press(controls)
        twist = nn.functional.hardshrink(self.twist(hidden) + self.at_once(controls), _STILL)
        ahead, aside, turn = twist.unbind(1)
        x, y, cos, sin = place.unbind(1)
        turn_cos, turn_sin = torch.cos(turn), torch.sin(turn)
        cos, sin = cos * turn_cos - sin * turn_sin, sin * turn_cos + cos * turn_sin
        length = torch.where(
            turn == 0, 1.0, torch.rsqrt(cos * cos + sin * sin)
        )  # keeps rounding errors from accumulating
        cos, sin = cos * length, sin * length
        way = torch.stack((ahead * cos - aside * sin, ahead * sin + aside * cos), 1)
        at = torch.stack((x, y), 1) + way
        at = at + self.correction(at, way)
        return torch.cat((at, cos[:, None], sin[:, None]), 1), hidden

    def correction(self, at: Tensor, way: Tensor) -> Tensor:
        """Return the (n, 2) correction by walls of moves (n, 2) ``way`` that would end at (n, 2) ``at``."""
        far = torch.sqrt((way * way).sum(1, keepdim=True) + 1e-12)  # the gradient of the square root is infinite at 0
        correction = far * torch.tanh(self.walls(torch.cat((waves(at, self.numbers), way / far), 1))) * _WALLS
        return torch.where((way == 0).all(1, keepdim=True), 0.0, correction)


_POSITION_WAVES = tuple(2 * math.pi * k for k in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0))  # radians per cell
_TURNS = 12  # harmonics of the direction of a ray


class LightField(nn.Module):
    """Predicts the column latents of the view from a pose (after Sitzmann et al. 2021, Light Field Networks).

    A ray is encoded by its origin, its direction, its moment (its distance from the coordinate origin) and the position
    of its origin along it. A rotation in place only shifts rays, so what is learned from one view applies to others.

    Args:
        columns: number of columns of latents.
        latent: channels per column.
        code: size of the theme code.
        width: width of the hidden layers.
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
        """Predict the view from each pose.

        Args:
            place: (n, 4) x, y in cells, cosine and sine of the yaw.
            code: (n, code) theme codes.

        Returns:
            (n, latent, columns) each: the latents and the logarithm of their expected error.
        """
        encoded = self._encode_rays(place, code)
        x = nn.functional.silu(self.enter(encoded))
        for layer in self.middle:
            x = x + nn.functional.silu(layer(x))
        x = nn.functional.silu(self.again(torch.cat((x, encoded), -1)))
        for layer in self.late:
            x = x + nn.functional.silu(layer(x))
        x = self.leave(nn.functional.silu(self.across(x.transpose(1, 2))))
        mean, spread = x.chunk(2, 1)
        return mean, spread

    def _encode_rays(self, place: Tensor, code: Tensor) -> Tensor:
        """Return (n, columns, inputs): the encoded ray of each column."""
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
                _harmonics(ray_x, ray_y),
                code[:, None].expand(-1, columns, -1),
                self.rays.expand(len(place), -1, -1),
            ),
            -1,
        )


def _harmonics(cos: Tensor, sin: Tensor) -> Tensor:
    """Return cosines and sines of 1 to _TURNS times an angle, by Chebyshev's recurrence."""
    cosines, sines = [torch.ones_like(cos), cos], [torch.zeros_like(sin), sin]
    for _ in range(_TURNS - 1):
        cosines.append(2 * cos * cosines[-1] - cosines[-2])
        sines.append(2 * cos * sines[-1] - sines[-2])
    return torch.stack(cosines[1:] + sines[1:], -1)


COLUMNS = WIDTH // 2
"""Number of latent columns of a picture."""

_MIDDLE = SIDE / 2  # center of the level, in cells


class Encoder(nn.Module):
    """Encodes a picture as column latents, camera pose and theme code.

    Args:
        latent: channels per column.
        code: size of the theme code.
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
        """Encode pictures.

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
    """Decodes column latents to a picture: 1D convolutions over the columns, then 2D convolutions over the picture.

    Args:
        latent: channels per column.
        width: channels of the 1D layers.
        channels: channels of the 2D layers.
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
        """Map (n, latent, COLUMNS) to (n, 3, HEIGHT, WIDTH), approximately in [-1, 1]."""
        silu = nn.functional.silu
        x = silu(self.look(latents))
        x = x + silu(self.think(x))
        x = self.draw(x).unflatten(1, (self.channels, HEIGHT // 2)) + self.where
        x = silu(self.smooth(silu(x)))
        return nn.functional.pixel_shuffle(self.finish(x), 2)


@dataclass(frozen=True)
class DreamSizes:
    """Sizes of the parts of the network.

    Attributes:
        latent: channels per latent column.
        code: size of the theme code.
        encoder_width, field_width, decoder_width, decoder_channels: see :class:`Encoder`, :class:`LightField` and
            :class:`Decoder`.
        hidden: size of the recurrent state of the dynamics.
        dynamics_width: width of the layers of the wall correction.

    Raises:
        ValueError: a size is not an integer of 1 or more.
    """

    latent: int = 16
    code: int = 4
    encoder_width: int = 24
    field_width: int = 320
    decoder_width: int = 256
    decoder_channels: int = 8
    hidden: int = 8
    dynamics_width: int = 160

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be an integer of 1 or more, got {value!r}")


class DreamWorld(nn.Module):
    """The parts of the network that run in every step: dynamics, light field and decoder."""

    def __init__(self, sizes: DreamSizes) -> None:
        super().__init__()
        self.dynamics = Dynamics(CONTROLS, sizes.hidden, sizes.dynamics_width)
        self.field = LightField(COLUMNS, sizes.latent, sizes.code, sizes.field_width, FIELD)
        self.decoder = Decoder(sizes.latent, sizes.decoder_width, sizes.decoder_channels)


class DreamNetwork(nn.Module):
    """The whole network: the world model, and the encoder, which runs at session start and on a theme change."""

    def __init__(self, sizes: DreamSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.encoder = Encoder(sizes.latent, sizes.code, sizes.encoder_width)
        self.world = DreamWorld(sizes)
