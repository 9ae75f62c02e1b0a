from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from realtime_engine.integrations.dream.model import DreamModel
from realtime_engine.integrations.dream.weights import Weights, WeightsError, save

from .tiny import SIZES, tiny_network, tiny_weights

CPU = torch.device("cpu")
ADVICE = "train new ones with: python -m realtime_engine.integrations.dream.train"
Tensors = dict[str, Any]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_weights(tmp_path_factory.mktemp("dream")).path


@pytest.fixture
def spoilt(good: Path, tmp_path: Path) -> Callable[..., Path]:
    """A file whose tensors or metadata were changed."""

    def write(change: Callable[[Tensors, dict[str, str]], None]) -> Path:
        tensors, metadata = load_file(good), dict(Weights(good).metadata)
        change(tensors, metadata)
        save_file(tensors, tmp_path / "spoilt.safetensors", metadata)
        return tmp_path / "spoilt.safetensors"

    return write


def refusal(path: Path) -> str:
    """What is said of a file, when it is opened or when its parts are; always with its name and with what to do."""
    with pytest.raises(WeightsError) as caught:
        weights = Weights(path)
        weights.world(CPU)
        weights.encoder(CPU)
    text = str(caught.value)
    assert str(path) in text and ADVICE in text
    return text


def test_what_was_saved_is_read(tmp_path: Path) -> None:
    network = tiny_network(seed=3)
    save(tmp_path / "dream.safetensors", network, {"score": "31.4 dB"}, dtype=torch.float32)
    weights = Weights(tmp_path / "dream.safetensors")
    assert weights.sizes == SIZES and weights.metadata["score"] == "31.4 dB"
    for part, original in ((weights.world(CPU), network.world), (weights.encoder(CPU), network.encoder)):
        read = part.state_dict()
        assert read.keys() == original.state_dict().keys()
        assert all(torch.equal(read[name], tensor) for name, tensor in original.state_dict().items())
        assert not part.training and not any(weight.requires_grad for weight in part.parameters())


