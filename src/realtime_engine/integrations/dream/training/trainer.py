"""Learning: first how visitors move, then what is seen from where."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from ....infra.atomic_file import atomic_file
from ..network import DreamNetwork, Dynamics
from .data import Lesson, Walkers, lessons, places_as_tensor, pushes
from .plan import Plan, Progress

OnStep = Callable[[str, int, float], None]

_UNROLLS = ((0.3, 8), (0.7, 16), (1.0, 32))  # until this part of the training, this many steps at a time
_WEIGHTS = {"autoencoder": 1.0, "rendering": 1.0, "latents": 0.02, "spread": 0.001, "place": 0.05, "size": 1e-4}
_PUSHING = 0.1  # weight of single moves beside walks


class Training:
    """The state of a training. It stops and goes on at the ends of rounds.

    On one machine's CPU, with the same versions and the same number of threads, a plan always gives the same bits,
    whether it was stopped in between or not. A GPU, and another number of threads, add up in another order.

    Args:
        plan: what to do.
        device: where to do it.
    """

    def __init__(self, plan: Plan, device: torch.device) -> None:
        self.plan = plan
        self.progress = Progress()
        self.device = device
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(plan.seed)
            self.network = DreamNetwork(plan.sizes).to(device)
        for part in (self.network.encoder, self.network.world.decoder):
            part.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._movers = torch.optim.Adam(_by_rate(self.network.world.dynamics), lr=plan.dynamics_rate)
        seers = [self.network.encoder, self.network.world.field, self.network.world.decoder]
        self._seeing = [parameter for part in seers for parameter in part.parameters()]
        self._seers = torch.optim.AdamW(self._seeing, lr=plan.picture_rate, betas=(0.9, 0.99), weight_decay=1e-4)

    def run(self, checkpoint: Path | None = None, on_step: OnStep = lambda *_: None) -> None:
        """Learn to the end of the plan.

        Args:
            checkpoint: where to write one after each round.
            on_step: told the part ("dynamics" or "pictures"), how many of its batches are done, the loss of the last.

        Raises:
            FloatingPointError: the training has diverged.
        """
        plan, progress = self.plan, self.progress
        while progress.dynamics < plan.dynamics_steps:
            self._round(self._dynamics_round, plan.dynamics_steps - progress.dynamics, checkpoint, on_step)
        while progress.pictures < plan.picture_steps:
            self._round(self._picture_round, plan.picture_steps - progress.pictures, checkpoint, on_step)

    def save(self, path: Path) -> None:
        """A checkpoint, whole or not at all. Raises :class:`OSError`."""
        state = {
            "plan": asdict(self.plan),
            "progress": asdict(self.progress),
            "network": self.network.state_dict(),
            "movers": self._movers.state_dict(),
            "seers": self._seers.state_dict(),
        }
        buffer = BytesIO()  # torch does not tell a full disk from any other trouble
        torch.save(state, buffer)
        with atomic_file(path, overwrite=True) as temporary:
            temporary.write_bytes(buffer.getbuffer())

    def resume(self, path: Path) -> None:
        """Go on from a checkpoint, of this device or another.

        Raises:
            ValueError: it belongs to another plan, or is damaged.
            OSError: it cannot be read.
        """
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            differing = _differing(state["plan"], asdict(self.plan))
        except OSError:
            raise
        except Exception as error:  # torch and pickle raise all sorts
            raise _damaged(path, error) from error
        if differing:
            raise ValueError(
                f"{path} was made with other settings ({', '.join(differing)}): give the same, or another folder"
            )
        try:
            self.progress = Progress(**state["progress"])
            self.network.load_state_dict(state["network"])
            self._movers.load_state_dict(state["movers"])
            self._seers.load_state_dict(state["seers"])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise _damaged(path, error) from error

    def _round(self, learn: Callable[[int, OnStep], None], left: int, checkpoint: Path | None, on_step: OnStep) -> None:
        began = time.monotonic()
        learn(min(self.plan.round, left), on_step)
        self.progress.minutes += (time.monotonic() - began) / 60
        if checkpoint is not None:
            self.save(checkpoint)

    def _dynamics_round(self, steps: int, on_step: OnStep) -> None:
        plan, progress = self.plan, self.progress
        walkers = Walkers(plan.walkers, _round_seed(plan.seed, progress.dynamics))
        walkers.walk(30)
        random = np.random.default_rng([_round_seed(plan.seed, progress.dynamics), 5])
        total = 0.0
        for _ in range(steps):
            part = progress.dynamics / plan.dynamics_steps
            _set_rate(self._movers, plan.dynamics_rate * _rate(progress.dynamics, part))
            walkers.rest()
            walks = walkers.walk(next(length for until, length in _UNROLLS if part < until))
            loss = dynamics_loss(
                self.network.world.dynamics,
                places_as_tensor(walks.places).to(self.device),
                torch.from_numpy(walks.controls).to(self.device),
            ) + _PUSHING * push_loss(self.network.world.dynamics, self._pushes(random))
            value = _learn(self._movers, loss, list(self.network.world.dynamics.parameters()), clip=0.3)
            progress.dynamics += 1
            total += value
            on_step("dynamics", progress.dynamics, value)
        self._note(dynamics=total / steps)

    def _picture_round(self, steps: int, on_step: OnStep) -> None:
        plan, progress = self.plan, self.progress
        totals: dict[str, float] = {}
        for lesson in self._lessons(steps):
            part = progress.pictures / plan.picture_steps
            _set_rate(self._seers, plan.picture_rate * _rate(progress.pictures, part))
            losses = self._picture_losses(lesson)
            loss = sum(losses[name] * weight for name, weight in _WEIGHTS.items())
            assert isinstance(loss, Tensor)
            value = _learn(self._seers, loss, self._seeing, clip=1.0)
            progress.pictures += 1
            for name, part_of_it in losses.items():
                totals[name] = totals.get(name, 0.0) + part_of_it.item()
            on_step("pictures", progress.pictures, value)
        self._note(**{name: total / steps for name, total in totals.items()})

    def _pushes(self, random: np.random.Generator) -> list[Tensor]:
        return [torch.from_numpy(array).to(self.device) for array in pushes(self.plan.pushes, random)]

    def _lessons(self, steps: int) -> Iterator[Lesson]:
        for lesson in lessons(steps, self.plan.pictures, _round_seed(self.plan.seed, self.progress.pictures)):
            yield Lesson(*(tensor.to(self.device) for tensor in lesson))

    def _picture_losses(self, lesson: Lesson) -> dict[str, Tensor]:
        network, half = self.network, len(lesson.pictures) // 2
        with self._precision():
            latents, places, codes = network.encoder(lesson.pictures)
            seen, spread = network.world.field(lesson.places, codes[lesson.others])
            pictures = network.world.decoder(torch.cat((latents[::2][:half], seen)))
        latents, places, seen, spread, pictures = (
            tensor.float() for tensor in (latents, places, seen, spread, pictures)
        )
        off = seen - latents.detach()
        return {
            "autoencoder": mse_loss(pictures[:half], lesson.pictures[::2][:half]),
            "rendering": mse_loss(pictures[half:], lesson.pictures),
            "latents": off.square().mean() + 0.1 * mse_loss(latents, seen.detach()),
            "spread": (spread + 0.5 * off.detach().square() * torch.exp(-2 * spread)).mean(),
            "place": mse_loss(places[:, :2], lesson.places[:, :2]) + 4 * mse_loss(places[:, 2:], lesson.places[:, 2:]),
            "size": latents.square().mean(),
        }

    def _precision(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.plan.bfloat16)

    def _note(self, **losses: float) -> None:
        for name, loss in losses.items():
            self.progress.losses.setdefault(name, []).append(loss)


def dynamics_loss(dynamics: Dynamics, places: Tensor, controls: Tensor) -> Tensor:
    """How far walks from rest, unrolled from their first place, end up from the true ones, and how each step differs.

    Args:
        places: (steps + 1, n, 4).
        controls: (steps, n, CONTROLS).
    """
    walked = unroll(dynamics, places[0], controls)
    off = walked - places[1:]
    each = off[1:] - off[:-1]
    distance = torch.sqrt(off[..., :2].square().sum(-1) + 1e-6).mean()
    heading = torch.sqrt(off[..., 2:].square().sum(-1) + 1e-6).mean()
    return distance + 0.5 * heading + 5 * each[..., :2].abs().mean() + 10 * each[..., 2:].abs().mean()


def push_loss(dynamics: Dynamics, pushes: Sequence[Tensor]) -> Tensor:
    """How far the corrections of single moves are off, in lengths of the move.

    Args:
        pushes: ends, ways and corrections, (n, 2) each.
    """
    ends, ways, corrections = pushes
    off: Tensor = (dynamics.correction(ends, ways) - corrections).abs() / ways.norm(dim=1, keepdim=True)
    return off.mean()


def unroll(dynamics: Dynamics, place: Tensor, controls: Tensor) -> Tensor:
    """(steps, n, 4) the places after each step from (n, 4), starting at rest."""
    hidden = place.new_zeros(len(place), dynamics.hidden)
    places = []
    for told in controls:
        place, hidden = dynamics(place, hidden, told)
        places.append(place)
    return torch.stack(places)


def _by_rate(dynamics: Dynamics) -> list[dict[str, Any]]:
    """The few numbers that make the twist learn faster than those that know the walls."""
    walls = list(dynamics.walls.parameters())
    others = [parameter for name, parameter in dynamics.named_parameters() if not name.startswith("walls.")]
    return [{"params": others, "scale": 5.0}, {"params": walls, "scale": 1.0}]


def _rate(step: int, part: float) -> float:
    """A short warm-up, then half a cosine."""
    return min(1.0, (step + 1) / 100) * (0.5 + 0.5 * math.cos(math.pi * part)) + 0.005


def _set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("scale", 1.0)


def _learn(optimizer: torch.optim.Optimizer, loss: Tensor, parameters: list[nn.Parameter], clip: float) -> float:
    """One step down the slope of a loss; returns the loss."""
    value = loss.item()
    if not math.isfinite(value):
        raise FloatingPointError(
            f"the loss is {value}: the training has diverged; begin anew with another seed, or without bfloat16"
        )
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(parameters, clip)
    optimizer.step()
    return value


def _differing(plan: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Names of the settings in which two plans differ."""
    return sorted(name for name in plan.keys() | other.keys() if plan.get(name) != other.get(name))


def _damaged(path: Path, error: Exception) -> ValueError:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return ValueError(
        f"{path} is no checkpoint of this training, or damaged ({reason}): "
        "remove it to begin anew, or give another folder"
    )


def _round_seed(seed: int, done: int) -> int:
    return seed * 1_000_003 + done
