"""Trains the network: first the dynamics on walks, then encoder, light field and decoder on pictures."""

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
from .data import PictureBatch, Walkers, picture_batches, places_as_tensor, wall_corrections
from .plan import Plan, Progress

OnStep = Callable[[str, int, float], None]

_UNROLLS = ((0.3, 8), (0.7, 16), (1.0, 32))  # up to this fraction of the training, unroll this many steps
_WEIGHTS = {"autoencoder": 1.0, "rendering": 1.0, "latents": 0.02, "spread": 0.001, "place": 0.05, "size": 1e-4}
_CORRECTION_WEIGHT = 0.1  # weight of the loss of single moves


class Training:
    """A training that can be interrupted and resumed at the end of each round.

    On the same CPU, with the same versions and number of threads, a plan gives bit-identical weights, whether or not
    the training is interrupted. A GPU or another number of threads changes the order of summation, thus the last bits.

    Args:
        plan: the settings.
        device: device to train on.

    Attributes:
        plan: the settings.
        progress: completed batches and their losses.
        device: device to train on.
        network: the network.
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
        self._dynamics_optimizer = torch.optim.Adam(
            _parameter_groups(self.network.world.dynamics), lr=plan.dynamics_rate
        )
        parts = [self.network.encoder, self.network.world.field, self.network.world.decoder]
        self._picture_parameters = [parameter for part in parts for parameter in part.parameters()]
        self._picture_optimizer = torch.optim.AdamW(
            self._picture_parameters, lr=plan.picture_rate, betas=(0.9, 0.99), weight_decay=1e-4
        )

    def run(self, checkpoint: Path | None = None, on_step: OnStep = lambda *_: None) -> None:
        """Train to the end of the plan.

        Args:
            checkpoint: path of the checkpoint written after each round, if any.
            on_step: called with the part ("dynamics" or "pictures"), its number of completed batches and the last loss.

        Raises:
            FloatingPointError: the training has diverged.
            OSError: the checkpoint cannot be written.
        """
        plan, progress = self.plan, self.progress
        while progress.dynamics < plan.dynamics_steps:
            self._run_round(self._dynamics_round, plan.dynamics_steps - progress.dynamics, checkpoint, on_step)
        while progress.pictures < plan.picture_steps:
            self._run_round(self._picture_round, plan.picture_steps - progress.pictures, checkpoint, on_step)

    def save(self, path: Path) -> None:
        """Write a checkpoint atomically.

        Raises:
            OSError: it cannot be written.
        """
        state = {
            "plan": asdict(self.plan),
            "progress": asdict(self.progress),
            "network": self.network.state_dict(),
            "movers": self._dynamics_optimizer.state_dict(),
            "seers": self._picture_optimizer.state_dict(),
        }
        buffer = BytesIO()  # torch.save does not raise OSError when the disk is full
        torch.save(state, buffer)
        with atomic_file(path, overwrite=True) as temporary:
            temporary.write_bytes(buffer.getbuffer())

    def resume(self, path: Path) -> None:
        """Resume from a checkpoint, which may come from another device.

        Raises:
            ValueError: the checkpoint has other settings or is damaged.
            OSError: it cannot be read.
        """
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            differing = _differing(state["plan"], asdict(self.plan))
        except OSError:
            raise
        except Exception as error:  # torch and pickle raise many types
            raise _damaged(path, error) from error
        if differing:
            raise ValueError(
                f"{path} was made with other settings ({', '.join(differing)}): use the same settings or another folder"
            )
        try:
            self.progress = Progress(**state["progress"])
            self.network.load_state_dict(state["network"])
            self._dynamics_optimizer.load_state_dict(state["movers"])
            self._picture_optimizer.load_state_dict(state["seers"])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise _damaged(path, error) from error

    def _run_round(
        self, train: Callable[[int, OnStep], None], left: int, checkpoint: Path | None, on_step: OnStep
    ) -> None:
        start = time.monotonic()
        train(min(self.plan.round, left), on_step)
        self.progress.minutes += (time.monotonic() - start) / 60
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
            _set_rate(self._dynamics_optimizer, plan.dynamics_rate * _rate(progress.dynamics, part))
            walkers.rest()
            walks = walkers.walk(next(length for until, length in _UNROLLS if part < until))
            loss = dynamics_loss(
                self.network.world.dynamics,
                places_as_tensor(walks.places).to(self.device),
                torch.from_numpy(walks.controls).to(self.device),
            ) + _CORRECTION_WEIGHT * wall_correction_loss(self.network.world.dynamics, self._wall_corrections(random))
            value = _optimize(self._dynamics_optimizer, loss, list(self.network.world.dynamics.parameters()), clip=0.3)
            progress.dynamics += 1
            total += value
            on_step("dynamics", progress.dynamics, value)
        self._record_losses(dynamics=total / steps)

    def _picture_round(self, steps: int, on_step: OnStep) -> None:
        plan, progress = self.plan, self.progress
        totals: dict[str, float] = {}
        for batch in self._picture_batches(steps):
            part = progress.pictures / plan.picture_steps
            _set_rate(self._picture_optimizer, plan.picture_rate * _rate(progress.pictures, part))
            losses = self._picture_losses(batch)
            loss = sum(losses[name] * weight for name, weight in _WEIGHTS.items())
            assert isinstance(loss, Tensor)
            value = _optimize(self._picture_optimizer, loss, self._picture_parameters, clip=1.0)
            progress.pictures += 1
            for name, term in losses.items():
                totals[name] = totals.get(name, 0.0) + term.item()
            on_step("pictures", progress.pictures, value)
        self._record_losses(**{name: total / steps for name, total in totals.items()})

    def _wall_corrections(self, random: np.random.Generator) -> list[Tensor]:
        return [torch.from_numpy(array).to(self.device) for array in wall_corrections(self.plan.pushes, random)]

    def _picture_batches(self, steps: int) -> Iterator[PictureBatch]:
        for batch in picture_batches(steps, self.plan.pictures, _round_seed(self.plan.seed, self.progress.pictures)):
            yield PictureBatch(*(tensor.to(self.device) for tensor in batch))

    def _picture_losses(self, batch: PictureBatch) -> dict[str, Tensor]:
        network, half = self.network, len(batch.pictures) // 2
        with self._precision():
            latents, places, codes = network.encoder(batch.pictures)
            seen, spread = network.world.field(batch.places, codes[batch.others])
            pictures = network.world.decoder(torch.cat((latents[::2][:half], seen)))
        latents, places, seen, spread, pictures = (
            tensor.float() for tensor in (latents, places, seen, spread, pictures)
        )
        residual = seen - latents.detach()
        return {
            "autoencoder": mse_loss(pictures[:half], batch.pictures[::2][:half]),
            "rendering": mse_loss(pictures[half:], batch.pictures),
            "latents": residual.square().mean() + 0.1 * mse_loss(latents, seen.detach()),
            "spread": (spread + 0.5 * residual.detach().square() * torch.exp(-2 * spread)).mean(),
            "place": mse_loss(places[:, :2], batch.places[:, :2]) + 4 * mse_loss(places[:, 2:], batch.places[:, 2:]),
            "size": latents.square().mean(),
        }

    def _precision(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.plan.bfloat16)

    def _record_losses(self, **losses: float) -> None:
        for name, loss in losses.items():
            self.progress.losses.setdefault(name, []).append(loss)


def dynamics_loss(dynamics: Dynamics, places: Tensor, controls: Tensor) -> Tensor:
    """Return the loss of walks unrolled from rest at their first place: position and heading error, total and per step.

    Args:
        dynamics: the dynamics.
        places: (steps + 1, n, 4) reference places.
        controls: (steps, n, CONTROLS).
    """
    walked = unroll(dynamics, places[0], controls)
    residual = walked - places[1:]
    each = residual[1:] - residual[:-1]
    distance = torch.sqrt(residual[..., :2].square().sum(-1) + 1e-6).mean()
    heading = torch.sqrt(residual[..., 2:].square().sum(-1) + 1e-6).mean()
    return distance + 0.5 * heading + 5 * each[..., :2].abs().mean() + 10 * each[..., 2:].abs().mean()


def wall_correction_loss(dynamics: Dynamics, moves: Sequence[Tensor]) -> Tensor:
    """Return the mean absolute error of the corrections of single moves, relative to the length of the move.

    Args:
        dynamics: the dynamics.
        moves: ends, moves and corrections, (n, 2) each.
    """
    ends, ways, corrections = moves
    error: Tensor = (dynamics.correction(ends, ways) - corrections).abs() / ways.norm(dim=1, keepdim=True)
    return error.mean()


def unroll(dynamics: Dynamics, place: Tensor, controls: Tensor) -> Tensor:
    """Return (steps, n, 4), the places after each step from (n, 4) ``place``, starting at rest."""
    hidden = place.new_zeros(len(place), dynamics.hidden)
    places = []
    for step_controls in controls:
        place, hidden = dynamics(place, hidden, step_controls)
        places.append(place)
    return torch.stack(places)


def _parameter_groups(dynamics: Dynamics) -> list[dict[str, Any]]:
    """Return parameter groups: the few parameters of the twist use a higher learning rate than the wall correction."""
    walls = list(dynamics.walls.parameters())
    others = [parameter for name, parameter in dynamics.named_parameters() if not name.startswith("walls.")]
    return [{"params": others, "scale": 5.0}, {"params": walls, "scale": 1.0}]


def _rate(step: int, part: float) -> float:
    """Return the learning rate factor: linear warm-up, then cosine decay."""
    return min(1.0, (step + 1) / 100) * (0.5 + 0.5 * math.cos(math.pi * part)) + 0.005


def _set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("scale", 1.0)


def _optimize(optimizer: torch.optim.Optimizer, loss: Tensor, parameters: list[nn.Parameter], clip: float) -> float:
    """Take one optimizer step; return the loss.

    Raises:
        FloatingPointError: the loss is not finite.
    """
    value = loss.item()
    if not math.isfinite(value):
        raise FloatingPointError(
            f"the loss is {value}: the training has diverged; restart with another seed or without bfloat16"
        )
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(parameters, clip)
    optimizer.step()
    return value


def _differing(plan: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return the names of the settings in which two plans differ."""
    return sorted(name for name in plan.keys() | other.keys() if plan.get(name) != other.get(name))


def _damaged(path: Path, error: Exception) -> ValueError:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return ValueError(
        f"{path} is not a checkpoint of this training or is damaged ({reason}): "
        "remove it to start over, or choose another folder"
    )


def _round_seed(seed: int, done: int) -> int:
    return seed * 1_000_003 + done
