from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from realtime_engine.infra.extras import MissingDependencyError
from realtime_engine.integrations.dream import train
from realtime_engine.integrations.dream.level import HEIGHT, WIDTH
from realtime_engine.integrations.dream.network import DreamSizes
from realtime_engine.integrations.dream.train import main
from realtime_engine.integrations.dream.training import data as feed
from realtime_engine.integrations.dream.training import plan
from realtime_engine.integrations.dream.training import trainer as training
from realtime_engine.integrations.dream.weights import Weights

pytestmark = pytest.mark.usefixtures("one_thread")

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
WRITTEN = {"checkpoint.pt", "dream.safetensors", "MODEL_CARD.md", "losses.svg", "rollouts.png", "report.json"}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same command with a small network, few walkers and nothing to evaluate but a moment."""

    def small(*arguments: Any, **settings: Any) -> plan.Plan:
        return plan.Plan(SIZES, *arguments, walkers=8, pictures=6, round=2, **settings)

    monkeypatch.setattr(train, "Plan", small)
    monkeypatch.setattr(train, "_SMOKE_EVALUATION", {"walks": 1, "frames": 8, "pictures": 1})
    monkeypatch.setattr(feed, "_WALKERS", 32)
    monkeypatch.setattr(feed, "_WARM_UP", 5)


def interrupt_at(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    """Ctrl-C while this batch, counted from 1 over both parts, is learned from."""
    learn, batches = training._optimize, iter(range(1, 1000))

    def interrupted(*arguments: Any, **settings: Any) -> float:
        if next(batches) == batch:
            raise KeyboardInterrupt
        return learn(*arguments, **settings)

    monkeypatch.setattr(training, "_optimize", interrupted)


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_a_smoke_run_goes_the_whole_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the network as large as it is, from nothing to weights that load."""
    out = tmp_path / "new" / "dream"
    assert main(["--smoke", "--out", str(out), "--seed", "3"]) == 0
    assert f"weights and model card are in {out}".replace(" ", "") in told(capsys).replace(" ", "")
    assert {path.name for path in out.iterdir()} == WRITTEN
    weights = Weights(out / "dream.safetensors")
    assert weights.sizes == DreamSizes() and weights.metadata["themes"] == "day, ember, frost"
    cpu = torch.device("cpu")
    with torch.inference_mode():
        latents, places, codes = weights.encoder(cpu)(torch.zeros(1, 3, HEIGHT, WIDTH))
        world = weights.world(cpu)
        assert world.decoder(world.field(places, codes)[0]).shape == (1, 3, HEIGHT, WIDTH)
        assert latents.isfinite().all()
    numbers = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert numbers["plan"]["seed"] == 3 and numbers["minutes"] > 0
    assert 0 < numbers["report"]["rendering_db"] < 60
    assert "--seed 3 --dynamics-steps 4 --picture-steps 4" in (out / "MODEL_CARD.md").read_text(encoding="utf-8")
    ElementTree.parse(out / "losses.svg")
    with Image.open(out / "rollouts.png") as picture:
        assert picture.size == (5 * WIDTH, 8 * HEIGHT)


@pytest.mark.usefixtures("tiny")
def test_ctrl_c_says_how_to_go_on_and_going_on_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert main(["--smoke", "--out", str(whole)]) == 0
    with monkeypatch.context() as patch:
        interrupt_at(patch, 7)
        capsys.readouterr()
        assert main(["--smoke", "--out", str(stopped)]) == 130
    assert {path.name for path in stopped.iterdir()} == {"checkpoint.pt"}
    message = told(capsys).replace(" ", "")
    assert f"stopped; the same command resumes from {stopped / 'checkpoint.pt'}".replace(" ", "") in message
    assert main(["--smoke", "--out", str(stopped)]) == 0
    one, other = (load_file(folder / "dream.safetensors") for folder in (whole, stopped))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    assert {path.name for path in stopped.iterdir()} == WRITTEN


@pytest.mark.usefixtures("tiny")
def test_ctrl_c_in_the_first_round_says_that_nothing_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_at(monkeypatch, 2)
    assert main(["--smoke", "--out", str(tmp_path)]) == 130
    assert "starts over, because no checkpoint was written" in told(capsys)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("tiny")
