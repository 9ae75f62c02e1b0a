"""The streaming pipeline scheduler: a graph of long-lived stages through which ordered chunks flow."""

from .actors import BatchedStageActor, LocalStageActor
from .engine import StreamingEngine
from .errors import (
    InvalidStageOutputError,
    SequenceError,
    SessionActiveError,
    SessionEndedError,
    StageInterruptError,
    StreamingActorBusyError,
    StreamingActorFailedError,
    StreamingBackpressureError,
    StreamingCleanupError,
    StreamingError,
    StreamingSessionError,
    StreamingWorkerError,
    UnknownSessionError,
)
from .metrics import StreamingLatencySummary, StreamingSessionMetrics, StreamingStageIdleInterval, StreamingStageTiming
from .offline import run_offline
from .orchestrator import StreamingPipelineOrchestrator
from .process_worker import ProcessWorker
from .rollout import ChunkRequest
from .specs import (
    StageOrdering,
    StreamingEdgeSpec,
    StreamingPipelineSpec,
    StreamingResourceGroupSpec,
    StreamingStageSpec,
)
from .types import (
    StreamingActorHealth,
    StreamingActorState,
    StreamingArtifactStats,
    StreamingLastOutput,
    StreamingOutput,
    StreamingPipelineHealth,
    StreamingSchedulerDiagnostics,
    StreamingSessionCloseReason,
    StreamingSessionContext,
    StreamingSessionStatus,
    StreamingStageActor,
    StreamingStageInvocation,
    StreamingTaskKey,
)
from .worker_actor import ParallelWorkerStageActor

__all__ = [
    "BatchedStageActor",
    "ChunkRequest",
    "InvalidStageOutputError",
    "LocalStageActor",
    "ParallelWorkerStageActor",
    "ProcessWorker",
    "SequenceError",
    "SessionActiveError",
    "SessionEndedError",
    "StageInterruptError",
    "StageOrdering",
    "StreamingActorBusyError",
    "StreamingActorFailedError",
    "StreamingActorHealth",
    "StreamingActorState",
    "StreamingArtifactStats",
    "StreamingBackpressureError",
    "StreamingCleanupError",
    "StreamingEdgeSpec",
    "StreamingEngine",
    "StreamingError",
    "StreamingLastOutput",
    "StreamingLatencySummary",
    "StreamingOutput",
    "StreamingPipelineHealth",
    "StreamingPipelineOrchestrator",
    "StreamingPipelineSpec",
    "StreamingResourceGroupSpec",
    "StreamingSchedulerDiagnostics",
    "StreamingSessionCloseReason",
    "StreamingSessionContext",
    "StreamingSessionError",
    "StreamingSessionMetrics",
    "StreamingSessionStatus",
    "StreamingStageActor",
    "StreamingStageIdleInterval",
    "StreamingStageInvocation",
    "StreamingStageSpec",
    "StreamingStageTiming",
    "StreamingTaskKey",
    "StreamingWorkerError",
    "UnknownSessionError",
    "run_offline",
]
