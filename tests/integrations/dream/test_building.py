from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounter

from realtime_engine import ComposedEngine, SessionInit
from realtime_engine.infra.loading import LoadProgress, listening_to_progress
from realtime_engine.integrations.dream.building import build_model, warm_up
from realtime_engine.integrations.dream.demo import Options
from realtime_engine.integrations.dream.model import DreamModel
from realtime_engine.integrations.dream.weights import Weights, WeightsError

from .tiny import tiny_weights

SIZE = {"width": 96, "height": 64}


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    return tiny_weights(tmp_path_factory.mktemp("dream"))


@pytest.fixture
def threads() -> Iterator[int]:
    before = torch.get_num_threads()
    yield before
    torch.set_num_threads(before)


def test_a_start_tells_how_far_it_is(weights: Weights, caplog: pytest.LogCaptureFixture, threads: int) -> None:
    torch.set_num_threads(threads + 1)
    heard: list[LoadProgress] = []
    with caplog.at_level(logging.INFO), listening_to_progress(heard.append):
        build_model(Options(weights=weights.path, **SIZE, threads=1))
    told = [record.getMessage() for record in caplog.records if "warming up" in record.getMessage()]
    assert told == ["warming up (1/2): encoding pictures", "warming up (2/2): stepping all rows"]
    assert heard == [
        ("Reading the weights", None),
        ("Warming up: encoding pictures", 0.0),
        ("Warming up: stepping all rows", 0.5),
    ]
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize("rows", ["all", "occupied"])
def test_warming_up_changes_no_state_and_shows_everything(weights: Weights, rows: Any) -> None:
    model = DreamModel(weights, 3, 64, 96, rows=rows)
    before = [tensor.clone() for tensor in (model._places, model._hidden, model._codes)]
    warm_up(model)
    after = (model._places, model._hidden, model._codes)
    assert all(torch.equal(was, now) for was, now in zip(before, after, strict=True))
    loads = model.picture_encoder._lifecycle.loads
    engine = ComposedEngine(model)
    engine.attach(SessionInit("a", {"seed": 0}))
    for theme in ("ember", "frost", "day"):
        for _ in range(4):
            engine.step({"a": {"theme": theme}})
    assert model.picture_encoder._lifecycle.loads == loads, "a change of theme loads nothing"


@pytest.mark.parametrize("rows", ["all", "occupied"])
def test_all_is_compiled_when_it_is_warm(
    weights: Weights, rows: Any, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """A real step runs in the torch modes and with the memory layouts that were compiled for."""
    counter, compile_for_real = CompileCounter(), torch.compile

    def compile_by_counting(function: Any, **given: Any) -> Any:
        return compile_for_real(function, **{**given, "backend": counter, "mode": None})

    torch._dynamo.reset()
    monkeypatch.setattr(torch, "compile", compile_by_counting)
    model = DreamModel(weights, 2, 64, 96, rows=rows, compile=True, frames_per_chunk=2)
    plain = ComposedEngine(DreamModel(weights, 2, 64, 96, rows=rows, frames_per_chunk=2))
    warm_up(model)
    compiled = counter.frame_count
    assert compiled >= 3
    engine = ComposedEngine(model)
    for name, seed in (("a", 3), ("b", 4)):
        engine.attach(SessionInit(name, {"seed": seed}))
        plain.attach(SessionInit(name, {"seed": seed}))
    for due in ({"a": {"forward": 1.0}}, {"a": {}, "b": {"astray": 0.5}}, {"b": {"turn": 1.0}}):
        for got, wanted in zip(engine.step(due), plain.step(due), strict=True):
            assert np.abs(got.output.astype(int) - wanted.output).max() <= 1
    assert counter.frame_count == compiled, "a step had to be compiled while somebody waited"
    torch._dynamo.reset()


def test_where_nothing_can_be_compiled_it_runs_as_it_is(
    weights: Weights, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class NoCompilerError(RuntimeError):
        __module__ = "torch._inductor.exc"

    def without_compiler(function: Any, **_: Any) -> Any:
        def refuse(*_: Any) -> None:
            raise NoCompilerError("No working C++ compiler found")

        return refuse

    monkeypatch.setattr(torch, "compile", without_compiler)
    model = DreamModel(weights, 1, 64, 96, compile=True)
    warm_up(model)
    warm_up(model)
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 3 and all("No working C++ compiler found" in text for text in told), "one line a part"
    engine = ComposedEngine(model)
    engine.attach(SessionInit("a", {}))
    assert engine.step({"a": {}})[0].output.any()


def test_a_device_on_which_it_does_not_run(weights: Weights, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("realtime_engine.integrations.dream.inference.Dreamer.decode", full)
    with pytest.raises(WeightsError, match="the network does not run on 'cpu': .*CUDA out of memory"):
        build_model(Options(weights=weights.path, **SIZE))


def test_weights_of_ones_own_that_are_not_there(tmp_path: Path, threads: int) -> None:
    with pytest.raises(WeightsError, match="does not exist"):
        build_model(Options(weights=tmp_path / "mine.safetensors"))
