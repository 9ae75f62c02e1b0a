"""Decides what runs next: admission, routing and ends of sessions, without threads or locks of its own."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Container, Mapping
from typing import NamedTuple

from ..clock import Clock
from ..waiters import Waiter
from .errors import StreamingCleanupError
from .fair_queue import DeficitRoundRobin
from .graph import PipelineGraph, StageTable
from .metrics import PipelineTotals, StageStatistics, WaitReason
from .progress import Controls, Slot, StageProgress
from .session import RUNNING, StreamingSession
from .types import (
    SchedulerCounts,
    StreamingLastOutput,
    StreamingOutput,
    StreamingSessionCloseReason,
    StreamingSessionStatus,
    StreamingStageInvocation,
    StreamingTaskKey,
)
from .work import ActorLane, StageWork, WithdrawnError

_NO_WAIT, _STAGE_CAPACITY, _RESOURCE_GROUP, _EDGE_CAPACITY = map(int, WaitReason)  # members of an enum cost a lookup


class ResourceGroup:
    """Concurrency limit of several stages, which are numbered in ``stages``."""

    __slots__ = ("capacity", "in_use", "stages")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.in_use = 0
        self.stages: list[int] = []

    def after(self, index: int) -> list[int]:
        """The stages in the order in which they get the place that stage ``index`` frees: its successor first."""
        return [i for i in self.stages if i > index] + [i for i in self.stages if i <= index]


class StageQueue:
    """Sessions that wait for a stage, and the limits of its admission."""

    __slots__ = ("table", "lane", "group", "waiting", "freed", "statistics")

    def __init__(self, table: StageTable, lane: ActorLane, group: ResourceGroup | None) -> None:
        self.table = table
        self.lane = lane
        self.group = group
        self.waiting: DeficitRoundRobin[StageProgress] = DeficitRoundRobin()
        self.statistics = StageStatistics()
        self.freed: tuple[int, ...] = (table.index,)  # stages to reconsider when an invocation completes here

    def wait_reason(self) -> int:
        """What keeps the stage from admitting a chunk; ``SCHEDULER_ADMISSION`` if nothing does."""
        if len(self.lane.works) >= self.table.spec.max_in_flight_global or self.lane.backlog:
            return _STAGE_CAPACITY
        if self.group is not None and self.group.in_use >= self.group.capacity:
            return _RESOURCE_GROUP
        return _NO_WAIT


class Effects(NamedTuple):
    """What the caller has to do after it has released the lock.

    Attributes:
        started: works to submit to their actors.
        withdrawn: works to cancel at their actors.
        woken: tasks to wake.
        ended: sessions to release.
        dropped: values to drop, whose finalizers must not run under the lock.
        batches: statistics with a batch to evaluate and commit.
    """

    started: list[StageWork]
    withdrawn: list[StageWork]
    woken: list[Waiter]
    ended: list[StreamingSession]
    dropped: list[Slot]
    batches: list[StageStatistics]


logger = logging.getLogger(__name__)


class Scheduler:
    """Routes artifacts and admits work.

    The caller holds a lock during every call, and carries out the effects afterwards.

    A stage admits a sequence only if there is room for all that it will produce: an edge has room for ``capacity``
    sequences, counted from the lowest that its target has not taken. So a running stage never blocks, and the oldest
    sequence of a session can always proceed. The cost of an event does not depend on the number of sessions.

    Attributes:
        queues: by stage.
        counts: the diagnostics.
        totals: latencies and periods of all sessions.
        groups: the resource groups, by name.
    """

    def __init__(
        self,
        graph: PipelineGraph,
        lanes: list[ActorLane],
        clock: Clock,
    ) -> None:
        self.graph = graph
        self.counts = SchedulerCounts()
        self.totals = PipelineTotals()
        self.groups = {group.name: ResourceGroup(group.max_concurrency) for group in graph.spec.resource_groups}
        self.queues = [self._queue(table, lane) for table, lane in zip(graph.stages, lanes, strict=True)]
        for group in self.groups.values():
            for index in group.stages:
                self.queues[index].freed = tuple(group.after(index))
        self.started: list[StageWork] = []
        self.withdrawn: list[StageWork] = []
        self.woken: list[Waiter] = []
        self.ended: list[StreamingSession] = []
        self.dropped: list[Slot] = []
        self.batches: list[StageStatistics] = []
        self._clock = clock
        self._now_ns = clock.now_ns
        self._requests = 0
        self._due: deque[int] = deque()  # stages that may be able to admit a chunk

    def _queue(self, table: StageTable, lane: ActorLane) -> StageQueue:
        if table.spec.resource_group is None:
            return StageQueue(table, lane, None)
        group = self.groups[table.spec.resource_group]
        group.stages.append(table.index)
        return StageQueue(table, lane, group)

    def take_effects(self) -> Effects | None:
        """Remove and return the effects; ``None`` if there are none."""
        if not (self.started or self.withdrawn or self.woken or self.ended or self.dropped or self.batches):
            return None
        effects = Effects(self.started, self.withdrawn, self.woken, self.ended, self.dropped, self.batches)
        self.started, self.withdrawn, self.woken, self.ended, self.dropped, self.batches = [], [], [], [], [], []
        return effects

    # -- events

    def add_inputs(self, session: StreamingSession, sequence_id: int, values: Mapping[str, object]) -> None:
        """Add inputs that have been checked and have room."""
        now_ns = self._now_ns()
        for artifact, value in values.items():
            targets = self.graph.inputs[artifact]
            session.slots[artifact, sequence_id] = Slot(value, len(targets))
            session.inputs[artifact].add(sequence_id)
            self._arrive(session, targets, artifact, sequence_id, now_ns)
        for _ in range(session.record.accepted.count, session.accepted):
            session.record.on_accepted(now_ns)
        self._admit_due(now_ns)

    def on_completed(self, work: StageWork, outputs: Mapping[str, object] | None, error: BaseException | None) -> None:
        """An invocation has completed, with exactly the outputs of its stage or with an error."""
        session = work.session
        if work.completed:
            if not isinstance(error, WithdrawnError):
                self._count_late(session)
            return
        now_ns = self._now_ns()
        controls = work.controls() if self.graph.controls else None
        self._finish(work, now_ns)
        if session.status is not RUNNING:
            if not isinstance(error, WithdrawnError):
                self.counts.orphaned += 1
            self._release_if_idle(session)
        elif session.final is not None and session.is_past_end(work.sequence_id):
            self.dropped += [Slot(value, 0) for value in (outputs or {}).values()]
        elif error is not None:
            self.queues[work.progress.table.index].statistics.failed += 1
            self.end_session(session, StreamingSessionStatus.FAILED, StreamingSessionCloseReason.FAILED, error)
        else:
            self._succeeded(work, outputs or {}, controls, now_ns)
        self._admit_due(now_ns)
        if session.watchers and session.idle:
            session.notify()

    def _succeeded(
        self, work: StageWork, outputs: Mapping[str, object], controls: Controls | None, now_ns: int
    ) -> None:
        session, progress = work.session, work.progress
        progress.completed += 1
        row = progress.record.completed(work.sequence_id, now_ns)
        statistics = self.queues[progress.table.index].statistics
        if statistics.add(row):
            self.batches.append(statistics)
        progress.missing = progress.table.full_mask & ~progress.arrived.get(progress.base, 0)
        progress.wait_reason = _NO_WAIT
        self._route(work, outputs, controls, now_ns)
        self._consider(progress)
        self._check_finished(session)

    def read_outputs(self, session: StreamingSession, limit: int) -> list[StreamingOutput]:
        """Remove and return up to ``limit`` outputs, oldest first."""
        found: list[StreamingOutput] = []
        numbers: set[int] = set()
        while session.outputs and len(found) < limit:
            output = session.outputs.popleft()
            session.drop_reference(output.artifact, output.sequence_id)
            number = self.graph.outputs.index(output.artifact)
            session.polled[number] += 1
            numbers.add(number)
            found.append(output)
        for number in numbers:
            self._consider(session.stages[self.graph.producers[number]])
        if self._due:
            self._admit_due(self._now_ns())
        return found

    def end_session(
        self,
        session: StreamingSession,
        status: StreamingSessionStatus,
        reason: StreamingSessionCloseReason,
        error: BaseException | None = None,
    ) -> None:
        """End a running session: queued work never starts, readable outputs stay."""
        session.status = status
        session.close_reason = reason
        session.error, session.trace = error, error.__traceback__ if error else None
        for progress in session.stages:
            self._drop(progress, 0)
        for number, sequence_id in session.held:
            self.dropped.append(session.drop_reference(self.graph.outputs[number], sequence_id))
        session.held.clear()
        self._wake(session.push_line)
        self._wake(session.output_line)
        for work in tuple(session.works):
            self._withdraw(work)
        self._release_if_idle(session)
        session.notify()
        self._admit_due(self._now_ns())

    def drain_session(self, session: StreamingSession) -> None:
        """Accept no more inputs; sequences that have all their inputs are completed."""
        session.draining = True
        self._end_after(session, session.accepted - 1)
        self._check_finished(session)
        session.notify()

    def on_refused(self, work: StageWork) -> bool:
        """The actor's mailbox was full. True if the caller has to retry, since no completion of the actor will."""
        if work.session.status is not RUNNING:
            self.on_completed(work, None, WithdrawnError("the session ended"))
            return False
        lane = work.lane
        lane.backlog.append(work)
        if lane.retrying or len(lane.works) > len(lane.backlog):
            return False
        lane.retrying = True
        return True

    def retry(self, lane: ActorLane) -> None:
        """Submit again what the actor has refused."""
        lane.retrying = False
        if lane.backlog:
            self.started.append(lane.backlog.popleft())

    def replace_lane(self, index: int, lane: ActorLane, error: BaseException) -> None:
        """Give a stage a new actor; sessions with work at the old one fail with ``error``."""
        queue = self.queues[index]
        lost = tuple(queue.lane.works)
        queue.lane.backlog.clear()
        queue.lane = lane
        for work in lost:
            self.on_completed(work, None, error)

    def on_released(self, session: StreamingSession, error: BaseException | None) -> None:
        """All stages have released a session; ``error`` is the first failure to do so."""
        leaks = session.drop_leaks()
        self.counts.slot_leaks += leaks
        if leaks:
            logger.error("session %r: %d artifacts were left over", session.session_id, leaks)
            error = error or StreamingCleanupError(f"session {session.session_id!r}: {leaks} artifacts were left over")
        if error is not None:
            self.counts.cleanup_failures += 1
        session.cleanup_error = error
        session.released = True
        session.notify()

    # -- steps

    def _end_after(self, session: StreamingSession, final: int) -> None:
        """Drop every sequence after ``final``, outputs that were not read included."""
        session.final = final if session.final is None else min(final, session.final)
        for progress in session.stages:
            self._drop(progress, session.final + 1)
        for work in tuple(session.works):
            if session.is_past_end(work.sequence_id):
                self._withdraw(work)
        for number, sequence_id in [held for held in session.held if held[1] > session.final]:
            del session.held[number, sequence_id]
            self.dropped.append(session.drop_reference(self.graph.outputs[number], sequence_id))
        unread = list(session.outputs)
        session.outputs.clear()
        for output in unread:
            if output.sequence_id <= session.final:
                session.outputs.append(output)
            else:
                self.dropped.append(session.drop_reference(output.artifact, output.sequence_id))
        self._wake(session.push_line)

    def _withdraw(self, work: StageWork) -> None:
        """Cancel work that has not begun."""
        if work in work.lane.backlog:
            work.lane.backlog.remove(work)
            self._finish(work, self._now_ns())
        else:
            self.withdrawn.append(work)

    def _arrive(
        self, session: StreamingSession, targets: tuple[int, ...], artifact: str, sequence_id: int, now_ns: int
    ) -> None:
        for target in targets:
            progress = session.stages[target]
            if progress.arrive(artifact, sequence_id, now_ns):
                self._consider(progress)

    def _consider(self, progress: StageProgress) -> None:
        """Queue the session at a stage, if the stage could admit a chunk of it."""
        session, table = progress.session, progress.table
        if progress.queued or session.status is not RUNNING:
            return
        sequence_id = progress.next_ready()
        if sequence_id is None or progress.in_flight >= table.spec.max_in_flight_per_session:
            return
        if not progress.has_room(sequence_id, self.graph.spec.output_capacity_per_session):
            progress.wait_reason = _EDGE_CAPACITY
            return
        queue = self.queues[table.index]
        if progress.wait_reason != _EDGE_CAPACITY:
            progress.wait_reason = queue.wait_reason()
        progress.queued = True
        session.queued_stages += 1
        queue.waiting.add(progress)
        self._due.append(table.index)

    def _admit_due(self, now_ns: int) -> None:
        while self._due:
            queue = self.queues[self._due.popleft()]
            while queue.waiting and queue.wait_reason() == _NO_WAIT:
                self._admit(queue, queue.waiting.pop(), now_ns)

    def _admit(self, queue: StageQueue, progress: StageProgress, now_ns: int) -> None:
        session, table = progress.session, progress.table
        progress.queued = False
        session.queued_stages -= 1
        before = progress.base
        sequence_id = progress.take_next()
        work = StageWork(progress, sequence_id, session.lanes[table.index], now_ns, self._clock)
        self._requests += 1
        key = StreamingTaskKey(
            session.session_id, session.context.session_epoch, sequence_id, table.spec.stage_id, str(self._requests)
        )
        work.invocation = StreamingStageInvocation(
            key, work.inputs(), sequence_id == 0, sequence_id == session.final, work.sample
        )
        progress.in_flight += 1
        progress.record.admitted(sequence_id, now_ns, progress.wait_reason, progress.missing)
        queue.statistics.admitted += 1
        progress.wait_reason = _NO_WAIT
        session.works.add(work)
        work.lane.works.add(work)
        if queue.group is not None:
            queue.group.in_use += 1
        self.started.append(work)
        if progress.base != before:
            self._made_room(session, table)
        self._consider(progress)

    def _made_room(self, session: StreamingSession, table: StageTable) -> None:
        for source in table.sources:
            self._consider(session.stages[source])
        if table.ingress and session.push_line:
            self._wake(session.push_line)

    def _finish(self, work: StageWork, now_ns: int) -> None:
        """Free the places and input values of an invocation."""
        session, progress, lane = work.session, work.progress, work.lane
        work.completed = True
        work.invocation = None
        session.works.remove(work)
        lane.works.remove(work)
        progress.in_flight -= 1
        queue = self.queues[progress.table.index]
        if queue.group is not None:
            queue.group.in_use -= 1
        queue.waiting.charge(progress, now_ns - (work.admitted_ns if work.begun_ns is None else work.begun_ns))
        for artifact in progress.table.queued:
            session.drop_reference(artifact, work.sequence_id)
        if lane.backlog:
            self.started.append(lane.backlog.popleft())
        self._due.extend(queue.freed)

    def _route(self, work: StageWork, outputs: Mapping[str, object], controls: Controls | None, now_ns: int) -> None:
        session, table, sequence_id = work.session, work.progress.table, work.sequence_id
        for artifact in table.outputs:
            if isinstance(outputs[artifact], StreamingLastOutput):
                outputs = self._end_here(session, table.outputs, outputs, sequence_id)
        for artifact, value in outputs.items():
            targets = table.targets[artifact]
            number = table.outputs.get(artifact)
            slot = Slot(value, len(targets) + (number is not None), controls)
            session.slots[artifact, sequence_id] = slot
            self._arrive(session, targets, artifact, sequence_id, now_ns)
            if number is not None:
                session.held[number, sequence_id] = slot
                self._emit(session, number, now_ns)

    def _end_here(
        self, session: StreamingSession, marked: Container[str], outputs: Mapping[str, object], sequence_id: int
    ) -> Mapping[str, object]:
        """End a session with this sequence; returns its outputs without the marks of those in ``marked``.

        Inputs of earlier sequences that have not been pushed yet are still accepted.
        """
        session.draining = session.draining or session.accepted > sequence_id
        self._end_after(session, sequence_id)
        return {
            artifact: value.value if artifact in marked and isinstance(value, StreamingLastOutput) else value
            for artifact, value in outputs.items()
        }

    def _emit(self, session: StreamingSession, number: int, now_ns: int) -> None:
        """Emit the outputs that are next in order."""
        artifact = self.graph.outputs[number]
        while (slot := session.held.pop((number, session.emitted[number]), None)) is not None:
            sequence_id = session.emitted[number]
            session.emitted[number] = sequence_id + 1
            output = StreamingOutput(sequence_id, artifact, slot.value)
            output.emitted_ns = now_ns
            output.last = sequence_id == session.final
            output.controls = {name: stamp[0] for name, stamp in slot.controls.items()} if slot.controls else {}
            output.update = None
            session.outputs.append(output)
            if session.record.first_output.count == 0:
                session.record.on_first_output(now_ns)
            if min(session.emitted) > sequence_id:
                session.record.on_chunk(sequence_id, now_ns, slot.controls)
                output.update, unused = session.controls.finish(sequence_id)
                if unused:
                    self.dropped += [Slot(state, 0) for state in unused]
        if session.output_line:
            self._wake(session.output_line)

    def _check_finished(self, session: StreamingSession) -> None:
        final = session.final
        if final is None or session.finished:
            return
        if any(progress.base <= final for progress in session.stages):
            return
        if any(work.sequence_id <= final for work in session.works):
            return
        session.finished = True
        self._wake(session.output_line)
        session.notify()

    def _drop(self, progress: StageProgress, start: int) -> None:
        """Drop what waits at a stage, from sequence ``start`` on."""
        self.dropped += progress.drop(start)
        if progress.queued and not progress.ready:
            progress.queued = False
            progress.session.queued_stages -= 1
            self.queues[progress.table.index].waiting.discard(progress)

    def _release_if_idle(self, session: StreamingSession) -> None:
        if not session.works:
            self.ended.append(session)

    def _count_late(self, session: StreamingSession) -> None:
        if session.released:
            self.counts.stale += 1
        else:
            self.counts.duplicate += 1

    def _wake(self, line: deque[Waiter]) -> None:
        self.woken.extend(line)
        line.clear()
