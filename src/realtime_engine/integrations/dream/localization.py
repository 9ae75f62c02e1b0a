"""Localization: refines the camera pose of a picture until the light field predicts the picture's latents."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .network import LightField

_STARTS, _KEPT = 4, 2  # initial guesses, and how many of them are refined
_SPREAD = (0.3, 0.3, 0.15)  # standard deviation of the guesses: cells, cells, radians
_STEPS_OF_ALL, _STEPS_OF_BEST = 1, 3
_PROBE = 1e-2  # cells and radians, step of the finite differences
_MAX_STEP = 0.3  # cells and radians per iteration


def localize(field: LightField, latents: Tensor, place: Tensor, code: Tensor) -> Tensor:
    """Return the place near an initial guess at which the light field best predicts the given latents.

    Uses Levenberg-Marquardt (Marquardt 1963) with finite differences, from the best of several guesses.

    Args:
        field: the light field.
        latents: (latent, columns) latents of one picture.
        place: (4,) initial guess: x, y in cells, cosine and sine of the yaw.
        code: (code,) theme code of the picture.

    Returns:
        (4,) the refined place.
    """
    target = latents.flatten()

    def residual(places: Tensor) -> Tensor:
        predicted: Tensor = field(places, code.expand(len(places), -1))[0]
        return predicted.flatten(1) - target

    guesses = _moved(place.expand(_STARTS, -1), _guesses().to(place))
    best = residual(guesses).square().mean(1).topk(_KEPT, largest=False).indices
    places, damping = guesses[best], place.new_full((_KEPT,), 1e-2)
    errors = residual(places)
    for step in range(_STEPS_OF_ALL + _STEPS_OF_BEST):
        if step == _STEPS_OF_ALL:
            best = errors.square().mean(1).argmin()[None]
            places, damping, errors = places[best], damping[best], errors[best]
        tried = _moved(places, _step(residual, places, errors, damping).clamp(-_MAX_STEP, _MAX_STEP))
        tried_errors = residual(tried)
        better = tried_errors.square().mean(1) < errors.square().mean(1)
        places = torch.where(better[:, None], tried, places)
        errors = torch.where(better[:, None], tried_errors, errors)
        damping = torch.where(better, damping * 0.3, damping * 4)
    return places[0]


def _step(residual: Callable[[Tensor], Tensor], places: Tensor, errors: Tensor, damping: Tensor) -> Tensor:
    """Return (n, 3) damped Gauss-Newton steps of n places."""
    count = len(places)
    probes = torch.eye(3, device=places.device) * _PROBE
    probed = residual(_moved(places.repeat_interleave(3, 0), probes.repeat(count, 1))).reshape(count, 3, -1)
    gradients = (probed - errors[:, None]) / _PROBE  # (n, 3, latents)
    squares = gradients @ gradients.transpose(1, 2)
    damped = squares + damping[:, None, None] * torch.diag_embed(squares.diagonal(dim1=1, dim2=2))
    damped = damped + 1e-6 * torch.eye(3, device=places.device)
    solved: Tensor = torch.linalg.solve(damped, gradients @ errors[..., None])
    return -solved[..., 0]


def _moved(places: Tensor, by: Tensor) -> Tensor:
    """Return (n, 4) places moved by (n, 3): cells, cells, radians."""
    x, y, cos, sin = places.unbind(1)
    turn_cos, turn_sin = torch.cos(by[:, 2]), torch.sin(by[:, 2])
    return torch.stack(
        (x + by[:, 0], y + by[:, 1], cos * turn_cos - sin * turn_sin, sin * turn_cos + cos * turn_sin), 1
    )


def _guesses() -> Tensor:
    """Return (_STARTS, 3) fixed offsets, the first of which is 0."""
    generator = torch.Generator().manual_seed(0)
    guesses = torch.randn(_STARTS, 3, generator=generator) * torch.tensor(_SPREAD)
    guesses[0] = 0
    return guesses
