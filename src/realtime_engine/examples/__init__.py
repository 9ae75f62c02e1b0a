"""NumPy-only reference models: small, deterministic, made to be read and tested against."""

from .cpu_reference import CpuReferenceEngine
from .cpu_stage_model import CpuStageModel

__all__ = ["CpuReferenceEngine", "CpuStageModel"]
