"""The streaming pipeline scheduler: a graph of long-lived stages through which ordered chunks flow."""

from .batched_actor import BatchedStageActor
from .engine import StreamingEngine
from .local_actor import LocalStageActor
from .offline import run_offline
from .orchestrator import StreamingPipelineOrchestrator
from .process_worker import ProcessWorker
from .request import ChunkRequest
from .specs import (
    StageOrdering,
    StreamingEdgeSpec,
    StreamingPipelineSpec,
    StreamingResourceGroupSpec,
    StreamingStageSpec,
)
from .tasks import (
    StreamingSessionCloseReason,
    StreamingSessionContext,
    StreamingSessionStatus,
    StreamingStageInvocation,
    StreamingTaskKey,
)
from .worker_actor import ParallelWorkerStageActor

__all__ = [
    "BatchedStageActor",
    "ChunkRequest",
    "LocalStageActor",
    "ParallelWorkerStageActor",
    "ProcessWorker",
    "StageOrdering",
    "StreamingEdgeSpec",
    "StreamingEngine",
    "StreamingPipelineOrchestrator",
    "StreamingPipelineSpec",
    "StreamingResourceGroupSpec",
    "StreamingSessionCloseReason",
    "StreamingSessionContext",
    "StreamingSessionStatus",
    "StreamingStageInvocation",
    "StreamingStageSpec",
    "StreamingTaskKey",
    "run_offline",
]
