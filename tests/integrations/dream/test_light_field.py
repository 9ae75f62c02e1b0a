from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from realtime_engine.integrations.dream.light_field import LightField

COLUMNS, LATENT, CODE, WIDTH, FOCAL = 12, 3, 2, 8, 0.78
WAVES = [2 * math.pi * k for k in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)]
TURNS = 12


@pytest.fixture
def field() -> LightField:
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(1)
        return LightField(COLUMNS, LATENT, CODE, WIDTH, FOCAL).double().eval()


def place(x: float, y: float, angle: float) -> Tensor:
    return torch.tensor([[x, y, math.cos(angle), math.sin(angle)]], dtype=torch.float64)


CODES = torch.tensor([[0.3, -0.8]], dtype=torch.float64)


def angle_of(column: int) -> float:
    """To the right of the middle of the picture."""
    return math.atan(((column + 0.5) / COLUMNS - 0.5) / float(np.float32(FOCAL)))


def waved(values: list[float]) -> list[float]:
    phases = [value * number for value in values for number in WAVES]
    return [math.sin(phase) for phase in phases] + [math.cos(phase) for phase in phases]


def told_of(x: float, y: float, angle: float, column: int) -> list[float]:
    """What a ray is told, the plain way."""
    ray = angle + angle_of(column)
    moment = x * math.sin(ray) - y * math.cos(ray)
    along = x * math.cos(ray) + y * math.sin(ray)
    turns = [math.cos(k * ray) for k in range(1, TURNS + 1)] + [math.sin(k * ray) for k in range(1, TURNS + 1)]
    here = [math.cos(angle_of(column)), math.sin(angle_of(column))]
    return [*waved([x, y]), *waved([moment, along]), *turns, *CODES[0].tolist(), *here]


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def weights_of(layer: torch.nn.Module) -> tuple[np.ndarray, np.ndarray]:
    return layer.weight.detach().numpy(), layer.bias.detach().numpy()  # type: ignore[union-attr, operator]


def linear(layer: torch.nn.Module, x: np.ndarray) -> np.ndarray:
    weight, bias = weights_of(layer)
    return weight @ x + bias


def across(layer: torch.nn.Module, columns: list[np.ndarray]) -> list[np.ndarray]:
    """A convolution over three columns, nothing being beyond the first and the last."""
    weight, bias = weights_of(layer)
    nothing = np.zeros_like(columns[0])
    padded = [nothing, *columns, nothing]
    return [sum(weight[:, :, k] @ padded[i + k] for k in range(3)) + bias for i in range(len(columns))]


def test_the_latents_are_those_of_the_plain_network(field: LightField) -> None:
    x, y, angle = 3.2, 5.6, 1.1
    columns = []
    for column in range(COLUMNS):
        told = np.array(told_of(x, y, angle, column))
        h = silu(linear(field.enter, told))
        for layer in field.middle:
            h = h + silu(linear(layer, h))
        h = silu(linear(field.again, np.concatenate([h, told])))
        for layer in field.late:
            h = h + silu(linear(layer, h))
        columns.append(h)
    out = np.stack(across(field.leave, [silu(c) for c in across(field.across, columns)]), 1)
    mean, spread = field(place(x, y, angle), CODES)
    assert mean.shape == spread.shape == (1, LATENT, COLUMNS)
    assert np.allclose(mean[0].detach(), out[:LATENT], atol=1e-5)
    assert np.allclose(spread[0].detach(), out[LATENT:], atol=1e-5)


def test_turning_by_the_angle_between_two_columns_shifts_what_rays_are_told(field: LightField) -> None:
    x, y, angle = 3.2, 5.6, 1.1
    for one, other in ((2, 3), (0, 7), (9, 4)):
        turned = field._rays(place(x, y, angle + angle_of(other) - angle_of(one)), CODES)[0, one]
        before = field._rays(place(x, y, angle), CODES)[0, other]
        assert torch.allclose(turned[:-2], before[:-2], atol=1e-5)  # the last two say which column it is
        assert not torch.allclose(turned[-2:], before[-2:], atol=1e-3)


def test_rays_look_to_the_right_in_the_right_half(field: LightField) -> None:
    assert (field.rays[: COLUMNS // 2, 1] < 0).all() and (field.rays[COLUMNS // 2 :, 1] > 0).all()
    assert torch.allclose(field.rays.norm(dim=1), torch.ones(COLUMNS, dtype=torch.float64), atol=1e-6)


def test_rows_do_not_depend_on_one_another(field: LightField) -> None:
    field = field.float()
    generator = torch.Generator().manual_seed(2)
    places = torch.cat([place(*row) for row in (torch.rand(6, 3, generator=generator) * 5).tolist()]).float()
    codes = torch.randn(6, CODE, generator=generator)
    together = field(places, codes)
    others = field(places[:1].expand(6, -1).clone().index_copy(0, torch.tensor([4]), places[4:5]), codes)
    for whole, same in zip(together, others, strict=True):
        assert torch.equal(whole[4], same[4])
        assert torch.equal(whole[0], same[0])
    alone = field(places[2:3], codes[2:3])
    assert all(torch.allclose(one[0], whole[2], atol=1e-5) for one, whole in zip(alone, together, strict=True))


def test_buffers_are_no_weights(field: LightField) -> None:
    assert not {"rays", "numbers"} & field.state_dict().keys()
