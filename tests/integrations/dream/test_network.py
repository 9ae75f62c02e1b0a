from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from realtime_engine.integrations.dream.level import HEIGHT, WIDTH
from realtime_engine.integrations.dream.network import (
    COLUMNS,
    Decoder,
    DreamNetwork,
    DreamSizes,
    Dynamics,
    Encoder,
    LightField,
    RowLinear,
    waves,
)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "8", None])
def test_sizes_are_whole_numbers(value: Any) -> None:
    with pytest.raises(ValueError, match="field_width must be an integer of 1 or more, got"):
        DreamSizes(field_width=value)


def test_the_network_has_few_weights() -> None:
    count = sum(parameter.numel() for parameter in DreamNetwork(DreamSizes()).parameters())
    assert count * 2 < 8_000_000  # bytes, in half precision


def test_every_size_changes_the_network() -> None:
    shapes = {name: tensor.shape for name, tensor in DreamNetwork(DreamSizes()).state_dict().items()}
    for name, value in vars(DreamSizes()).items():
        others = {n: t.shape for n, t in DreamNetwork(DreamSizes(**{name: value * 2})).state_dict().items()}
        assert others.keys() == shapes.keys() and others != shapes


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


FIELD_COLUMNS, LATENT, CODE, FIELD_WIDTH, FOCAL = 12, 3, 2, 8, 0.78
WAVES = [2 * math.pi * k for k in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)]
TURNS = 12


@pytest.fixture
def field() -> LightField:
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(1)
        return LightField(FIELD_COLUMNS, LATENT, CODE, FIELD_WIDTH, FOCAL).double().eval()


def place(x: float, y: float, angle: float) -> Tensor:
    return torch.tensor([[x, y, math.cos(angle), math.sin(angle)]], dtype=torch.float64)


CODES = torch.tensor([[0.3, -0.8]], dtype=torch.float64)


def angle_of(column: int) -> float:
    """To the right of the middle of the picture."""
    return math.atan(((column + 0.5) / FIELD_COLUMNS - 0.5) / float(np.float32(FOCAL)))


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
    for column in range(FIELD_COLUMNS):
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
    assert mean.shape == spread.shape == (1, LATENT, FIELD_COLUMNS)
    assert np.allclose(mean[0].detach(), out[:LATENT], atol=1e-5)
    assert np.allclose(spread[0].detach(), out[LATENT:], atol=1e-5)


def test_turning_by_the_angle_between_two_columns_shifts_what_rays_are_told(field: LightField) -> None:
    x, y, angle = 3.2, 5.6, 1.1
    for one, other in ((2, 3), (0, 7), (9, 4)):
        turned = field._encode_rays(place(x, y, angle + angle_of(other) - angle_of(one)), CODES)[0, one]
        before = field._encode_rays(place(x, y, angle), CODES)[0, other]
        assert torch.allclose(turned[:-2], before[:-2], atol=1e-5)  # the last two say which column it is
        assert not torch.allclose(turned[-2:], before[-2:], atol=1e-3)


