from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from realtime_engine.integrations.dream.level import CONTROLS
from realtime_engine.integrations.dream.network import DreamSizes, Dynamics
from realtime_engine.integrations.dream.training import data as feed
from realtime_engine.integrations.dream.training import trainer as dream_training
from realtime_engine.integrations.dream.training.data import Walkers, places_as_tensor
from realtime_engine.integrations.dream.training.plan import Plan
from realtime_engine.integrations.dream.training.trainer import Training, dynamics_loss, unroll

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
SIZES = DreamSizes(
    latent=6,
    code=2,
    encoder_width=4,
    field_width=16,
    decoder_width=16,
    decoder_channels=2,
    hidden=4,
    dynamics_width=8,
)
TINY = Plan(SIZES, dynamics_steps=5, picture_steps=5, walkers=8, pictures=6, round=2)
PICTURES = ("autoencoder", "rendering", "latents", "spread", "place", "size")


@pytest.fixture(autouse=True)
def few_walkers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "_WALKERS", 32)
    monkeypatch.setattr(feed, "_WARM_UP", 5)


class Stop(Exception):
    """Raised from inside of a training, as Ctrl-C would."""


def weights_of(training: Training) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in training.network.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_it_learns_to_move() -> None:
    training = Training(replace(TINY, dynamics_steps=16, picture_steps=1, walkers=16, dynamics_rate=0.05), CPU)
    walks = Walkers(64, seed=9).walk(8)
    walked = places_as_tensor(walks.places), torch.from_numpy(walks.controls)
    before = dynamics_loss(training.network.world.dynamics, *walked).item()
    training.run()
    assert dynamics_loss(training.network.world.dynamics, *walked).item() < 0.7 * before


def test_it_learns_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """From one lesson, over and over."""
    (lesson,) = feed.picture_batches(1, 12, seed=5)
    monkeypatch.setattr(dream_training, "picture_batches", lambda count, *_: iter([lesson] * count))
    training = Training(replace(TINY, dynamics_steps=1, picture_steps=30, round=10, picture_rate=0.01), CPU)
    training.run()
    losses = training.progress.losses
    assert {name: len(values) for name, values in losses.items()} == {"dynamics": 1, **dict.fromkeys(PICTURES, 3)}
    for name in ("autoencoder", "rendering", "latents", "spread", "place"):
        assert losses[name][0] > losses[name][1] > losses[name][2]
    assert losses["rendering"][2] < 0.97 * losses["rendering"][0] and losses["latents"][2] < 0.5 * losses["latents"][0]
    assert training.progress.minutes > 0


def test_it_tells_of_each_batch_and_keeps_the_means() -> None:
    told: list[tuple[str, int, float]] = []
    training = Training(TINY, CPU)
    training.run(on_step=lambda *step: told.append(step))
    assert [step[:2] for step in told] == [(part, n) for part in ("dynamics", "pictures") for n in range(1, 6)]
    means = [(told[0][2] + told[1][2]) / 2, (told[2][2] + told[3][2]) / 2, told[4][2]]
    assert training.progress.losses["dynamics"] == pytest.approx(means)


