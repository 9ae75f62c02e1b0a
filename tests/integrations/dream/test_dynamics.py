from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from realtime_engine.integrations.dream.dynamics import Dynamics

CONTROLS, HIDDEN = 6, 4


def dynamics_of(seed: int = 0, bold: float = 1.0) -> Dynamics:
    """Random dynamics; ``bold`` scales what the walls say."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        dynamics = Dynamics(CONTROLS, HIDDEN, width=16)
    with torch.no_grad():
        dynamics.walls[-1].weight *= bold
        dynamics.walls[-1].bias *= bold
    return dynamics.eval().requires_grad_(False)


def start(count: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    angle = torch.rand(count, generator=generator) * 2 * math.pi
    return torch.cat((1 + 7 * torch.rand(count, 2, generator=generator), torch.stack((angle.cos(), angle.sin()), 1)), 1)


def controls_of(steps: int, count: int) -> Tensor:
    return torch.rand(steps, count, CONTROLS, generator=torch.Generator().manual_seed(2)) * 2 - 1


def test_without_walls_it_moves_as_rigid_bodies_do() -> None:
    """Against SE(2) by angles, in double precision."""
    dynamics = dynamics_of(bold=0.0)
    place, hidden, controls = start(3), torch.zeros(3, HIDDEN), controls_of(40, 3)
    x, y, cos, sin = place.double().numpy().T
    angle, h = np.arctan2(sin, cos), np.zeros((3, HIDDEN))
    keep = 1 / (1 + np.exp(-dynamics.decay.double().numpy()))
    press, twist, at_once = (
        layer.weight.double().numpy() for layer in (dynamics.press, dynamics.twist, dynamics.at_once)
    )
    for told in controls:
        place, hidden = dynamics(place, hidden, told)
        c = told.double().numpy()
        h = keep * h + c @ press.T
        ahead, aside, turn = (h @ twist.T + c @ at_once.T).T
        angle = angle + turn
        x = x + ahead * np.cos(angle) - aside * np.sin(angle)
        y = y + ahead * np.sin(angle) + aside * np.cos(angle)
        expected = np.stack([x, y, np.cos(angle), np.sin(angle)], 1)
        assert np.allclose(place.numpy(), expected, atol=2e-5)
        assert np.allclose(hidden.numpy(), h, atol=1e-5)
    assert np.abs(x - start(3)[:, 0].numpy()).max() > 0.1


def test_without_controls_a_row_at_rest_keeps_its_place_bit_for_bit() -> None:
    dynamics, place = dynamics_of(bold=50.0), start(512)
    hidden = torch.zeros(512, HIDDEN)
    after = place
    for _ in range(5):
        after, hidden = dynamics(after, hidden, torch.zeros(512, CONTROLS))
        assert torch.equal(after, place) and not hidden.any()


def test_speed_dies_away_until_nothing_moves() -> None:
    dynamics, place, hidden = dynamics_of(bold=50.0), start(64), torch.zeros(64, HIDDEN)
    for told in controls_of(20, 64):
        place, hidden = dynamics(place, hidden, told)
    for _ in range(400):
        before = place
        place, hidden = dynamics(place, hidden, torch.zeros(64, CONTROLS))
    assert torch.equal(place, before)


@pytest.mark.parametrize("bold", [1.0, 1e4])
def test_walls_move_a_row_by_one_and_a_half_of_its_way_at_most(bold: float) -> None:
    dynamics, free = dynamics_of(bold=bold), dynamics_of(bold=0.0)
    place, hidden = start(256), torch.zeros(256, HIDDEN)
    largest = 0.0
    for told in controls_of(20, 256):
        (walled, hidden_after), (unwalled, same) = dynamics(place, hidden, told), free(place, hidden, told)
        way = (unwalled - place)[:, :2].norm(dim=1, keepdim=True)
        correction = (walled - unwalled)[:, :2].abs()
        assert (correction <= 1.5 * way + 3e-6).all()
        assert torch.equal(hidden_after, same) and torch.equal(walled[:, 2:], unwalled[:, 2:])
        largest = max(largest, float((correction / way).max()))
        place, hidden = walled, hidden_after
    assert largest > (1.4 if bold > 1 else 0.01)


def test_the_heading_keeps_its_length() -> None:
    dynamics, place, hidden = dynamics_of(), start(8), torch.zeros(8, HIDDEN)
    for told in controls_of(1000, 8):
        place, hidden = dynamics(place, hidden, told)
    assert torch.allclose(place[:, 2:].norm(dim=1), torch.ones(8), atol=1e-6)


def test_rows_do_not_depend_on_one_another() -> None:
    dynamics, place, hidden, told = dynamics_of(bold=20.0), start(6), torch.ones(6, HIDDEN), controls_of(1, 6)[0]
    together = dynamics(place, hidden, told)
    others = [tensor.clone() for tensor in (place, hidden, told)]
    for tensor in others:
        tensor[[0, 1, 2, 4, 5]] = torch.flip(tensor[[0, 1, 2, 4, 5]], (0,)) * 0.5
    for whole, same in zip(together, dynamics(*others), strict=True):
        assert torch.equal(whole[3], same[3])
    alone = dynamics(place[3:4], hidden[3:4], told[3:4])
    assert all(torch.allclose(one[0], whole[3], atol=1e-6) for one, whole in zip(alone, together, strict=True))


def test_slopes_are_finite_at_rest() -> None:
    dynamics = dynamics_of().requires_grad_(True)
    place, hidden = dynamics(start(4), torch.zeros(4, HIDDEN), torch.zeros(4, CONTROLS))
    place, hidden = dynamics(place, hidden, controls_of(1, 4)[0])
    place.square().sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in dynamics.parameters())
    assert dynamics.at_once.weight.grad.abs().sum() > 0
