"""Realtime Engine: serves stateful, chunk-generating models to interactive sessions."""

import logging

from ._installation import warn_of_conflict
from .core.clock import Clock, MonotonicClock
from .core.composed import ComposedEngine
from .core.contract import EngineManifest, RealtimeInterface, SessionInit, StepResult
from .core.errors import (
    AdmissionError,
    EngineContractError,
    OutboxClosed,
    RealtimeEngineError,
    SessionClaimedError,
    StepFailure,
)
from .core.inbox import Inbox
from .core.lanes import Lane
from .core.messages import (
    Action,
    ActiveChanged,
    Attach,
    Attached,
    Chunk,
    Detach,
    Detached,
    Failed,
    Finished,
    InboxMsg,
    Rejected,
    RejectionCode,
    Reset,
    ResetDone,
    SessionEvent,
    SetActive,
    Stamps,
)
from .core.monitor import ServeMonitor, ServeSnapshot
from .core.outbox import Outbox, OutboxSession
from .core.replica import ReplicaEngine
from .core.serve import default_serve, run_engine
from .core.stages import LaneStage, Stage, StageBatch, StageModel

__all__ = [
    "Action",
    "ActiveChanged",
    "AdmissionError",
    "Attach",
    "Attached",
    "Chunk",
    "Clock",
    "ComposedEngine",
    "Detach",
    "Detached",
    "EngineContractError",
    "EngineManifest",
    "Failed",
    "Finished",
    "Inbox",
    "InboxMsg",
    "Lane",
    "LaneStage",
    "MonotonicClock",
    "Outbox",
    "OutboxClosed",
    "OutboxSession",
    "RealtimeEngineError",
    "RealtimeInterface",
    "Rejected",
    "RejectionCode",
    "ReplicaEngine",
    "Reset",
    "ResetDone",
    "ServeMonitor",
    "ServeSnapshot",
    "SessionClaimedError",
    "SessionEvent",
    "SessionInit",
    "SetActive",
    "Stage",
    "StageBatch",
    "StageModel",
    "Stamps",
    "StepFailure",
    "StepResult",
    "default_serve",
    "run_engine",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())
warn_of_conflict()
