"""Dreams of a network that is small and knows nothing, but whose pictures tell places and themes apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from realtime_engine.core.streaming import StreamingEngine
from realtime_engine.integrations.dream.model import DreamModel
from realtime_engine.integrations.dream.network import DreamNetwork, DreamSizes
from realtime_engine.integrations.dream.weights import Weights, save
from realtime_engine.integrations.dream_stages.pipeline import build_engine

SMALL = DreamSizes(
    latent=6, encoder_width=4, field_width=32, decoder_width=24, decoder_channels=4, hidden=4, dynamics_width=32
)
_VIVID, _FAR_APART = 1.6, 300  # a fresh network is too timid to show anything, and themes least of all


@pytest.fixture(scope="session")
def weights_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(5)
    network = DreamNetwork(SMALL)
    with torch.no_grad():
        for part in (network.world.field, network.world.decoder, network.world.dynamics):
            for parameter in part.parameters():
                parameter.mul_(_VIVID)
        network.encoder.code.weight.mul_(_FAR_APART)
    path = tmp_path_factory.mktemp("weights") / "small.safetensors"
    save(path, network, {})
    return path


class Dreams:
    """Models, and engines of them that are closed in the end."""

    def __init__(self, path: Path) -> None:
        self._weights = Weights(path)
        self._engines: list[StreamingEngine] = []
        self._models: dict[tuple[object, ...], DreamModel] = {}

    def model(self, sessions: int = 3, frames: int = 2, rows: str = "all") -> DreamModel:
        """The one model of this kind, whose rows any number of engines of stages leaves alone."""
        kind = (sessions, frames, rows)
        if kind not in self._models:
            self._models[kind] = DreamModel(
                self._weights, sessions, height=64, width=96, frames_per_chunk=frames, rows=rows
            )
        return self._models[kind]

    def staged(self, sessions: int = 3, frames: int = 2, rows: str = "all") -> StreamingEngine:
        self._engines.append(build_engine(self.model(sessions, frames, rows)))
        return self._engines[-1]

    def close(self) -> None:
        for engine in self._engines:
            engine.close()


@pytest.fixture(scope="module")
def dreams(weights_file: Path) -> Iterator[Dreams]:
    made = Dreams(weights_file)
    yield made
    made.close()
