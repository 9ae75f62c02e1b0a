"""Sessions of the scheduler: state, validation of inputs, and the table of ids."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Mapping
from types import TracebackType

from ..waiters import Waiter
from .controls import StreamingControls
from .errors import SequenceError, SessionActiveError, SessionEndedError, UnknownSessionError
from .graph import PipelineGraph
from .metrics import PipelineTotals, SessionRecord
from .progress import Slot, StageProgress
from .types import (
    StreamingArtifactStats,
    StreamingOutput,
    StreamingSessionCloseReason,
    StreamingSessionContext,
    StreamingSessionStatus,
)
from .work import ActorLane, StageWork

RUNNING = StreamingSessionStatus.RUNNING


class AcceptedSequences:
    """The accepted sequences of one input.

    Attributes:
        next: the lowest that was not accepted.
    """

    __slots__ = ("next", "_ahead")

    def __init__(self) -> None:
        self.next = 0
        self._ahead: set[int] = set()

    def __contains__(self, sequence_id: int) -> bool:
        return sequence_id < self.next or sequence_id in self._ahead

    @property
    def newest(self) -> int:
        """The highest accepted sequence; -1 if there is none."""
        return max(self._ahead, default=self.next - 1)

    def add(self, sequence_id: int) -> None:
        """Accept a sequence."""
        if sequence_id != self.next:
            self._ahead.add(sequence_id)
            return
        self.next += 1
        while self.next in self._ahead:
            self._ahead.remove(self.next)
            self.next += 1


class StreamingSession:
    """One epoch of a session. Guarded by the scheduling lock.

    Args:
        context: its id and epoch.
        graph: the pipeline.
        lanes: the actors that hold its state, by stage.
        final: its last sequence, if that is known.
        window: sequences that its records cover.
        totals: statistics of all sessions.

    Attributes:
        stages: its progress, by stage.
        slots: (artifact, sequence) -> value, for everything that is still referenced.
        inputs: artifact -> the sequences that were accepted.
        controls: the values of its controls, guarded by a lock of their own.
        outputs: readable outputs; ``emitted`` and ``polled`` count them by output artifact.
        held: outputs that wait for those of an earlier sequence.
        works: its invocations at actors.
        queued_stages: number of stages in whose queue it is.
        error, trace: the exception that it failed with, and its traceback.
        close_reason: passed to the session closers, once it has ended.
        draining: it accepts no more inputs.
        finished: its last sequence is complete.
        released: all stages have released it.
        forget: its id becomes unknown as soon as it is released.
        push_line, output_line: tasks that wait for room, and for outputs.
        watchers: events of threads that wait for it to be idle, finished or released.
    """

    def __init__(
        self,
        context: StreamingSessionContext,
        graph: PipelineGraph,
        lanes: tuple[ActorLane, ...],
        final: int | None,
        window: int,
        totals: PipelineTotals,
    ) -> None:
        self.context = context
        self.session_id = context.session_id
        self.lanes = lanes
        self.status = RUNNING
        self.error: BaseException | None = None
        self.trace: TracebackType | None = None
        self.cleanup_error: BaseException | None = None
        self.close_reason: StreamingSessionCloseReason | None = None
        self.final = final
        self.draining = False
        self.finished = False
        self.released = False
        self.forget = False
        self.stages = tuple(StageProgress(self, table, window) for table in graph.stages)
        self.slots: dict[tuple[str, int], Slot] = {}
        self.inputs = {artifact: AcceptedSequences() for artifact in graph.inputs}
        self.controls = StreamingControls(graph.controls)
        self.outputs: deque[StreamingOutput] = deque()
        self.emitted = [0] * len(graph.outputs)
        self.polled = [0] * len(graph.outputs)
        self.held: dict[tuple[int, int], Slot] = {}
        self.works: set[StageWork] = set()
        self.queued_stages = 0
        self.record = SessionRecord(window, totals)
        self.push_line: deque[Waiter] = deque()
        self.output_line: deque[Waiter] = deque()
        self.watchers: list[threading.Event] = []

    @property
    def accepted(self) -> int:
        """How many sequences, from 0 on without a gap, have all their inputs."""
        return min(accepted.next for accepted in self.inputs.values())

    def is_past_end(self, sequence_id: int) -> bool:
        """Whether the rollout ends before this sequence."""
        return self.final is not None and sequence_id > self.final

    @property
    def idle(self) -> bool:
        """Whether nothing of it runs or could run now; after its end, whether it is released."""
        if self.status is not RUNNING:
            return self.released
        return not self.works and not self.queued_stages

    def drop_reference(self, artifact: str, sequence_id: int) -> Slot:
        """Drop one reference to a value. Returns the slot, so that the caller decides where the value is freed."""
        slot = self.slots[artifact, sequence_id]
        slot.references -= 1
        if slot.references == 0:
            del self.slots[artifact, sequence_id]
        return slot

    def drop_leaks(self) -> int:
        """Drop the values that cannot be read, after the end of all work; returns their number."""
        readable = {(output.artifact, output.sequence_id) for output in self.outputs}
        leaked = [key for key in self.slots if key not in readable]
        for key in leaked:
            del self.slots[key]
        return len(leaked)

    def artifact_stats(self) -> StreamingArtifactStats:
        """The artifacts that it holds."""
        return StreamingArtifactStats(len(self.slots), sum(slot.references for slot in self.slots.values()))

    def raise_error(self) -> None:
        """Raise the exception that it failed with, if any, each time with its original traceback."""
        if self.error is not None:
            raise self.error.with_traceback(self.trace)

    def notify(self) -> None:
        """Wake the threads that wait for this session."""
        for watcher in self.watchers:
            watcher.set()


def check_open(session: StreamingSession) -> None:
    """``SessionEndedError`` if the session accepts no more inputs."""
    if session.status is not RUNNING:
        raise SessionEndedError(f"session {session.session_id!r} is {session.status.value}; create it again")
    if session.draining:
        raise SessionEndedError(f"session {session.session_id!r} is being drained")


def check_artifacts(graph: PipelineGraph, artifacts: Collection[str]) -> None:
    """``ValueError`` unless all are inputs that are pushed by sequence."""
    if not artifacts:
        raise ValueError(f"no inputs given; expected some of {sorted(graph.inputs)}")
    for artifact in artifacts:
        if artifact in graph.controls:
            raise ValueError(f"{artifact!r} is a control: use set_control")
        if artifact not in graph.inputs:
            raise ValueError(f"{artifact!r} is not an input of the pipeline; expected some of {sorted(graph.inputs)}")


def checked_inputs(graph: PipelineGraph, inputs: Mapping[str, object]) -> dict[str, object]:
    """A validated copy, so that a mapping with code of its own is not used under the lock.

    Raises:
        ValueError: it is no mapping, or has an artifact that is not an input.
    """
    if not isinstance(inputs, Mapping):
        raise ValueError(f"inputs must be a mapping of artifacts to values, got {type(inputs).__name__}")
    given = dict(inputs)
    check_artifacts(graph, given)
    return given


def check_sequence(session: StreamingSession, sequence_id: int, artifacts: Collection[str], *, in_order: bool) -> None:
    """``SequenceError`` unless these inputs are new and, if ``in_order``, leave no gap."""
    if isinstance(sequence_id, bool) or not isinstance(sequence_id, int) or sequence_id < 0:
        raise SequenceError(f"sequence_id must be an integer of 0 or more, got {sequence_id!r}")
    where = f"session {session.session_id!r}"
    if session.final is not None and sequence_id > session.final:
        raise SequenceError(f"{where}: sequence {sequence_id} is past its final sequence {session.final}")
    for artifact in artifacts:
        accepted = session.inputs[artifact]
        expected = accepted.next
        if sequence_id == expected:
            continue
        if sequence_id in accepted:
            raise SequenceError(f"{where}: sequence {sequence_id} of {artifact!r} came already; expected {expected}")
        if in_order:
            raise SequenceError(f"{where}: sequence {sequence_id} of {artifact!r} leaves a gap; expected {expected}")


def check_final(session: StreamingSession, final: int) -> bool:
    """Whether the final sequence was not known yet.

    Raises:
        SequenceError: ``final`` cannot be the final sequence any more.
    """
    where = f"session {session.session_id!r}"
    if isinstance(final, bool) or not isinstance(final, int) or final < 0:
        raise SequenceError(f"the final sequence must be an integer of 0 or more, got {final!r}")
    if session.final is not None:
        if final != session.final:
            raise SequenceError(f"{where}: its final sequence is {session.final} already, got {final}")
        return False
    newest = max(accepted.newest for accepted in session.inputs.values())
    if final < newest:
        raise SequenceError(f"{where}: sequence {newest} was accepted already, so {final} is not the final one")
    if any(progress.base > final or final in progress.ahead for progress in session.stages):
        raise SequenceError(
            f"{where}: sequence {final} was handed to a stage already without ``is_last``; call finish_inputs "
            f"before it is pushed, or use drain_session"
        )
    return True


def has_room(session: StreamingSession, graph: PipelineGraph, sequence_id: int, artifacts: Collection[str]) -> bool:
    """Whether every edge of these artifacts has room for the sequence."""
    for artifact in artifacts:
        for target in graph.inputs[artifact]:
            progress = session.stages[target]
            if sequence_id >= progress.base + progress.table.capacities[artifact]:
                return False
    return True


class SessionTable:
    """Sessions by id. An id is free again when its last session is released.

    Writes are guarded by the scheduling lock. Epochs are counted over all ids, so that closed ids are not remembered.

    Args:
        graph: the pipeline.
        window: sequences that the records of a session cover.
        totals: statistics of all sessions.
    """

    def __init__(self, graph: PipelineGraph, window: int, totals: PipelineTotals) -> None:
        self._graph = graph
        self._window = window
        self._totals = totals
        self._sessions: dict[str, StreamingSession] = {}
        self._epochs = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: str) -> StreamingSession:
        """The session with this id; needs no lock.

        Raises:
            UnknownSessionError: there is none.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise UnknownSessionError(f"there is no session {session_id!r}")
        return session

    def all(self) -> list[StreamingSession]:
        """All sessions, ended ones included."""
        return list(self._sessions.values())

    def add(self, session_id: str, lanes: tuple[ActorLane, ...], final: int | None) -> StreamingSession:
        """Create a session.

        Raises:
            SessionActiveError: the id is not free.
            SequenceError: ``final`` is not a sequence.
        """
        self._check_free(session_id)
        context = StreamingSessionContext(session_id, self._epochs + 1)
        session = StreamingSession(context, self._graph, lanes, None, self._window, self._totals)
        if final is not None and check_final(session, final):
            session.final = final
        self._epochs += 1
        self._sessions[session_id] = session
        return session

    def forget(self, session: StreamingSession) -> None:
        """Remove a released session, unless its release failed or the id has a newer session."""
        if session.released and session.cleanup_error is None and self._sessions.get(session.session_id) is session:
            del self._sessions[session.session_id]

    def _check_free(self, session_id: str) -> None:
        last = self._sessions.get(session_id)
        if last is None or (last.released and last.cleanup_error is None):
            return
        if last.status is RUNNING:
            raise SessionActiveError(f"session {session_id!r} is running; close it first, or use another id")
        if last.cleanup_error is None:
            raise SessionActiveError(f"the last session {session_id!r} is not released yet; try again later")
        raise SessionActiveError(f"the id {session_id!r} cannot be used again: {last.cleanup_error}")
