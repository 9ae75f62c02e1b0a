"""A dream that is made in no time: a tiny network with random weights, loud enough for its pictures to differ."""

from __future__ import annotations

from pathlib import Path

import torch

from realtime_engine.integrations.dream.network import DreamNetwork, DreamSizes
from realtime_engine.integrations.dream.weights import Weights, save

SIZES = DreamSizes(
    latent=4,
    code=2,
    encoder_width=4,
    field_width=16,
    decoder_width=16,
    decoder_channels=2,
    hidden=3,
    dynamics_width=8,
)
_GAIN = 2.0


def tiny_network(seed: int = 0) -> DreamNetwork:
    """The same weights for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = DreamNetwork(SIZES)
    with torch.no_grad():
        for part in (network.world.field, network.world.decoder, network.encoder):
            for weight in part.parameters():
                weight.mul_(_GAIN)
        network.world.dynamics.at_once.weight.mul_(_GAIN)
    return network


def tiny_weights(folder: Path) -> Weights:
    path = folder / "tiny.safetensors"
    if not path.exists():
        save(path, tiny_network(), {})
    return Weights(path)
