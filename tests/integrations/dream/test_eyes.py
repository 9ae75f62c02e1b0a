from __future__ import annotations

import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from realtime_engine.integrations.dream import eyes as dream_eyes  # noqa: E402
from realtime_engine.integrations.dream.attaching import seed_picture  # noqa: E402
from realtime_engine.integrations.dream.eyes import Eyes  # noqa: E402
from realtime_engine.integrations.dream.level import SIDE, THEMES, TrueView, first_visitor  # noqa: E402
from realtime_engine.integrations.dream.pictures import Encoder  # noqa: E402
from realtime_engine.integrations.dream.weights import Weights, save  # noqa: E402

from .tiny import tiny_network, tiny_weights  # noqa: E402

CPU = torch.device("cpu")


class WatchedWeights(Weights):
    """Remembers the encoders that it gave away for as long as anybody holds them."""

    encoders: weakref.WeakSet[Encoder] = weakref.WeakSet()

    def encoder(self, device: torch.device) -> Encoder:
        encoder = super().encoder(device)
        self.encoders.add(encoder)
        return encoder


@pytest.fixture
def weights(tmp_path: Path) -> WatchedWeights:
    return WatchedWeights(tiny_weights(tmp_path).path)


@pytest.fixture
def eyes(weights: WatchedWeights) -> Eyes:
    return Eyes(weights, weights.world(CPU).field, CPU)


def test_the_encoder_is_gone_after_a_look(eyes: Eyes, weights: WatchedWeights) -> None:
    (seen,) = eyes.look([seed_picture(1, "day")])
    assert seen.place.shape == (4,) and seen.code.shape == (weights.sizes.code,)
    assert seen.place.device == CPU and not weights.encoders


def test_what_was_seen_is_kept_and_no_more_than_a_bit_of_it(eyes: Eyes, monkeypatch: pytest.MonkeyPatch) -> None:
    eyes.codes_of(THEMES)
    eyes.codes_of([*THEMES, "day"])
    assert eyes._lifecycle.loads == 1
    assert eyes._lifecycle.cached_bytes < 200
    assert dream_eyes._KEPT_BYTES < 100_000, "everybody who joins brings a picture of their own"


def test_pictures_of_seeds_are_the_true_ones_from_any_thread() -> None:
    wanted = {
        (seed, theme): TrueView()(first_visitor(seed)[None], np.array([THEMES.index(theme)]))[0]
        for seed in range(4)
        for theme in THEMES[:2]
    }
    seen: dict[tuple[int, str], np.ndarray] = {}
    together = threading.Barrier(len(wanted))

    def look(seed: int, theme: str) -> None:
        together.wait(10)
        seen[seed, theme] = seed_picture(seed, theme)

    threads = [threading.Thread(target=look, args=key) for key in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert all(np.array_equal(seen[key], picture) for key, picture in wanted.items())


@pytest.mark.parametrize("far", [-50.0, 50.0])
def test_a_picture_of_something_else_is_not_taken_to_be_from_beyond_the_level(tmp_path: Path, far: float) -> None:
    network = tiny_network()
    with torch.no_grad():
        network.encoder.place[2].bias[:2] = far
    save(tmp_path / "far.safetensors", network, {})
    weights = Weights(tmp_path / "far.safetensors")
    (seen,) = Eyes(weights, weights.world(CPU).field, CPU).look([seed_picture(1, "day")])
    assert ((seen.place[:2] >= 1) & (seen.place[:2] <= SIDE - 1)).all()
    assert seen.place[2:].norm() == pytest.approx(1, abs=1e-5)
