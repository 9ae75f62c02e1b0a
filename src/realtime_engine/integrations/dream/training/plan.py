"""Settings and progress of a training."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..network import DreamSizes

_MIN = {"seed": 0, "dynamics_steps": 1, "picture_steps": 1, "walkers": 1, "pushes": 1, "pictures": 2, "round": 1}


@dataclass(frozen=True)
class Plan:
    """Settings of a training. Stored in checkpoints: a training resumes only with equal settings.

    Attributes:
        sizes: sizes of the network.
        seed: seed of the initial weights and of the training data.
        dynamics_steps, picture_steps: number of batches of walks and of pictures.
        walkers: walks per batch.
        pushes: single moves into and along walls per batch.
        pictures: pictures per batch.
        round: batches between two checkpoints.
        dynamics_rate, picture_rate: peak learning rates.
        bfloat16: train on pictures with bfloat16 autocast.

    Raises:
        ValueError: a setting is out of range.
    """

    sizes: DreamSizes = field(default_factory=DreamSizes)
    seed: int = 0
    dynamics_steps: int = 5000
    picture_steps: int = 10_000
    walkers: int = 256
    pushes: int = 2048
    pictures: int = 96
    round: int = 500
    dynamics_rate: float = 1e-3
    picture_rate: float = 2e-3
    bfloat16: bool = True

    def __post_init__(self) -> None:
        for name, minimum in _MIN.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value < 2**63:
                raise ValueError(f"{name} must be an integer of {minimum} or more (below 2**63), got {value!r}")


@dataclass
class Progress:
    """Progress of a training.

    Attributes:
        dynamics, pictures: completed batches of walks and of pictures.
        losses: name -> mean loss of each round, in order.
        minutes: training time so far.
    """

    dynamics: int = 0
    pictures: int = 0
    losses: dict[str, list[float]] = field(default_factory=dict)
    minutes: float = 0.0
