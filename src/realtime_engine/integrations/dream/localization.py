"""Where a picture was taken, found out by looking from many places until what is seen fits."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .network import LightField

_STARTS, _KEPT = 4, 2  # guesses around the first one, and how many of them are followed at first
_SPREAD = (0.3, 0.3, 0.15)  # standard deviations of the guesses: cells, cells, radians
_STEPS_OF_ALL, _STEPS_OF_BEST = 1, 3
_PROBE = 1e-2  # cells and radians, for slopes
_MAX = 0.3  # cells and radians a step


def settle(field: LightField, latents: Tensor, place: Tensor, code: Tensor) -> Tensor:
    """The place near a first guess from which the light field sees latents most like these.

    Levenberg-Marquardt (Marquardt 1963) from the best of some guesses, with slopes by differences.

    Args:
        latents: (latent, columns) of one picture.
        place: (4,) the first guess: x, y in cells, cosine and sine of the yaw.
        code: (code,) the picture's theme.

    Returns:
        (4,).
    """
    wanted = latents.flatten()

    def off(places: Tensor) -> Tensor:
        seen: Tensor = field(places, code.expand(len(places), -1))[0]
        return seen.flatten(1) - wanted

    guesses = _moved(place.expand(_STARTS, -1), _guesses().to(place))
    best = off(guesses).square().mean(1).topk(_KEPT, largest=False).indices
    places, damping = guesses[best], place.new_full((_KEPT,), 1e-2)
    residual = off(places)
    for step in range(_STEPS_OF_ALL + _STEPS_OF_BEST):
        if step == _STEPS_OF_ALL:
            best = residual.square().mean(1).argmin()[None]
            places, damping, residual = places[best], damping[best], residual[best]
        tried = _moved(places, _step(off, places, residual, damping).clamp(-_MAX, _MAX))
        then = off(tried)
        better = then.square().mean(1) < residual.square().mean(1)
        places = torch.where(better[:, None], tried, places)
        residual = torch.where(better[:, None], then, residual)
        damping = torch.where(better, damping * 0.3, damping * 4)
    return places[0]


def _step(off: Callable[[Tensor], Tensor], places: Tensor, residual: Tensor, damping: Tensor) -> Tensor:
    count = len(places)
    probes = torch.eye(3, device=places.device) * _PROBE
    probed = off(_moved(places.repeat_interleave(3, 0), probes.repeat(count, 1))).reshape(count, 3, -1)
    slopes = (probed - residual[:, None]) / _PROBE  # (n, 3, numbers)
    squares = slopes @ slopes.transpose(1, 2)
    damped = squares + damping[:, None, None] * torch.diag_embed(squares.diagonal(dim1=1, dim2=2))
    damped = damped + 1e-6 * torch.eye(3, device=places.device)
    solved: Tensor = torch.linalg.solve(damped, slopes @ residual[..., None])
    return -solved[..., 0]


def _moved(places: Tensor, by: Tensor) -> Tensor:
    """(n, 4) places moved by (n, 3): cells, cells, radians."""
    x, y, cos, sin = places.unbind(1)
    turn_cos, turn_sin = torch.cos(by[:, 2]), torch.sin(by[:, 2])
    return torch.stack(
        (x + by[:, 0], y + by[:, 1], cos * turn_cos - sin * turn_sin, sin * turn_cos + cos * turn_sin), 1
    )


def _guesses() -> Tensor:
    """(_STARTS, 3) always the same ones, the first being none."""
    generator = torch.Generator().manual_seed(0)
    guesses = torch.randn(_STARTS, 3, generator=generator) * torch.tensor(_SPREAD)
    guesses[0] = 0
    return guesses