def test_rays_look_to_the_right_in_the_right_half(field: LightField) -> None:
    assert (field.rays[: FIELD_COLUMNS // 2, 1] < 0).all() and (field.rays[FIELD_COLUMNS // 2 :, 1] > 0).all()
    assert torch.allclose(field.rays.norm(dim=1), torch.ones(FIELD_COLUMNS, dtype=torch.float64), atol=1e-6)


def test_light_field_rows_do_not_depend_on_one_another(field: LightField) -> None:
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


@pytest.mark.parametrize("shape", [(3,), (5, 2), (4, 7, 2)])
def test_waves_are_sines_then_cosines_of_each_value(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(1)
    values, numbers = random.normal(size=shape), [0.5, 1.0, 3.0]
    got = waves(torch.from_numpy(values), torch.tensor(numbers, dtype=torch.float64))
    assert got.shape == (*shape[:-1], 2 * shape[-1] * 3)
    for index in np.ndindex(shape[:-1]):
        phases = [value * number for value in values[index].tolist() for number in numbers]
        expected = [math.sin(phase) for phase in phases] + [math.cos(phase) for phase in phases]
        assert np.allclose(got[index].numpy(), expected, atol=1e-12)


def both(inputs: int, outputs: int, bias: bool) -> tuple[RowLinear, nn.Linear]:
    torch.manual_seed(inputs)
    plain = nn.Linear(inputs, outputs, bias=bias)
    ours = RowLinear(inputs, outputs, bias=bias)
    ours.load_state_dict(plain.state_dict())
    return ours, plain


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("inputs", "outputs"), [(6, 8), (8, 3), (58, 160), (160, 2)])
def test_the_bits_of_a_row_follow_from_the_row(inputs: int, outputs: int, bias: bool) -> None:
    layer, plain = both(inputs, outputs, bias)
    with torch.inference_mode():
        for count in (1, 2, 3, 5, 8, 17):
            rows = torch.randn(count, inputs)
            together = layer(rows)
            alone = torch.cat([layer(row[None]) for row in rows])
            turned = torch.cat([layer(rows.roll(by, 0))[by : by + 1] for by in range(count)])
            assert torch.equal(together, alone)
            assert torch.equal(turned, together[:1].expand(count, -1))
            torch.testing.assert_close(together, plain(rows))


def test_it_learns_as_a_linear_layer_does() -> None:
    ours, plain = both(5, 4, True)
    rows = torch.randn(7, 5)
    for layer in (ours, plain):
        layer(rows).square().sum().backward()
    assert torch.equal(ours(rows), plain(rows))
    assert ours.weight.grad is not None and plain.weight.grad is not None
    assert torch.equal(ours.weight.grad, plain.weight.grad)


def parts() -> tuple[Encoder, Decoder]:
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(1)
        return Encoder(latent=5, code=2, width=4).eval(), Decoder(latent=5, width=6, channels=2).eval()


def random_pictures(count: int) -> torch.Tensor:
    return torch.rand(count, 3, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(2)) * 2 - 1


@pytest.mark.parametrize("count", [1, 3])
def test_shapes(count: int) -> None:
    encoder, decoder = parts()
    with torch.inference_mode():
        latents, places, codes = encoder(random_pictures(count))
        pictures = decoder(latents)
    assert (latents.shape, places.shape, codes.shape) == ((count, 5, COLUMNS), (count, 4), (count, 2))
    assert pictures.shape == (count, 3, HEIGHT, WIDTH)
    assert torch.allclose(places[:, 2:].norm(dim=1), torch.ones(count), atol=1e-5)


def test_pictures_and_columns_stay_where_they_are() -> None:
    """A column of latents is of the part of the picture where it stands: what is far away does not touch it."""
    encoder, decoder = parts()
    picture = random_pictures(1)
    other = picture.clone()
    other[..., WIDTH // 2 :] = 0
    with torch.inference_mode():
        before, after = encoder(picture)[0], encoder(other)[0]
        changed = (before != after).any(1)[0]
        assert not changed[: COLUMNS // 2 - 8].any() and changed[COLUMNS // 2 + 8 :].all()
        latents = before.clone()
        latents[..., COLUMNS // 2 :] = 0
        drawn = (decoder(before) != decoder(latents)).any(1).any(1)[0]
        assert not drawn[: WIDTH // 2 - 16].any() and drawn[WIDTH // 2 + 16 :].all()


def test_pictures_rows_do_not_depend_on_one_another() -> None:
    encoder, decoder = parts()
    pictures = random_pictures(4)
    others = pictures.flip(0).clone()
    others[2] = pictures[2]
    with torch.inference_mode():
        for one, other in zip(encoder(pictures), encoder(others), strict=True):
            assert torch.equal(one[2], other[2])
        latents = encoder(pictures)[0]
        mixed = latents.flip(0).clone()
        mixed[2] = latents[2]
        assert torch.equal(decoder(latents)[2], decoder(mixed)[2])