def test_the_encoder_comes_again_whatever_becomes_of_the_file(tmp_path: Path) -> None:
    weights = tiny_weights(tmp_path)
    first = weights.encoder(CPU)
    first.code.bias.fill_(7)
    save(weights.path, tiny_network(seed=5), {})
    again = weights.encoder(CPU).state_dict()
    wanted = {name: tensor.half().float() for name, tensor in tiny_network().encoder.state_dict().items()}
    assert all(torch.equal(again[name], tensor) for name, tensor in wanted.items())
    weights.path.unlink()
    weights.encoder(CPU)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_file_that_is_overwritten_where_it_lies_changes_nothing(tmp_path: Path, dtype: Any) -> None:
    """As cp and rsync --inplace do it; in a process of its own, since memory behind a file that is cut off kills."""
    save(tmp_path / "dream.safetensors", tiny_network(), {}, dtype=dtype)
    script = f"""
import os, torch
from pathlib import Path
from realtime_engine.integrations.dream.weights import Weights
path = Path({str(tmp_path / "dream.safetensors")!r})
weights, cpu = Weights(path), torch.device("cpu")
parts = lambda: [tensor.clone() for part in (world, weights.encoder(cpu)) for tensor in part.state_dict().values()]
world = weights.world(cpu)
before, size = parts(), path.stat().st_size
with path.open("r+b") as file:
    file.seek(size // 8)
    file.write(b"<" * (size - size // 8))
assert all(map(torch.equal, before, parts()))
os.truncate(path, 0)
assert all(map(torch.equal, before, parts()))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_numbers_of_any_precision_become_float32(tmp_path: Path, dtype: Any) -> None:
    save(tmp_path / "dream.safetensors", tiny_network(), {}, dtype=dtype)
    world = Weights(tmp_path / "dream.safetensors").world(CPU)
    assert {weight.dtype for weight in world.parameters()} == {torch.float32}


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "dream.safetensors")


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="is a folder, expected a file"):
        Weights(tmp_path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull)):
        assert "is a pipe, socket or device, expected a file" in refusal(path)


def test_a_file_that_may_not_be_read(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    weights = Weights(good)
    monkeypatch.setattr(weights, "_open", refuse)
    with pytest.raises(WeightsError, match="cannot be read: .*Permission denied"):
        weights.world(CPU)


@pytest.mark.parametrize("kept", [0, 4, 100, -1000])
def test_a_file_that_was_cut_off(good: Path, tmp_path: Path, kept: int) -> None:
    (tmp_path / "cut.safetensors").write_bytes(good.read_bytes()[:kept])
    assert "is not a safetensors file or is damaged" in refusal(tmp_path / "cut.safetensors")


def test_a_file_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "noise.safetensors").write_bytes(np.random.default_rng(0).bytes(5000))
    assert "is not a safetensors file or is damaged" in refusal(tmp_path / "noise.safetensors")


def test_weights_of_something_else(tmp_path: Path) -> None:
    save_file({"layer.weight": torch.zeros(2, 2)}, tmp_path / "other.safetensors")
    assert "its format is None, expected 'realtime-engine dream 1'" in refusal(tmp_path / "other.safetensors")


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"format": "realtime-engine dream 2"}, "its format is 'realtime-engine dream 2', expected"),
        ({"sizes": "{"}, "is not a dream weight file: "),
        ({"sizes": "[" * 100_000}, "is not a dream weight file: "),
        ({"sizes": "[1, 2]"}, "is not a dream weight file: "),
        ({"sizes": '{"height": 3}'}, "height"),
        ({"sizes": '{"latent": -1}'}, "latent must be an integer of 1 or more, got -1"),
        ({"sizes": '{"latent": 2.5}'}, "latent must be an integer of 1 or more, got 2.5"),
        ({"sizes": '{"hidden": true}'}, "hidden must be an integer of 1 or more, got True"),
    ],
)
def test_metadata_that_tell_of_no_dream(spoilt: Callable[..., Path], metadata: dict[str, str], text: str) -> None:
    assert text in refusal(spoilt(lambda _, kept: kept.update(metadata)))


def test_metadata_without_sizes(spoilt: Callable[..., Path]) -> None:
    assert "its metadata has no 'sizes'" in refusal(spoilt(lambda _, kept: kept.pop("sizes")))


@pytest.mark.parametrize("size", [10**6, 10**9, 10**18, 10**30])
@pytest.mark.parametrize("name", ["field_width", "hidden", "latent", "decoder_channels"])
def test_sizes_beyond_all_bounds_take_no_memory(spoilt: Callable[..., Path], name: str, size: int) -> None:
    def change(_: Tensors, metadata: dict[str, str]) -> None:
        metadata["sizes"] = json.dumps({**json.loads(metadata["sizes"]), name: size})

    text = refusal(spoilt(change))
    assert "has the shape" in text or "its sizes are not valid" in text


def test_tensors_that_are_missing(spoilt: Callable[..., Path]) -> None:
    text = refusal(spoilt(lambda tensors, _: tensors.pop("world.dynamics.decay")))
    assert "lacks world.dynamics.decay; " in text

    def drop_encoder(tensors: Tensors, _: object) -> None:
        for name in [name for name in tensors if name.startswith("encoder.")]:
            del tensors[name]

    text = refusal(spoilt(drop_encoder))
    assert "lacks encoder.around.0.bias, encoder.around.0.weight, encoder.around.2.bias and 21 more; " in text


def test_tensors_that_are_too_many(spoilt: Callable[..., Path]) -> None:
    text = refusal(spoilt(lambda tensors, _: tensors.update({"world.sky": torch.zeros(1)})))
    assert "has unexpected tensors world.sky" in text


def test_a_tensor_of_another_shape(spoilt: Callable[..., Path]) -> None:
    text = refusal(spoilt(lambda tensors, _: tensors.update({"world.dynamics.decay": torch.zeros(5)})))
    assert "world.dynamics.decay in" in text and "has the shape (5,), expected (3,)" in text


def test_a_tensor_of_another_type(spoilt: Callable[..., Path]) -> None:
    whole = torch.zeros(3, dtype=torch.int32)
    text = refusal(spoilt(lambda tensors, _: tensors.update({"world.dynamics.decay": whole})))
    assert "world.dynamics.decay in" in text and "has the dtype I32, expected F16 or BF16 or F32 or F64" in text


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["world.dynamics.decay", "encoder.code.bias"])
def test_numbers_that_are_not_finite(spoilt: Callable[..., Path], name: str, bad: float) -> None:
    def change(tensors: Tensors, _: object) -> None:
        tensors[name][1] = bad

    assert f"{name} in " in (text := refusal(spoilt(change))) and "values that are not finite" in text


def test_a_device_that_is_not_there(good: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(WeightsError, match="cannot be moved to the device 'cuda' .* choose another device"):
        DreamModel(Weights(good), device="cuda")


def test_a_device_without_memory(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB.")

    monkeypatch.setattr(torch.nn.Module, "to", full)
    with pytest.raises(WeightsError, match="CUDA out of memory. .* choose another device, .* or free its memory"):
        DreamModel(Weights(good))


@pytest.mark.parametrize("missing", ["torch", "safetensors"])
def test_without_a_package_other_demos_load_and_the_error_says_what_to_install(missing: str) -> None:
    script = f"""
import sys
sys.modules[{missing!r}] = None
from realtime_engine.integrations.registry import list_demos
listed = {{entry.source.name: entry for entry in list_demos()}}
assert [entry.error for entry in listed.values()] == [None] * len(listed), listed
for name in ("dream", "compare", "dream-stages"):
    try:
        listed[name].demo.build_engine()
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"without the package '{missing}'") == 3, done.stdout
    assert done.stdout.count("pip install 'realtime-engine[torch]'") == 3
