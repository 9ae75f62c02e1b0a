"""Whether a stage model is one, told in words that say what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .contract import EngineManifest
from .errors import EngineContractError
from .hooks import call_hook
from .lanes import Lane
from .stages import Stage, StageBatch, StageModel


def checked_stages(model: StageModel) -> list[Stage]:
    """The model's stages. Raises :class:`EngineContractError` when it, or one of them, is not what it should be."""
    for hook in ("manifest", "stages", "seed", "detach"):
        if isinstance(model, type) or not callable(getattr(model, hook, None)):
            what = f"the class {model.__name__}" if isinstance(model, type) else repr(model)
            raise EngineContractError(f"a StageModel has manifest, stages, seed and detach, got {what} (no {hook}())")
    stages = call_hook(model.stages)
    if not isinstance(stages, (list, tuple)):
        raise EngineContractError(f"{name_of(model)}.stages() must return a list of stages, got {stages!r}")
    for stage in stages:
        if not isinstance(getattr(stage, "lane", None), Lane) or not callable(stage):
            raise EngineContractError(f"a stage is callable and has a lane (Lane.HOT ...), got {stage!r}")
    return list(stages)


def checked_manifest(model: StageModel) -> EngineManifest:
    """The model's manifest. Raises :class:`EngineContractError` when it is something else."""
    manifest = call_hook(model.manifest)
    if not isinstance(manifest, EngineManifest):
        raise EngineContractError(f"{name_of(model)}.manifest() must return an EngineManifest, got {manifest!r}")
    return manifest


def check_outputs(batch: StageBatch) -> None:
    """Raises :class:`EngineContractError` when outputs are not keyed by session: nothing of them could be shown."""
    outputs: Any = batch.outputs
    if not isinstance(outputs, dict):
        raise EngineContractError(f"stages must fill batch.outputs[session_id], got {type(outputs).__name__}")
    if not outputs.keys() <= batch.due and _has_odd_key(outputs):
        raise EngineContractError(f"stages must fill batch.outputs[session_id], got the keys {list(outputs)[:4]}")


def name_of(model: object) -> str:
    """For messages."""
    return type(model).__name__


def _has_odd_key(outputs: Mapping[Any, Any]) -> bool:
    return not all(isinstance(key, str) for key in outputs)
