from __future__ import annotations

import pytest

from realtime_engine import ComposedEngine, CpuReferenceEngine, EngineContractError, ReplicaEngine, SessionInit
from realtime_engine.core.hooks import call_hook
from realtime_engine.core.lanes import Lane
from realtime_engine.examples import CpuStageModel


def test_a_result_is_passed_on():
    assert call_hook(lambda left, right: left + right, 1, 2) == 3


def test_an_async_hook_is_named():
    async def seed() -> None:
        """Nobody awaits it."""

    with pytest.raises(EngineContractError, match="seed must be a plain function, not async def"):
        call_hook(seed)


class AsyncSeed(CpuStageModel):
    async def seed(self, rows) -> None:
        """Nobody awaits it."""


class AsyncDetach(CpuStageModel):
    async def detach(self, row, session_id) -> None:
        """Nobody awaits it."""


class AsyncStage(CpuStageModel):
    def stages(self):
        class Hot:
            lane = Lane.HOT

            async def __call__(self, batch) -> None:
                """Nobody awaits it."""

        return [Hot()]


@pytest.mark.parametrize("model", [AsyncSeed, AsyncDetach, AsyncStage])
def test_an_async_hook_of_a_model_is_refused(model):
    engine = ComposedEngine(model(1))
    engine.attach(SessionInit("a", {}))
    with pytest.raises(RuntimeError if model is AsyncSeed else EngineContractError, match="not async def"):
        engine.step({"a": {}})
        engine.detach("a")


@pytest.mark.parametrize("hook", ["attach", "step", "finalize", "detach"])
def test_an_async_hook_of_a_replicas_child_is_refused(hook):
    async def nobody_awaits_it(*args) -> None:
        """Nothing."""

    def child() -> CpuReferenceEngine:
        engine = CpuReferenceEngine(1)
        setattr(engine, hook, nobody_awaits_it)
        return engine

    engine = ReplicaEngine(child, max_sessions=1)
    with pytest.raises((EngineContractError, RuntimeError), match="not async def"):
        engine.attach(SessionInit("a", {}))
        engine.step({"a": {}})
        engine.finalize(["a"])
        engine.detach("a")
