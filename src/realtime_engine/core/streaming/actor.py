"""What runs a stage: one long-lived owner of the stage's state."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from .tasks import StreamingSessionCloseReason, StreamingSessionContext, StreamingStageInvocation

__all__ = ["StreamingActorHealth", "StreamingActorState", "StreamingStageActor"]


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
