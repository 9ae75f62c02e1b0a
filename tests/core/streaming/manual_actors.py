"""Actors without threads: one that answers when a test says so, and one that answers at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from realtime_engine.core.streaming.errors import StreamingActorBusyError, StreamingActorFailedError
from realtime_engine.core.streaming.types import (
    StreamingActorHealth,
    StreamingActorState,
    StreamingSessionCloseReason,
    StreamingSessionContext,
    StreamingStageInvocation,
)

Answer = Future[Mapping[str, object]]
Handler = Callable[[StreamingStageInvocation], Mapping[str, object]]


class ManualActor:
    """Keeps what it is given until a test answers it.

    Attributes:
        taken: (invocation, future) that wait, oldest first.
        begun: sequence ids that a handler saw, in order.
        closings: (context, reason) of every closer call.
        closer_error: what the closer raises.
    """

    def __init__(self, outputs: Mapping[str, object], mailbox_capacity: int = 100) -> None:
        self.outputs = dict(outputs)
        self.mailbox_capacity = mailbox_capacity
        self.taken: list[tuple[StreamingStageInvocation, Answer]] = []
        self.begun: list[int] = []
        self.closings: list[tuple[StreamingSessionContext, StreamingSessionCloseReason]] = []
        self.closer_error: BaseException | None = None
        self.closer_gate = threading.Event()
        self.closer_gate.set()
        self.state = StreamingActorState.RUNNING

    def submit(self, invocation: StreamingStageInvocation) -> Answer:
        if self.state is not StreamingActorState.RUNNING:
            raise StreamingActorFailedError("it is dead")
        if len(self.taken) >= self.mailbox_capacity:
            raise StreamingActorBusyError("it is full")
        future: Answer = Future()
        self.taken.append((invocation, future))
        return future

    def begin(self, place: int = 0) -> StreamingStageInvocation | None:
        """Begin one; ``None`` when it was cancelled."""
        invocation, future = self.taken[place]
        if not future.set_running_or_notify_cancel():
            del self.taken[place]
            return None
        begun = invocation.begin()
        self.begun.append(begun.key.sequence_id)
        self.taken[place] = (begun, future)
        return begun

    def answer(self, place: int = 0, error: BaseException | None = None) -> None:
        """Begin one, if it has not begun, and answer it."""
        if not self.taken[place][1].running() and self.begin(place) is None:
            return
        invocation, future = self.taken.pop(place)
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result({name: (value, invocation.key.sequence_id) for name, value in self.outputs.items()})

    def die(self) -> None:
        """Answer all with its death."""
        self.state = StreamingActorState.FAILED
        taken, self.taken = self.taken, []
        for _, future in taken:
            if future.running() or future.set_running_or_notify_cancel():
                future.set_exception(StreamingActorFailedError("it died"))

    def health(self) -> StreamingActorHealth:
        reason = None if self.state is StreamingActorState.RUNNING else "a test said so"
        return StreamingActorHealth(self.state, len(self.taken), reason)

    def barrier(self, timeout: float = 5.0) -> None:
        if self.taken:
            raise TimeoutError("something is not answered")

    def close_session(
        self, context: StreamingSessionContext, reason: StreamingSessionCloseReason, timeout: float = 5.0
    ) -> None:
        if self.state is not StreamingActorState.RUNNING:
            raise StreamingActorFailedError("it is dead")
        if not self.closer_gate.wait(timeout):
            raise TimeoutError("the closer is stuck")
        self.closings.append((context, reason))
        if self.closer_error is not None:
            raise self.closer_error

    def close(self) -> None:
        self.state = StreamingActorState.CLOSED


class InlineActor(ManualActor):
    """Answers within ``submit``."""

    def __init__(self, handler: Handler) -> None:
        super().__init__({})
        self._handler = handler

    def submit(self, invocation: StreamingStageInvocation) -> Answer:
        if self.state is not StreamingActorState.RUNNING:
            raise StreamingActorFailedError("it is dead")
        future: Answer = Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(self._handler(invocation.begin()))
        except Exception as error:
            future.set_exception(error)
        return future