def test_a_checkpoint_of_other_settings_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        interrupt_at(patch, 3)
        assert main(["--smoke", "--out", str(tmp_path)]) == 130
    before = (tmp_path / "checkpoint.pt").read_bytes()
    capsys.readouterr()
    assert main(["--smoke", "--out", str(tmp_path), "--seed", "1", "--no-bfloat16"]) == 1
    assert "other settings (bfloat16, seed): use the same settings or another folder" in told(capsys)
    assert (tmp_path / "checkpoint.pt").read_bytes() == before


def test_a_damaged_checkpoint_is_an_error_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(b"PK\x03\x04 and nothing more")
    assert main(["--smoke", "--out", str(tmp_path)]) == 1
    message = told(capsys)
    assert message.startswith("error: ") and "Traceback" not in message
    assert "is not a checkpoint of this training or is damaged" in message and "remove it to start over" in message


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--device", "nowhere"], "device must be a torch device"),
        (["--device", "meta"], "--device must be cpu, cuda or cuda:NUMBER, got 'meta'"),
        (
            ["--device", "cuda:99"],
            "--device cuda:99 is not available: the number of CUDA devices found is",
        ),
        (["--seed", "-1"], "seed must be an integer of 0 or more (below 2**63), got -1"),
        (["--dynamics-steps", "0"], "dynamics_steps must be an integer of 1 or more (below 2**63), got 0"),
        (["--out", __file__], "File exists"),
    ],
)
def test_what_cannot_be_is_an_error_in_a_sentence(
    arguments: list[str], error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(tmp_path), *arguments]) == 1
    assert error in told(capsys)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder that nobody can write into")
def test_a_folder_that_cannot_be_written_is_told_before_the_training(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_optimize", lambda *_, **__: pytest.fail("it has begun"))
    assert main(["--smoke", "--out", "/proc/self/fdinfo"]) == 1
    assert "error: [Errno " in (message := told(capsys)) and "/proc/self/fdinfo" in message


@pytest.mark.usefixtures("tiny")
@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked")
def test_two_trainings_do_not_share_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    learn, answers = training._optimize, []

    def meanwhile(*arguments: Any, **settings: Any) -> float:
        if not answers:
            answers.append(main(["--smoke", "--seed", "9", "--out", str(tmp_path)]))
        return learn(*arguments, **settings)

    monkeypatch.setattr(training, "_optimize", meanwhile)
    assert main(["--smoke", "--out", str(tmp_path)]) == 0
    assert answers == [1]
    message = told(capsys).replace(" ", "")
    assert f"another training writes to {tmp_path}: wait for it".replace(" ", "") in message
    assert main(["--smoke", "--out", str(tmp_path)]) == 0, "afterwards it is free again"


@pytest.mark.usefixtures("tiny")
def test_a_full_disk_is_an_error_in_a_sentence_and_keeps_the_last_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = Path.write_bytes, iter(range(10))

    def full(path: Path, contents: bytes) -> int:
        if next(written) == 1:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write(path, contents)

    monkeypatch.setattr(Path, "write_bytes", full)
    assert main(["--smoke", "--out", str(tmp_path)]) == 1
    assert "No space left on device" in told(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["progress"]["dynamics"] == 2


@pytest.mark.usefixtures("tiny")
def test_a_training_that_diverges_is_an_error_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "dynamics_loss", lambda *_: torch.tensor(float("inf")))
    assert main(["--smoke", "--out", str(tmp_path)]) == 1
    assert "error: the loss is inf: the training has diverged" in told(capsys)


def test_what_is_missing_for_the_weights_is_told_before_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: str) -> None:
        raise MissingDependencyError("cannot write weights without the package 'safetensors'")

    monkeypatch.setattr(train, "require", missing)
    assert main(["--out", str(tmp_path)]) == 1
    assert "cannot write weights without the package 'safetensors'" in told(capsys)


def test_arguments_that_are_no_numbers_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--seed", "many"])
    assert ended.value.code == 2
    assert "--seed: invalid int value: 'many'" in capsys.readouterr().err


@pytest.mark.parametrize(("missing", "extra"), [("torch", "torch"), ("rich", "serve")])
def test_without_a_package_it_says_what_to_install(missing: str, extra: str) -> None:
    script = f"""
import runpy, sys
sys.modules[{missing!r}] = None
runpy.run_module("realtime_engine.integrations.dream.train", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: cannot train without the package '{missing}'"), done.stderr
    assert f"pip install 'realtime-engine[{extra}]'" in done.stderr and "Traceback" not in done.stderr