def test_the_same_plan_gives_the_same_weights_and_another_seed_others() -> None:
    one, again, other = (Training(replace(TINY, seed=seed), CPU) for seed in (1, 1, 2))
    state = torch.random.get_rng_state()
    for training in (one, again, other):
        training.run()
    assert same(weights_of(one), weights_of(again))
    assert not same(weights_of(one), weights_of(other))
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("stopping", [("dynamics", 3), ("pictures", 4)])
def test_going_on_ends_with_the_weights_of_a_run_without_a_stop(tmp_path: Path, stopping: tuple[str, int]) -> None:
    whole = Training(TINY, CPU)
    whole.run()

    def stop(part: str, step: int, loss: float) -> None:
        if (part, step) == stopping:
            raise Stop

    checkpoint = tmp_path / "checkpoint.pt"
    stopped = Training(TINY, CPU)
    with pytest.raises(Stop):
        stopped.run(checkpoint, stop)
    assert not [thread for thread in threading.enumerate() if thread.name == "picture-batches"]
    going_on = Training(TINY, CPU)
    going_on.resume(checkpoint)
    assert 0 < going_on.progress.dynamics + going_on.progress.pictures < 10
    going_on.run(checkpoint)
    assert same(weights_of(going_on), weights_of(whole))
    assert going_on.progress.losses == whole.progress.losses
    finished = Training(TINY, CPU)
    finished.resume(checkpoint)
    assert same(weights_of(finished), weights_of(whole))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_the_checkpoint_of_another_plan_is_refused_by_the_names_of_what_differs(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.pt"
    Training(TINY, CPU).save(checkpoint)
    other = replace(TINY, seed=7, picture_rate=1e-3, sizes=replace(SIZES, latent=5))
    with pytest.raises(
        ValueError, match=r"other settings \(picture_rate, seed, sizes\): use the same settings or another fol"
    ):
        Training(other, CPU).resume(checkpoint)


def test_a_setting_that_only_the_checkpoint_knows_is_named(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.pt"
    Training(TINY, CPU).save(checkpoint)
    state = torch.load(checkpoint, weights_only=True)
    torch.save({**state, "plan": {**state["plan"], "momentum": 0.5}}, checkpoint)
    with pytest.raises(ValueError, match=r"other settings \(momentum\)"):
        Training(TINY, CPU).resume(checkpoint)


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "other", "flipped", "partial", "shape"])
def test_a_damaged_checkpoint_is_told_so(tmp_path: Path, damage: str) -> None:
    checkpoint = tmp_path / "checkpoint.pt"
    Training(TINY, CPU).save(checkpoint)
    whole, state = checkpoint.read_bytes(), torch.load(checkpoint, weights_only=True)
    network = state["network"]
    if damage == "other":
        torch.save([1, 2], checkpoint)
    elif damage == "partial":
        torch.save({key: state[key] for key in ("plan", "progress", "network")}, checkpoint)
    elif damage == "shape":
        torch.save({**state, "network": {**network, "encoder.code.bias": torch.zeros(9)}}, checkpoint)
    else:
        contents = {
            "cut": whole[: len(whole) // 2],
            "empty": b"",
            "text": b"these are no weights",
            "flipped": whole[:300] + bytes(byte ^ 255 for byte in whole[300:900]) + whole[900:],
        }
        checkpoint.write_bytes(contents[damage])
    with pytest.raises(
        ValueError, match=r"checkpoint\.pt is not a checkpoint of this training or is damaged \(.+\): remove"
    ):
        Training(TINY, CPU).resume(checkpoint)


def test_a_missing_checkpoint_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Training(TINY, CPU).resume(tmp_path / "none.pt")


def test_a_training_that_diverges_ends(tmp_path: Path) -> None:
    training = Training(TINY, CPU)
    with torch.no_grad():
        training.network.world.field.leave.bias[0] = float("nan")
    checkpoint = tmp_path / "checkpoint.pt"
    with pytest.raises(FloatingPointError, match="the loss is nan: the training has diverged; restart with"):
        training.run(checkpoint)
    assert torch.load(checkpoint, weights_only=True)["progress"]["pictures"] == 0


def test_without_bfloat16_pictures_are_computed_in_single_precision() -> None:
    one, other = Training(TINY, CPU), Training(replace(TINY, bfloat16=False), CPU)
    for training in (one, other):
        training.run()
    for name, values in one.progress.losses.items():
        assert values == pytest.approx(other.progress.losses[name], rel=0.1)
    assert one.progress.losses["rendering"] != other.progress.losses["rendering"]


def test_walks_teach_the_dynamics_and_pictures_all_the_rest() -> None:
    training = Training(TINY, CPU)
    weights = [weights_of(training)]

    def look(part: str, step: int, loss: float) -> None:
        if step == 5:
            weights.append(weights_of(training))

    training.run(on_step=look)
    before, between, after = weights
    dynamics = {name for name in before if name.startswith("world.dynamics.")}
    assert {name for name in before if not torch.equal(before[name], between[name])} == dynamics
    assert {name for name in before if not torch.equal(between[name], after[name])} == before.keys() - dynamics


def test_unroll_starts_at_rest_and_goes_step_by_step() -> None:
    dynamics = Dynamics(CONTROLS, hidden=3, width=4)
    walks = Walkers(5, seed=1).walk(4)
    places, controls = places_as_tensor(walks.places), torch.from_numpy(walks.controls)
    walked = unroll(dynamics, places[0], controls)
    assert walked.shape == (4, 5, 4)
    place, hidden = places[0], torch.zeros(5, 3)
    for step in range(4):
        place, hidden = dynamics(place, hidden, controls[step])
        assert torch.equal(walked[step], place)


def test_the_loss_of_the_dynamics_is_least_for_the_true_walk() -> None:
    """With a fake that knows the walk, perfectly or a little off."""
    walks = Walkers(5, seed=1).walk(6)
    places, controls = places_as_tensor(walks.places), torch.from_numpy(walks.controls)

    class Fake(Dynamics):
        def __init__(self, off: float) -> None:
            super().__init__(CONTROLS, hidden=3, width=4)
            self.walk = iter(places[1:] + off * torch.arange(1, 7)[:, None, None])

        def forward(self, place: Tensor, hidden: Tensor, controls: Tensor) -> tuple[Tensor, Tensor]:
            return next(self.walk), hidden

    losses = [float(dynamics_loss(Fake(off), places, controls)) for off in (0.0, 0.001, 0.01, 0.1)]
    assert losses == sorted(losses) and losses[0] < 0.002 < losses[-1]
    assert losses[-1] == pytest.approx(2**0.5 * 0.35 + 0.5 * 2**0.5 * 0.35 + 5 * 0.1 + 10 * 0.1, rel=0.01)
