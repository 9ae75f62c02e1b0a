from __future__ import annotations

import math

import pytest
import torch

from realtime_engine.integrations.dream.localization import localize

from .tiny import SIZES, tiny_network

CODE = torch.tensor([0.2, -0.1])


def smooth_field(places: torch.Tensor, codes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Like a light field, but that nothing repeats itself within a few cells."""
    weights = torch.randn(6, 4 * 48, generator=torch.Generator().manual_seed(0)) * 0.4
    latents = torch.sin(torch.cat((places, codes), 1) @ weights).reshape(-1, 4, 48)
    return latents, latents


def place_of(x: float, y: float, yaw: float) -> torch.Tensor:
    return torch.tensor([x, y, math.cos(yaw), math.sin(yaw)])


@pytest.mark.parametrize("offset", [(0.0, 0.0, 0.0), (0.2, -0.3, 0.15), (-0.4, 0.3, -0.2)])
@pytest.mark.parametrize("true", [(2.5, 3.5, 0.3), (6.2, 1.4, 3.0), (4.5, 7.5, -1.6)])
def test_the_place_is_found_from_a_nearby_guess(true: tuple[float, ...], offset: tuple[float, ...]) -> None:
    wanted = place_of(*true)
    guess = place_of(*(at + by for at, by in zip(true, offset, strict=True)))
    found = localize(smooth_field, smooth_field(wanted[None], CODE[None])[0][0], guess, CODE)  # type: ignore[arg-type]
    assert (found - wanted).abs().max() < 1e-3
    assert abs(float(found[2:].norm()) - 1) < 1e-4


def test_the_error_never_exceeds_that_of_the_guess() -> None:
    field, code = tiny_network().world.field, torch.zeros(SIZES.code)
    latents = torch.randn(SIZES.latent, 48, generator=torch.Generator().manual_seed(1)) * 0.3
    guess = place_of(4.0, 4.0, 1.0)

    def mean_square_error(place: torch.Tensor) -> float:
        return float((field(place[None], code[None])[0][0] - latents).square().mean())

    with torch.inference_mode():
        assert mean_square_error(localize(field, latents, guess, code)) <= mean_square_error(guess)
