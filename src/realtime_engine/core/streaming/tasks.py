"""What a stage is asked to do, and for whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

__all__ = [
    "StreamingSessionCloseReason",
    "StreamingSessionContext",
    "StreamingSessionStatus",
    "StreamingStageInvocation",
    "StreamingTaskKey",
]


class StreamingSessionStatus(str, Enum):
    """Where a session is in its life."""

    RUNNING = "running"
    CANCELLED = "cancelled"
    FAILED = "failed"
    CLOSED = "closed"


class StreamingSessionCloseReason(str, Enum):
    """Why a stage is to let go of a session."""

    CANCELLED = "cancelled"
    FAILED = "failed"
    CLOSED = "closed"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True)
class StreamingSessionContext:
    """One life of a session: the id may be used again, with a greater epoch."""

    session_id: str
    session_epoch: int


@dataclass(frozen=True)
class StreamingTaskKey:
    """Identity of one invocation of one stage.

    Attributes:
        session_id, session_epoch: whose.
        sequence_id: which chunk, from 0.
        stage_id: of which stage.
        request_id: unique in this orchestrator.
    """

    session_id: str
    session_epoch: int
    sequence_id: int
    stage_id: str
    request_id: str


@dataclass(frozen=True)
class StreamingStageInvocation:
    """One piece of work for a stage.

    Attributes:
        key: its identity.
        inputs: artifact -> value, for everything that the stage consumes. Controls (``latest`` edges) are those of the
            moment of admission until :meth:`begin`.
        is_first: the session's first chunk.
        is_last: the session's last chunk, when that was known at admission.
        sample: set by the scheduler: notes that the work begins now, and answers the inputs with the newest controls.
    """

    key: StreamingTaskKey
    inputs: Mapping[str, object]
    is_first: bool
    is_last: bool
    sample: Callable[[], Mapping[str, object]] | None = field(default=None, compare=False, repr=False)

    def begin(self) -> StreamingStageInvocation:
        """What to hand to the handler. An actor calls this once, in its own thread, right before the handler runs.

        Raises:
            SessionEndedError: the session was cancelled, closed or failed meanwhile: answer the future with this
                error, and do not run the handler.
        """
        if self.sample is None:
            return self
        return StreamingStageInvocation(self.key, self.sample(), self.is_first, self.is_last)
