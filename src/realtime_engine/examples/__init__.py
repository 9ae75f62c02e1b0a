"""Small, deterministic NumPy models: examples of the contract, and references for tests."""

from .cpu_reference import CpuReferenceEngine
from .cpu_stage_model import CpuStageModel

__all__ = ["CpuReferenceEngine", "CpuStageModel"]
