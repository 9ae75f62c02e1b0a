"""What a training is to do, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..network import DreamSizes

_MIN = {"seed": 0, "dynamics_steps": 1, "picture_steps": 1, "walkers": 1, "pushes": 1, "pictures": 2, "round": 1}


@dataclass(frozen=True)
class Plan:
    """How long and how hard to learn.

    Attributes:
        sizes: of the network.
        seed: of its first weights and of all walks.
        dynamics_steps, picture_steps: batches of walks, and of pictures.
        walkers: in a batch of walks.
        pushes: in a batch of single moves into and along walls.
        pictures: in a batch of pictures.
        round: batches between two checkpoints.
        dynamics_rate, picture_rate: highest learning rates.
        bfloat16: compute pictures in bfloat16 where that is safe.

    Raises:
        ValueError: naming the setting.
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
        for name, least in _MIN.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
                raise ValueError(f"{name} must be a whole number of {least} or more (below 2**63), got {value!r}")


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
