"""The streaming pipeline scheduler: a graph of long-lived stages through which ordered chunks flow."""

from .actor import StreamingActorHealth, StreamingActorState, StreamingStageActor
from .batched_actor import BatchedStageActor
from .diagnostics import StreamingArtifactStats, StreamingSchedulerDiagnostics
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
from .health import StreamingPipelineHealth
from .local_actor import LocalStageActor
from .metrics import StreamingLatencySummary, StreamingSessionMetrics
from .offline import run_offline
from .orchestrator import StreamingPipelineOrchestrator
from .outputs import StreamingOutput
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
from .timings import StreamingStageIdleInterval, StreamingStageTiming
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
