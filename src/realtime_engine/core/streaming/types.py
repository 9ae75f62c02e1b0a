"""What a stage is asked to do, and for whom."""

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


ControlStamp: TypeAlias = tuple[int, int]
"""(version of a control, when it was set in monotonic nanoseconds)"""


class OutputTriple(NamedTuple):
    """The tuple that an output is."""

    sequence_id: int
    artifact: str
    value: object


class StreamingOutput(OutputTriple):
    """``(sequence_id, artifact, value)``, and what is known about it.

    Attributes:
        controls: control -> the version of it that this was made with, 0 for one that was not set; the oldest version
            when several stages on the way sampled it. Empty without controls.
        emitted_ns: when it could be read, in monotonic nanoseconds.
        last: it is of the last sequence of the session.
        update: name of the newest update of the controls that the sequence has seen. ``None`` if it has seen none, and
            for all outputs of a sequence but the one that is emitted last.
    """

    controls: dict[str, int]
    emitted_ns: int
    last: bool
    update: object

    @property
    def emitted_at(self) -> float:
        """When it could be read, in monotonic seconds."""
        return self.emitted_ns / NS_PER_S


@dataclass(frozen=True)
class StreamingLastOutput:
    """Wraps the value of an output artifact: the rollout ends with this sequence.

    A handler returns it in place of the value. The reader gets the value itself, and later sequences of the session,
    also those that stages have begun, are dropped.
    """

    value: object


class StreamingActorState(str, Enum):
    """Where an actor is in its life."""

    RUNNING = "running"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True)
class StreamingActorHealth:
    """An actor at one moment.

    Attributes:
        pending_invocations: taken and not answered yet.
        failure_reason: a line for a person when it has failed.
    """

    state: StreamingActorState
    pending_invocations: int
    failure_reason: str | None = None


class StreamingStageActor(Protocol):
    """Runs the invocations of one stage, in the order in which they were submitted. All methods from any thread."""

    def submit(self, invocation: StreamingStageInvocation) -> Future[Mapping[str, object]]:
        """Take one invocation without waiting.

        Its turn come, the actor marks the future as running (``set_running_or_notify_cancel``; a cancelled one is
        dropped, unstarted), calls ``invocation.begin()``, runs the handler with what that returns, makes room in the
        mailbox and answers the future, in this order. The callbacks of the future may submit again.

        Raises:
            StreamingActorBusyError: its mailbox is full; nothing was taken.
            StreamingActorFailedError: it is closed or dead.
        """

    def health(self) -> StreamingActorHealth:
        """How it is, without waiting."""

    def barrier(self, timeout: float = 5.0) -> None:
        """Return when everything taken so far is answered. ``TimeoutError`` after ``timeout`` seconds."""

    def close_session(
        self, context: StreamingSessionContext, reason: StreamingSessionCloseReason, timeout: float = 5.0
    ) -> None:
        """Let go of what the stage holds of a session, after the work taken so far, where its state lives.

        Raises:
            TimeoutError: after ``timeout`` seconds.
            Exception: what the stage's closer raised.
        """

    def close(self) -> None:
        """Take nothing more, and end. Bounded in time, whatever a handler does. May be called again."""


@dataclass(frozen=True)
class StreamingPipelineHealth:
    """A pipeline at one moment.

    Attributes:
        closed: it was closed, and takes no sessions.
        session_count: sessions that it knows, ended ones among them.
        actors: by stage.
    """

    closed: bool
    session_count: int
    actors: Mapping[str, StreamingActorHealth]

    @property
    def ok(self) -> bool:
        """Whether every stage can work."""
        return not self.closed and all(actor.state is StreamingActorState.RUNNING for actor in self.actors.values())


@dataclass(frozen=True)
class StreamingSchedulerDiagnostics:
    """Since the orchestrator was built.

    Attributes:
        stale_epoch_results: came for a session that was released already.
        orphaned_results: came for a session that had been cancelled, closed or failed meanwhile.
        duplicate_results: came for work that had been answered.
        cleanup_failures: sessions that could not be released entirely.
        slot_leaks: artifacts that were left over when their session was released.
    """

    stale_epoch_results: int = 0
    orphaned_results: int = 0
    duplicate_results: int = 0
    cleanup_failures: int = 0
    slot_leaks: int = 0


@dataclass(frozen=True)
class StreamingArtifactStats:
    """What a session holds now.

    Attributes:
        slot_count: values of artifacts.
        reference_count: stages and readers that these values are kept for.
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
