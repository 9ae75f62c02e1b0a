"""Public value types of the scheduler: sessions, invocations, outputs, actors, and their health."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from ..clock import NS_PER_S

__all__ = [
    "StreamingActorHealth",
    "StreamingActorState",
    "StreamingArtifactStats",
    "StreamingLastOutput",
    "StreamingOutput",
    "StreamingPipelineHealth",
    "StreamingSchedulerDiagnostics",
    "StreamingSessionCloseReason",
    "StreamingSessionContext",
    "StreamingSessionStatus",
    "StreamingStageActor",
    "StreamingStageInvocation",
    "StreamingTaskKey",
]


class StreamingSessionStatus(str, Enum):
    """State of a session."""

    RUNNING = "running"
    CANCELLED = "cancelled"
    FAILED = "failed"
    CLOSED = "closed"


class StreamingSessionCloseReason(str, Enum):
    """Why a stage has to release a session."""

    CANCELLED = "cancelled"
    FAILED = "failed"
    CLOSED = "closed"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True)
class StreamingSessionContext:
    """One use of a session id, which may be used again with a greater epoch."""

    session_id: str
    session_epoch: int


@dataclass(frozen=True)
class StreamingTaskKey:
    """Identity of one invocation of one stage.

    Attributes:
        session_id, session_epoch: the session.
        sequence_id: number of the chunk, from 0.
        stage_id: the stage.
        request_id: unique in this orchestrator.
    """

    session_id: str
    session_epoch: int
    sequence_id: int
    stage_id: str
    request_id: str


@dataclass(frozen=True)
class StreamingStageInvocation:
    """One call of a stage.

    Attributes:
        key: its identity.
        inputs: artifact -> value, for everything that the stage consumes. Controls (``latest`` edges) have the values
            of the moment of admission until :meth:`begin`.
        is_first: the session's first chunk.
        is_last: the session's last chunk, if that was known at admission.
        sample: set by the scheduler: records that the work begins now, and returns the inputs with the newest controls.
    """

    key: StreamingTaskKey
    inputs: Mapping[str, object]
    is_first: bool
    is_last: bool
    sample: Callable[[], Mapping[str, object]] | None = field(default=None, compare=False, repr=False)

    def begin(self) -> StreamingStageInvocation:
        """The invocation for the handler. An actor calls this once, on its own thread, right before the handler.

        Raises:
            SessionEndedError: the session has ended since the submission. The actor sets this as the exception of the
                future and does not run the handler.
        """
        if self.sample is None:
            return self
        return StreamingStageInvocation(self.key, self.sample(), self.is_first, self.is_last)


ControlStamp: TypeAlias = tuple[int, int]
"""(version of a control, when it was set in monotonic nanoseconds)"""


class OutputTriple(NamedTuple):
    """Base of :class:`StreamingOutput`."""

    sequence_id: int
    artifact: str
    value: object


class StreamingOutput(OutputTriple):
    """``(sequence_id, artifact, value)`` with its provenance.

    Attributes:
        controls: control -> version that the value was made with, 0 for a control that was not set; the oldest version
            if several stages on the way sampled it. Empty without controls.
        emitted_ns: when it became readable, in monotonic nanoseconds.
        last: it belongs to the last sequence of the session.
        update: name of the newest update of the controls that the sequence sampled; ``None`` if it sampled none,
            and for all outputs of a sequence but the last one emitted.
    """

    controls: dict[str, int]
    emitted_ns: int
    last: bool
    update: object

    @property
    def emitted_at(self) -> float:
        """When it became readable, in monotonic seconds."""
        return self.emitted_ns / NS_PER_S


@dataclass(frozen=True)
class StreamingLastOutput:
    """Wraps the value of an output artifact: the rollout ends with this sequence.

    A handler returns it in place of the value. The reader gets the value itself, and later sequences of the session,
    also those that stages have begun, are dropped.
    """

    value: object


class StreamingActorState(str, Enum):
    """State of an actor."""

    RUNNING = "running"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True)
class StreamingActorHealth:
    """State of an actor.

    Attributes:
        pending_invocations: submitted and not completed.
        failure_reason: one line, if it has failed.
    """

    state: StreamingActorState
    pending_invocations: int
    failure_reason: str | None = None


class StreamingStageActor(Protocol):
    """Runs the invocations of one stage, in the order in which they were submitted. All methods from any thread.

    Optional: ``add_failure_callback(callback)``, which calls ``callback(reason)`` once when the actor fails. Without
    it, the sessions of a failed actor fail at their next invocation.
    """

    def submit(self, invocation: StreamingStageInvocation) -> Future[Mapping[str, object]]:
        """Queue one invocation without waiting.

        For each invocation the actor marks the future as running (``set_running_or_notify_cancel``; a cancelled one is
        dropped), calls ``invocation.begin()``, runs the handler with the result, frees the place in the mailbox and
        completes the future, in this order. Callbacks of the future may submit again.

        Raises:
            StreamingActorBusyError: the mailbox is full; nothing was queued.
            StreamingActorFailedError: it is closed or has failed.
        """

    def health(self) -> StreamingActorHealth:
        """The state now, without waiting."""

    def barrier(self, timeout: float = 5.0) -> None:
        """Return when everything submitted so far is completed.

        Raises:
            TimeoutError: after ``timeout`` seconds.
        """

    def close_session(
        self, context: StreamingSessionContext, reason: StreamingSessionCloseReason, timeout: float = 5.0
    ) -> None:
        """Release the stage's state of a session, after the work submitted so far.

        Raises:
            TimeoutError: after ``timeout`` seconds.
            Exception: raised by the stage's session closer.
        """

    def close(self) -> None:
        """Accept no more work and end, in bounded time, whatever a handler does. Idempotent."""


@dataclass(frozen=True)
class StreamingPipelineHealth:
    """State of a pipeline.

    Attributes:
        closed: it accepts no more sessions.
        session_count: known sessions, ended ones included.
        actors: by stage id.
    """

    closed: bool
    session_count: int
    actors: Mapping[str, StreamingActorHealth]

    @property
    def ok(self) -> bool:
        """Whether it is open and every actor is running."""
        return not self.closed and all(actor.state is StreamingActorState.RUNNING for actor in self.actors.values())


@dataclass(frozen=True)
class StreamingSchedulerDiagnostics:
    """Counters since the orchestrator was built.

    Attributes:
        stale_epoch_results: results for a session that was released before.
        orphaned_results: results for a session that had been cancelled, closed or failed since the submission.
        duplicate_results: results for an invocation that was completed before.
        cleanup_failures: sessions that could not be released entirely.
        slot_leaks: artifacts left over when their session was released.
    """

    stale_epoch_results: int = 0
    orphaned_results: int = 0
    duplicate_results: int = 0
    cleanup_failures: int = 0
    slot_leaks: int = 0


@dataclass(frozen=True)
class StreamingArtifactStats:
    """Artifacts that a session holds.

    Attributes:
        slot_count: values.
        reference_count: uses that these values are kept for, by stages and readers.
    """

    slot_count: int
    reference_count: int


class SchedulerCounts:
    """The counters behind :class:`StreamingSchedulerDiagnostics`; written under the scheduling lock."""

    __slots__ = ("stale", "orphaned", "duplicate", "cleanup_failures", "slot_leaks")

    def __init__(self) -> None:
        self.stale = self.orphaned = self.duplicate = self.cleanup_failures = self.slot_leaks = 0

    def snapshot(self) -> StreamingSchedulerDiagnostics:
        return StreamingSchedulerDiagnostics(
            self.stale, self.orphaned, self.duplicate, self.cleanup_failures, self.slot_leaks
        )
