from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from realtime_engine.integrations.dream.network import DreamNetwork, DreamSizes
from realtime_engine.integrations.dream.weights import Weights, save

TINY = DreamSizes(
    latent=4, code=2, encoder_width=4, field_width=16, decoder_width=16, decoder_channels=4, hidden=4, dynamics_width=8
)


@pytest.fixture(scope="session")
def weight_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of a small network that has learned nothing, but moves, and sees one theme otherwise than another."""
    path = tmp_path_factory.mktemp("compare") / "tiny.safetensors"
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(1)
        network = DreamNetwork(TINY)
        for part in (network.encoder, network.world.field, network.world.decoder):
            for weight in (each for each in part.parameters() if each.ndim > 1):
                torch.nn.init.kaiming_normal_(weight)
    save(path, network, {})
    return path


@pytest.fixture
def weights(weight_file: Path) -> Weights:
    return Weights(weight_file)


@pytest.fixture(autouse=True)
def quick_collections() -> Iterator[None]:
    """The encoder's release collects garbage, among all that the test run has imported unless that is set aside."""
    gc.freeze()
    yield
    gc.unfreeze()
