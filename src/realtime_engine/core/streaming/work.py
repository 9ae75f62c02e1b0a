"""Invocations at an actor."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future

from ..clock import Clock
from .controls import ControlSnapshot
from .errors import SessionEndedError
from .progress import Controls, StageProgress, merged
from .types import StreamingSessionStatus, StreamingStageActor, StreamingStageInvocation


class WithdrawnError(SessionEndedError):
    """Result of an invocation that never began, because its session had ended."""


class ActorLane:
    """An actor and its invocations. A restarted stage gets a new lane.

    Attributes:
        works: admitted and not completed.
        backlog: those of them that the actor has refused, because its mailbox was full.
        retrying: a timer will retry the backlog.
    """

    __slots__ = ("actor", "works", "backlog", "retrying")

    def __init__(self, actor: StreamingStageActor) -> None:
        self.actor = actor
        self.works: set[StageWork] = set()
        self.backlog: deque[StageWork] = deque()
        self.retrying = False


class StageWork:
    """One invocation, from its admission to its completion.

    Attributes:
        future: set by the dispatcher when the actor has accepted it.
        begun_ns: set by the actor's thread, through :meth:`sample`.
        sampled: control -> the version that was sampled.
        completed: its result has been processed.
    """

    __slots__ = (
        "session",
        "progress",
        "sequence_id",
        "lane",
        "invocation",
        "admitted_ns",
        "begun_ns",
        "sampled",
        "future",
        "completed",
        "_clock",
    )

    def __init__(self, progress: StageProgress, sequence_id: int, lane: ActorLane, now_ns: int, clock: Clock) -> None:
        self.session = progress.session
        self.progress = progress
        self.sequence_id = sequence_id
        self.lane = lane
        self.invocation: StreamingStageInvocation | None = None
        self.admitted_ns = now_ns
        self.begun_ns: int | None = None
        self.sampled: Controls = {}
        self.future: Future[Mapping[str, object]] | None = None
        self.completed = False
        self._clock = clock

    def inputs(self) -> dict[str, object]:
        """Everything that the stage consumes, with the controls as they are now."""
        session, table = self.session, self.progress.table
        found = {artifact: session.slots[artifact, self.sequence_id].value for artifact in table.queued}
        if table.controls:
            self._add_controls(found, session.controls.peek(self.sequence_id))
        return found

    def sample(self) -> Mapping[str, object]:
        """Record the begin and return the inputs; see :meth:`StreamingStageInvocation.begin`."""
        session = self.session
        is_past_end = session.final is not None and self.sequence_id > session.final
        if session.status is not StreamingSessionStatus.RUNNING or is_past_end or self.invocation is None:
            raise WithdrawnError(f"session {session.session_id!r} ended before this work began")
        self.begun_ns = self._clock.now_ns()
        self.progress.record.begun(self.sequence_id, self.begun_ns)
        inputs = self.invocation.inputs
        controls = self.progress.table.controls
        if not controls:
            return inputs
        found = dict(inputs)
        self._add_controls(found, session.controls.sample(self.sequence_id, controls))
        return found

    def controls(self) -> Controls:
        """The oldest version of each control that its outputs depend on."""
        slots, queued = self.session.slots, self.progress.table.queued
        return merged((slots[artifact, self.sequence_id].controls for artifact in queued), self.sampled)

    def _add_controls(self, inputs: dict[str, object], state: ControlSnapshot) -> None:
        for artifact in self.progress.table.controls:
            inputs[artifact], version, set_ns = state.values[artifact]
            self.sampled[artifact] = (version, set_ns)
