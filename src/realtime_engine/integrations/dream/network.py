"""The whole network, and the sizes that it is made of."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from ..maze.renderer import FIELD
from .dynamics import Dynamics
from .light_field import LightField
from .pictures import COLUMNS, Decoder, Encoder
from .walks import CONTROLS


@dataclass(frozen=True)
class DreamSizes:
    """How large the parts are.

    Attributes:
        latent: numbers in a column of latents.
        code: numbers that tell a theme.
        encoder_width, field_width, decoder_width, decoder_channels: see the parts.
        hidden: numbers of the recurrence in the dynamics.
        dynamics_width: of the layers that know the walls.
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
                raise ValueError(f"{name} must be a whole number of 1 or more, got {value!r}")


class DreamWorld(nn.Module):
    """What every step needs: how visitors move, what is seen from where, how latents become pixels."""

    def __init__(self, sizes: DreamSizes) -> None:
        super().__init__()
        self.dynamics = Dynamics(CONTROLS, sizes.hidden, sizes.dynamics_width)
        self.field = LightField(COLUMNS, sizes.latent, sizes.code, sizes.field_width, FIELD)
        self.decoder = Decoder(sizes.latent, sizes.decoder_width, sizes.decoder_channels)


class DreamNetwork(nn.Module):
    """The world, and the encoder that only the beginning of a session and a change of theme need."""

    def __init__(self, sizes: DreamSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.encoder = Encoder(sizes.latent, sizes.code, sizes.encoder_width)
        self.world = DreamWorld(sizes)
