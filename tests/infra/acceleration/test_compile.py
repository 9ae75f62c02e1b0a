from __future__ import annotations

import logging
import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from realtime_engine.infra.acceleration import Compiled, CompilePolicy, TensorSpec

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


class BackendFailed(RuntimeError):
    __module__ = "torch._dynamo.exc"


class Compiler(types.ModuleType):
    """torch, as far as compiling goes; ``failing`` says for which arguments it raises."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.asked: dict[str, Any] = {}
        self.compiled_calls = 0
        self.failing: Any = lambda *args: False
        self.refuses: Exception | None = None
        self.float32, self.int8 = "f32", "i8"

    def compile(self, function: Any, **asked: Any) -> Any:
        if self.refuses is not None:
            raise self.refuses
        self.asked = asked

        def compiled(*args: Any) -> Any:
            if self.failing(*args):
                raise BackendFailed("no C++ compiler\nwas found")
            self.compiled_calls += 1
            return function(*args)

        return compiled

    def zeros(self, shape: Any, dtype: str, device: str) -> Any:
        return (shape, dtype, device)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    fake = Compiler()
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setitem(sys.modules, "torch._inductor", types.ModuleType("torch._inductor"))
    monkeypatch.setitem(sys.modules, "torch._inductor.config", types.ModuleType("torch._inductor.config"))
    monkeypatch.delenv(VARIABLE, raising=False)
    return fake


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


def successor(number: int) -> int:
    return number + 1


def test_the_policy_reaches_torch(compiler):
    policy = CompilePolicy(mode="max-autotune-no-cudagraphs", dynamic=True, fullgraph=True, backend="mine")
    assert Compiled(successor, policy)(1) == 2
    assert compiler.compiled_calls == 1
    assert compiler.asked == {
        "mode": "max-autotune-no-cudagraphs",
        "dynamic": True,
        "fullgraph": True,
        "backend": "mine",
    }


def test_what_does_not_compile_runs_as_it_is_and_is_logged_once(compiler, caplog):
    compiled = Compiled(successor)
    assert compiled(1) == 2 and compiled.fallback_reason is None
    compiler.failing = lambda number: number > 5
    assert [compiled(number) for number in (6, 7, 1)] == [7, 8, 2]
    assert compiler.compiled_calls == 1
    assert warnings(caplog) == [
        "compiling of successor falls back to eager: it does not compile: BackendFailed: no C++ compiler was found"
    ]


def test_what_torch_refuses_at_once_runs_as_it_is(compiler, caplog):
    compiler.refuses = RuntimeError("not on this Python")
    assert Compiled(successor, name="the decoder")(1) == 2
    assert warnings(caplog) == [
        "compiling of the decoder falls back to eager: torch.compile refuses: RuntimeError: not on this Python"
    ]


def test_the_functions_own_error_comes_out_and_changes_nothing(compiler, caplog):
    compiled = Compiled(lambda number: 1 // number)
    with pytest.raises(ZeroDivisionError):
        compiled(0)
    compiler.failing = lambda number: number == 0  # the compiler stumbles over it first
    with pytest.raises(ZeroDivisionError):
        compiled(0)
    assert compiled(1) == 1 and compiler.compiled_calls == 2
    assert warnings(caplog) == [] and compiled.fallback_reason is None


def test_disabled_it_asks_torch_for_nothing(compiler):
    assert Compiled(successor, CompilePolicy(enabled=False))(1) == 2
    assert compiler.asked == {}


def test_warm_up_calls_with_each_shape(compiler):
    seen = []
    policy = CompilePolicy(
        warm_up=[(TensorSpec((1, 3)), TensorSpec([4], "int8", "cpu")), (TensorSpec((2, 3)), TensorSpec((4,), "int8"))]
    )
    Compiled(lambda *tensors: seen.append(tensors), policy).warm_up()
    assert seen == [
        (((1, 3), "f32", "cuda"), ((4,), "i8", "cpu")),
        (((2, 3), "f32", "cuda"), ((4,), "i8", "cuda")),
    ]
    assert compiler.compiled_calls == 2


def test_an_unknown_mode_is_an_error():
    with pytest.raises(ValueError, match="'reduce-overhead'.*not 'fastest'"):
        CompilePolicy(mode="fastest")


class TestCache:
    def test_it_is_made_and_named_in_the_environment(self, compiler, tmp_path):
        Compiled(successor, CompilePolicy(cache_dir=tmp_path / "a" / "cache"))
        assert os.environ[VARIABLE] == str(tmp_path / "a" / "cache")
        assert (tmp_path / "a" / "cache").is_dir()
        assert sys.modules["torch._inductor.config"].fx_graph_cache is True

    def test_who_has_chosen_one_before_keeps_it(self, compiler, tmp_path, monkeypatch, caplog):
        monkeypatch.setenv(VARIABLE, str(tmp_path))
        Compiled(successor, CompilePolicy(cache_dir=tmp_path))
        assert warnings(caplog) == []
        Compiled(successor, CompilePolicy(cache_dir=Path("/elsewhere")))
        assert os.environ[VARIABLE] == str(tmp_path)
        assert warnings(caplog) == [f"compiled code is stored in {VARIABLE}={tmp_path}, not in /elsewhere"]

    def test_one_that_cannot_be_made_is_done_without(self, compiler, tmp_path, caplog):
        (tmp_path / "file").write_text("")
        assert Compiled(successor, CompilePolicy(cache_dir=tmp_path / "file" / "cache"))(1) == 2
        assert VARIABLE not in os.environ
        assert "is not stored in" in warnings(caplog)[0] and compiler.compiled_calls == 1

    def test_nothing_is_chosen_unless_asked_for(self, compiler):
        Compiled(successor)
        assert VARIABLE not in os.environ


def test_on_torch_itself_a_backend_that_fails(caplog):
    import torch

    def backend(graph: Any, inputs: Any) -> Any:
        raise OSError("no compiler on this machine")

    compiled = Compiled(lambda x: x * 2 + 1, CompilePolicy(backend=backend), name="f")
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0))
    assert compiled.fallback_reason is not None and "no compiler on this machine" in compiled.fallback_reason
    assert len([line for line in warnings(caplog) if line.startswith("compiling of f falls back")]) == 1
