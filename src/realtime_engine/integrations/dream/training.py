"""Learning: first how visitors move, then what is seen from where."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from ...infra.atomic_file import atomic_file
from .dynamics import Dynamics
from .feed import Lesson, lessons, places_as_tensor
from .network import DreamNetwork, DreamSizes
from .walks import Walkers

_UNROLLS = ((0.15, 8), (0.4, 16), (0.7, 32), (1.0, 64))  # until this part of the training, this many steps at a time


@dataclass(frozen=True)
class Plan:
    """How long and how hard to learn.

    Attributes:
        sizes: of the network.
        seed: of its first weights and of all walks.
        dynamics_steps, picture_steps: batches of walks, and of pictures.
        walkers: in a batch of walks.
        pictures: in a batch of pictures.
        round: batches between two checkpoints.
        dynamics_rate, picture_rate: highest learning rates.
        bfloat16: compute pictures in bfloat16 where that is safe.
    """

    sizes: DreamSizes = field(default_factory=DreamSizes)
    seed: int = 0
    dynamics_steps: int = 3000
    picture_steps: int = 10_000
    walkers: int = 384
    pictures: int = 96
    round: int = 500
    dynamics_rate: float = 1e-3
    picture_rate: float = 2e-3
    bfloat16: bool = True


@dataclass
class Progress:
    """How far it has come.

    Attributes:
        dynamics, pictures: batches learned from.
        losses: name -> means over each round, from the first one on.
        minutes: what it has taken so far.
    """

    dynamics: int = 0
    pictures: int = 0
    losses: dict[str, list[float]] = field(default_factory=dict)
    minutes: float = 0.0


class Training:
    """The state of a training. It stops and goes on at the ends of rounds.

    Args:
        plan: what to do.
        device: where to do it.
        on_step: told the part, the number of the batch and its loss, after each.
    """

    def __init__(
        self, plan: Plan, device: torch.device, on_step: Callable[[str, int, float], None] = lambda *_: None
    ) -> None:
        torch.manual_seed(plan.seed)
        self.plan = plan
        self.progress = Progress()
        self.device = device
        self.network = DreamNetwork(plan.sizes).to(device)
        for part in (self.network.encoder, self.network.world.decoder):
            part.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._on_step = on_step
        self._movers = torch.optim.Adam(_by_rate(self.network.world.dynamics), lr=plan.dynamics_rate)
        seers = [self.network.encoder, self.network.world.field, self.network.world.decoder]
        self._seen_by = [parameter for part in seers for parameter in part.parameters()]
        self._seers = torch.optim.AdamW(self._seen_by, lr=plan.picture_rate, betas=(0.9, 0.99), weight_decay=1e-4)

    def run(self, checkpoint: Path | None = None) -> None:
        """Learn to the end of the plan, writing a checkpoint after each round."""
        plan, progress = self.plan, self.progress
        while progress.dynamics < plan.dynamics_steps:
            self._round(self._dynamics_round, plan.dynamics_steps - progress.dynamics, checkpoint)
        while progress.pictures < plan.picture_steps:
            self._round(self._picture_round, plan.picture_steps - progress.pictures, checkpoint)

    def save(self, path: Path) -> None:
        """A checkpoint, whole or not at all."""
        state = {
            "plan": asdict(self.plan),
            "progress": asdict(self.progress),
            "network": self.network.state_dict(),
            "movers": self._movers.state_dict(),
            "seers": self._seers.state_dict(),
        }
        with atomic_file(path, overwrite=True) as temporary:
            torch.save(state, temporary)

    def resume(self, path: Path) -> None:
        """Go on from a checkpoint. Raises :class:`ValueError` when it belongs to another plan."""
        state = torch.load(path, map_location=self.device, weights_only=True)
        if state["plan"] != asdict(self.plan):
            differing = sorted(name for name, value in asdict(self.plan).items() if state["plan"].get(name) != value)
            raise ValueError(
                f"{path} was made with other settings ({', '.join(differing)}): give the same, or another folder"
            )
        self.progress = Progress(**state["progress"])
        self.network.load_state_dict(state["network"])
        self._movers.load_state_dict(state["movers"])
        self._seers.load_state_dict(state["seers"])

    def _round(self, learn: Callable[[int], None], left: int, checkpoint: Path | None) -> None:
        began = time.monotonic()
        learn(min(self.plan.round, left))
        self.progress.minutes += (time.monotonic() - began) / 60
        if checkpoint is not None:
            self.save(checkpoint)

    def _dynamics_round(self, steps: int) -> None:
        plan, progress = self.plan, self.progress
        walkers = Walkers(plan.walkers, _round_seed(plan.seed, progress.dynamics))
        walkers.walk(30)
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
            )
            _learn(self._movers, loss, list(self.network.world.dynamics.parameters()), clip=0.3)
            progress.dynamics += 1
            total += loss.item()
            self._on_step("dynamics", progress.dynamics, loss.item())
        self._note(dynamics=total / steps)

    def _picture_round(self, steps: int) -> None:
        plan, progress = self.plan, self.progress
        totals: dict[str, float] = {}
        for lesson in self._lessons(steps):
            part = progress.pictures / plan.picture_steps
            _set_rate(self._seers, plan.picture_rate * _rate(progress.pictures, part))
            losses = self._picture_losses(lesson)
            loss = sum(losses[name] * weight for name, weight in _WEIGHTS.items())
            assert isinstance(loss, Tensor)
            _learn(self._seers, loss, self._seen_by, clip=1.0)
            progress.pictures += 1
            for name, value in losses.items():
                totals[name] = totals.get(name, 0.0) + value.item()
            self._on_step("pictures", progress.pictures, loss.item())
        self._note(**{name: total / steps for name, total in totals.items()})

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


_WEIGHTS = {"autoencoder": 1.0, "rendering": 1.0, "latents": 0.02, "spread": 0.001, "place": 0.05, "size": 1e-4}


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


def _learn(optimizer: torch.optim.Optimizer, loss: Tensor, parameters: list[nn.Parameter], clip: float) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(parameters, clip)
    optimizer.step()


def _round_seed(seed: int, done: int) -> int:
    return seed * 1_000_003 + done
