"""The public interface of the streaming scheduler."""

from __future__ import annotations

import asyncio
import threading
from array import array
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable, Mapping
from types import TracebackType

from ..clock import MONOTONIC, Clock, Deadline
from ..monitor import PipelineSnapshot
from ..waiters import Waiter, enlist
from .controls import StreamingControls
from .dispatcher import Dispatcher
from .errors import StreamingActorFailedError, StreamingBackpressureError, StreamingSessionError
from .graph import PipelineGraph
from .metrics import (
    StageSpanNs,
    StageStatistics,
    StreamingSessionMetrics,
    StreamingStageIdleInterval,
    StreamingStageTiming,
    pipeline_snapshot,
)
from .release import SessionReleaser
from .scheduler import Scheduler
from .session import (
    RUNNING,
    SessionTable,
    StreamingSession,
    check_artifacts,
    check_final,
    check_open,
    check_sequence,
    checked_inputs,
    has_room,
)
from .specs import StreamingPipelineSpec, check_count, check_name, check_seconds
from .supervisor import ActorFactory, StageActors
from .types import (
    StreamingActorHealth,
    StreamingArtifactStats,
    StreamingOutput,
    StreamingPipelineHealth,
    StreamingSchedulerDiagnostics,
    StreamingSessionCloseReason,
    StreamingSessionStatus,
    StreamingStageActor,
)
from .work import ActorLane

__all__ = ["StreamingPipelineOrchestrator"]


class StreamingPipelineOrchestrator:
    """Runs ordered chunks of many sessions through a graph of stages. All methods from any thread.

    A session accepts sequences 0, 1, 2, ... and emits its outputs in this order. It ends when a stage fails it; its
    state is then released in the background. It is ended by ``drain_session``, which completes what was accepted, by
    ``cancel_session``, which drops what waits, or by ``close_session``, which also forgets the id. Emitted outputs stay
    readable until ``close_session``, or until the id is used again.

    Args:
        spec: the graph.
        actors: stage id -> its actor, or a function without arguments that creates one. With such a function, a failed
            actor is replaced when the next session is created. All actors are closed with the orchestrator.
        clock: for timestamps and metrics.
        metrics_window: newest chunks of a session that the metrics cover.
        cleanup_timeout: limit in seconds for one stage to release one session.

    Raises:
        ValueError: the graph or the actors are not valid; names the part.
    """

    def __init__(
        self,
        spec: StreamingPipelineSpec,
        actors: Mapping[str, StreamingStageActor | ActorFactory],
        *,
        clock: Clock = MONOTONIC,
        metrics_window: int = 128,
        cleanup_timeout: float = 60.0,
    ) -> None:
        check_count("metrics_window", metrics_window)
        check_seconds("cleanup_timeout", cleanup_timeout)
        if not isinstance(spec, StreamingPipelineSpec):
            raise ValueError(f"spec must be a StreamingPipelineSpec, got {spec!r}")
        self._graph = PipelineGraph(spec)
        self._clock = clock
        self._actors = StageActors(self._graph, actors, self._on_actor_failed)
        self._releaser = SessionReleaser(
            self._actors.stage_ids, self._actors.restartable, self._on_released, cleanup_timeout
        )
        self._scheduler = Scheduler(self._graph, self._actors.lanes, clock)
        self._dispatcher = Dispatcher(self._scheduler, self._releaser)
        self._sessions = SessionTable(self._graph, metrics_window, self._scheduler.totals)
        self._closed = False
        self._actors.watch()

    def __enter__(self) -> StreamingPipelineOrchestrator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def spec(self) -> StreamingPipelineSpec:
        """The graph."""
        return self._graph.spec

    # -- sessions

    def create_session(self, session_id: str, final_sequence_id: int | None = None) -> int:
        """Create a session and return its epoch, which is greater than that of any earlier session.

        Args:
            session_id: its id.
            final_sequence_id: its last sequence, if that is known already.

        Raises:
            SessionActiveError: the id is in use, or its last session is not released.
            StreamingActorFailedError: the actor of a stage has failed and cannot be replaced.
            StreamingSessionError: the pipeline is closed.
        """
        check_name("session_id", session_id)
        self._check_not_closed()
        self._actors.revive(self._on_replaced)
        with self._dispatcher as scheduler:
            self._check_not_closed()
            lanes = tuple(queue.lane for queue in scheduler.queues)
            return self._sessions.add(session_id, lanes, final_sequence_id).context.session_epoch

    def finish_inputs(self, session_id: str, final_sequence_id: int) -> None:
        """Declare the last sequence. Inputs up to it are still accepted.

        Raises:
            SequenceError: a later sequence was accepted, another one was declared before, or this one was handed to a
                stage already without ``is_last``.
            SessionEndedError: the session has ended.
        """
        session = self._sessions.get(session_id)
        with self._dispatcher:
            check_open(session)
            if check_final(session, final_sequence_id):
                session.final = final_sequence_id

    def drain_session(self, session_id: str, timeout: float = 5.0) -> None:
        """Accept no more inputs, complete the accepted sequences, and release the session; its outputs stay readable.

        The outputs have to be read during the call, since unread ones block their stage. A sequence that lacks an input
        is dropped. For a session that has ended already this only waits for its release.

        Raises:
            TimeoutError: after ``timeout`` seconds; draining continues.
            StreamingCleanupError: a stage could not release it.
            Exception: the session has failed with it before everything was completed.
        """
        session, deadline = self._sessions.get(session_id), Deadline(timeout)
        with self._dispatcher as scheduler:
            if session.status is RUNNING and not session.draining:
                scheduler.drain_session(session)
        if not self._watch(session, lambda: session.finished or session.status is not RUNNING, deadline):
            raise TimeoutError(f"session {session_id!r} was not drained within {timeout} s")
        self._end(session, StreamingSessionStatus.CLOSED, StreamingSessionCloseReason.CLOSED, deadline)
        session.raise_error()

    def cancel_session(self, session_id: str, timeout: float = 5.0) -> None:
        """Drop what waits, and release the session after its running invocations; its outputs stay readable.

        Raises:
            TimeoutError: after ``timeout`` seconds; the release continues in the background.
            StreamingCleanupError: a stage could not release it.
        """
        session, deadline = self._sessions.get(session_id), Deadline(timeout)
        self._end(session, StreamingSessionStatus.CANCELLED, StreamingSessionCloseReason.CANCELLED, deadline)

    def close_session(self, session_id: str, timeout: float = 5.0) -> None:
        """As :meth:`cancel_session`, and forget the id. Call :meth:`drain_session` before to lose nothing.

        Raises:
            TimeoutError: after ``timeout`` seconds; the release continues in the background.
            StreamingCleanupError: a stage could not release it. The id stays known and cannot be used again.
        """
        session, deadline = self._sessions.get(session_id), Deadline(timeout)
        session.forget = True
        self._end(session, StreamingSessionStatus.CLOSED, StreamingSessionCloseReason.CLOSED, deadline)
        self._forget(session)

    # -- inputs

    def push_input(self, session_id: str, sequence_id: int, artifact: str, value: object) -> None:
        """Push one input of a sequence: any sequence within the capacity of the edge, in any order.

        Raises:
            StreamingBackpressureError: there is no room for this sequence now.
            SequenceError: it was pushed before, or is past the final sequence.
            SessionEndedError: the session accepts no more inputs.
            ValueError: there is no such input.
        """
        if not self.try_push_inputs(session_id, sequence_id, {artifact: value}, in_order=False):
            raise StreamingBackpressureError(
                f"session {session_id!r}: no room for sequence {sequence_id} of {artifact!r}; "
                f"ask can_push_input first, or await push_inputs"
            )

    def try_push_inputs(
        self, session_id: str, sequence_id: int, inputs: Mapping[str, object], *, in_order: bool = True
    ) -> bool:
        """Push inputs of a sequence, all or none; false if there is no room now.

        Args:
            session_id: the session.
            sequence_id: number of the sequence.
            inputs: artifact -> value.
            in_order: refuse a sequence that leaves a gap.

        Raises:
            SequenceError: these inputs were pushed before, are past the final sequence, or leave a gap.
            SessionEndedError: the session accepts no more inputs.
            ValueError: there is no such input.
        """
        session, given = self._sessions.get(session_id), checked_inputs(self._graph, inputs)
        with self._dispatcher as scheduler:
            return self._try_push(scheduler, session, sequence_id, given, in_order=in_order)

    async def push_inputs(
        self, session_id: str, sequence_id: int, inputs: Mapping[str, object], *, in_order: bool = True
    ) -> None:
        """Push inputs of a sequence, all at once, as soon as there is room.

        Arguments and errors are those of :meth:`try_push_inputs`.
        """
        session, given = self._sessions.get(session_id), checked_inputs(self._graph, inputs)
        while True:
            with self._dispatcher as scheduler:
                if self._try_push(scheduler, session, sequence_id, given, in_order=in_order):
                    return
                waiter = enlist(session.push_line)
            await self._await_wakeup(waiter, session.push_line)

    def can_push_input(self, session_id: str, artifact: str) -> bool:
        """Whether there is room for the next sequence of an input now."""
        return self.can_push_inputs(session_id, (artifact,))

    def can_push_inputs(self, session_id: str, artifacts: Iterable[str]) -> bool:
        """Whether there is room for the next sequence of all these inputs now."""
        session, wanted = self._sessions.get(session_id), tuple(artifacts)
        check_artifacts(self._graph, wanted)
        with self._dispatcher:
            if session.status is not RUNNING or session.draining:
                return False
            for artifact in wanted:
                sequence_id = session.inputs[artifact].next
                if session.is_past_end(sequence_id) or not has_room(session, self._graph, sequence_id, (artifact,)):
                    return False
            return True

    def set_control(self, session_id: str, artifact: str, value: object) -> int:
        """Set a control for every invocation that begins from now on. Never blocks.

        Returns its version, counted from 1; :attr:`StreamingOutput.controls` has the versions of an output.

        Raises:
            SessionEndedError: the session has ended.
            ValueError: there is no such control.
        """
        session = self._sessions.get(session_id)
        if artifact not in self._graph.controls:
            raise ValueError(f"{artifact!r} is not a control; expected one of {sorted(self._graph.controls)}")
        with self._dispatcher:
            if session.status is not RUNNING:
                check_open(session)
            before = session.controls.set({artifact: value}, self._clock.now_ns())  # released outside the lock
        return before.values[artifact].version + 1

    def update_controls(
        self, session_id: str, values: Mapping[str, object], *, update: object, replaces: Collection[Hashable]
    ) -> None:
        """Set controls together: each sequence sees all of them, or none.

        A sequence that has sampled something which the update replaces sees nothing of it in later stages either. Never
        waits.

        Args:
            session_id: the session.
            values: control -> value.
            update: a name for the update; the outputs carry that of the newest update seen.
            replaces: the controls whose values differ, and other keys that :meth:`session_controls` was sampled with.

        Raises:
            SessionEndedError: the session has ended.
        """
        session = self._sessions.get(session_id)
        with self._dispatcher:
            if session.status is not RUNNING:
                check_open(session)
            before = session.controls.update(values, self._clock.now_ns(), update, replaces)
        del before  # outside the lock, because finalizers may run

    def session_controls(self, session_id: str) -> StreamingControls:
        """The controls of a session, to sample them outside a stage. Takes no lock."""
        return self._sessions.get(session_id).controls

    # -- outputs

    def poll_outputs(self, session_id: str) -> list[StreamingOutput]:
        """Remove and return all readable outputs, in order. Never blocks."""
        session = self._sessions.get(session_id)
        with self._dispatcher as scheduler:
            return scheduler.read_outputs(session, len(session.outputs))

    def outputs(self, session_id: str) -> AsyncIterator[StreamingOutput]:
        """Iterate over the outputs until the session ends or has emitted its final sequence.

        Each output goes to one reader. If the session fails, its error is raised after the last output.
        """
        return self._outputs(self._sessions.get(session_id))

    async def _outputs(self, session: StreamingSession) -> AsyncIterator[StreamingOutput]:
        while True:
            with self._dispatcher as scheduler:
                found = scheduler.read_outputs(session, 1)
                if not found:
                    if session.finished or session.status is not RUNNING:
                        break
                    waiter = enlist(session.output_line)
            if found:
                yield found[0]
            else:
                await self._await_wakeup(waiter, session.output_line)
        session.raise_error()

    async def _await_wakeup(self, waiter: Waiter, line: deque[Waiter]) -> None:
        """Wait until the scheduler wakes this waiter.

        A task whose loop was closed is not cancelled: the garbage collector destroys it, possibly while this thread
        holds the scheduling lock. Its waiter is then left in the line, and skipped when it is woken.
        """
        try:
            await waiter[1]
        except asyncio.CancelledError:
            with self._dispatcher:
                if waiter in line:
                    line.remove(waiter)
            raise

    # -- state and metrics

    def status(self, session_id: str) -> StreamingSessionStatus:
        """The state of the session."""
        return self._sessions.get(session_id).status

    def error(self, session_id: str) -> BaseException | None:
        """The exception that the session has failed with; ``None`` if it has not."""
        return self._sessions.get(session_id).error

    def cleanup_error(self, session_id: str) -> BaseException | None:
        """Why the session could not be released entirely; ``None`` if it could, or is not yet."""
        return self._sessions.get(session_id).cleanup_error

    def artifact_stats(self, session_id: str) -> StreamingArtifactStats:
        """The artifacts that the session holds now."""
        session = self._sessions.get(session_id)
        with self._dispatcher:
            return session.artifact_stats()

    def resource_group_usage(self, name: str) -> int:
        """Invocations that use a resource group now. ``KeyError`` for an unknown group."""
        return self._scheduler.groups[name].in_use

    def diagnostics(self) -> StreamingSchedulerDiagnostics:
        """Counters of irregularities."""
        return self._scheduler.counts.snapshot()

    def stage_timings(self, session_id: str, stage_id: str) -> tuple[StreamingStageTiming, ...]:
        """The newest sequences of a session at a stage. ``KeyError`` for an unknown stage."""
        progress = self._sessions.get(session_id).stages[self._graph.index[stage_id]]
        return progress.record.timings(stage_id)

    def stage_idle_intervals(self, session_id: str, stage_id: str) -> tuple[StreamingStageIdleInterval, ...]:
        """The idle intervals of a stage between the newest sequences. ``KeyError`` for an unknown stage."""
        progress = self._sessions.get(session_id).stages[self._graph.index[stage_id]]
        return progress.record.idle_intervals(stage_id, progress.table.queued)

    def session_metrics(self, session_id: str) -> StreamingSessionMetrics:
        """Latencies and periods of the session. Takes no lock."""
        return self._sessions.get(session_id).record.snapshot()

    def snapshot(self, chunk_duration_s: float) -> PipelineSnapshot:
        """All sessions since the orchestrator was built; a chunk plays for ``chunk_duration_s``. Takes no lock."""
        sessions = self._sessions.all()
        stages = {}
        for index, queue in enumerate(self._scheduler.queues):
            waiting = sum(len(session.stages[index].ready) for session in sessions)
            stages[queue.table.spec.stage_id] = queue.statistics.snapshot(
                queue.table.queued, waiting, len(queue.lane.works)
            )
        return pipeline_snapshot(stages, self._scheduler.totals, chunk_duration_s)

    def session_snapshot(self, session_id: str, chunk_duration_s: float) -> PipelineSnapshot:
        """The newest chunks of one session; the counters are of all its chunks. Takes no lock."""
        session = self._sessions.get(session_id)
        stages = {}
        for progress in session.stages:
            statistics = StageStatistics()
            statistics.admitted = progress.taken
            for span in progress.record.rows():
                statistics.add(array("q", span))
            table = progress.table
            statistics.completed = progress.completed
            stages[table.spec.stage_id] = statistics.snapshot(table.queued, len(progress.ready), progress.in_flight)
        return pipeline_snapshot(stages, session.record, chunk_duration_s)

    def stage_spans(self, session_id: str) -> dict[str, tuple[StageSpanNs, ...]]:
        """The newest sequences of a session at each stage, in nanoseconds. Takes no lock."""
        session = self._sessions.get(session_id)
        return {progress.table.spec.stage_id: tuple(progress.record.spans()) for progress in session.stages}

    def actor_health(self, stage_id: str) -> StreamingActorHealth:
        """The state of the actor of a stage. ``KeyError`` for an unknown stage."""
        return self._actors.lanes[self._graph.index[stage_id]].actor.health()

    def health(self) -> StreamingPipelineHealth:
        """The state of the pipeline."""
        return StreamingPipelineHealth(self._closed, len(self._sessions), self._actors.health())

    def barrier(self, timeout: float = 5.0) -> None:
        """Return when every actor has completed what it has been given so far.

        Raises:
            TimeoutError: after ``timeout`` seconds.
        """
        deadline = Deadline(timeout)
        for lane in tuple(self._actors.lanes):
            lane.actor.barrier(deadline.remaining())

    def wait_until_idle(self, session_id: str, timeout: float = 5.0) -> bool:
        """Wait until nothing of the session runs or could run before inputs are pushed or outputs are read.

        A session that has ended is idle when it is released. Returns false after ``timeout`` seconds.
        """
        session = self._sessions.get(session_id)
        return self._watch(session, lambda: session.idle, Deadline(timeout))

    def close(self, timeout: float = 300.0) -> None:
        """Cancel all sessions, release them and close the actors. Idempotent.

        Raises:
            TimeoutError: a handler or a session closer did not return within ``timeout`` seconds. Everything else is
                closed.
        """
        deadline = Deadline(timeout)
        with self._dispatcher as scheduler:
            self._closed = True
            sessions = self._sessions.all()
            for session in sessions:
                if session.status is RUNNING:
                    scheduler.end_session(session, StreamingSessionStatus.CLOSED, StreamingSessionCloseReason.SHUTDOWN)
        stuck = [repr(session.session_id) for session in sessions if not self._watch_released(session, deadline)]
        late = self._actors.close(deadline.remaining)
        self._releaser.close()
        if stuck or late:
            sessions_left, stages_left = ", ".join(stuck) or "none", ", ".join(late) or "none"
            raise TimeoutError(f"not closed within {timeout} s: sessions {sessions_left}; stages {stages_left}")

    # -- internals

    def _check_not_closed(self) -> None:
        if self._closed:
            raise StreamingSessionError("the pipeline is closed")

    def _try_push(
        self,
        scheduler: Scheduler,
        session: StreamingSession,
        sequence_id: int,
        inputs: Mapping[str, object],
        *,
        in_order: bool,
    ) -> bool:
        check_open(session)
        check_sequence(session, sequence_id, inputs, in_order=in_order)
        if not has_room(session, self._graph, sequence_id, inputs):
            return False
        scheduler.add_inputs(session, sequence_id, inputs)
        return True

    def _end(
        self,
        session: StreamingSession,
        status: StreamingSessionStatus,
        reason: StreamingSessionCloseReason,
        deadline: Deadline,
    ) -> None:
        with self._dispatcher as scheduler:
            if session.status is RUNNING:
                scheduler.end_session(session, status, reason)
        if not self._watch_released(session, deadline):
            raise TimeoutError(f"session {session.session_id!r} was not released within {deadline.timeout} s")
        if session.cleanup_error is not None:
            raise session.cleanup_error

    def _watch_released(self, session: StreamingSession, deadline: Deadline) -> bool:
        return self._watch(session, lambda: session.released, deadline)

    def _watch(self, session: StreamingSession, condition: Callable[[], bool], deadline: Deadline) -> bool:
        """Wait for a condition of a session, which is evaluated under the scheduling lock."""
        changed = threading.Event()
        with self._dispatcher:
            if condition():
                return True
            session.watchers.append(changed)
        try:
            while changed.wait(deadline.remaining()):
                changed.clear()
                with self._dispatcher:
                    if condition():
                        return True
            return condition()
        finally:
            with self._dispatcher:
                session.watchers.remove(changed)

    def _on_released(self, session: StreamingSession, error: BaseException | None) -> None:
        with self._dispatcher as scheduler:
            scheduler.on_released(session, error)
        if session.forget:
            self._forget(session)

    def _forget(self, session: StreamingSession) -> None:
        with self._dispatcher:
            self._sessions.forget(session)

    def _on_actor_failed(self, index: int, lane: ActorLane, error: StreamingActorFailedError) -> None:
        """Fail the sessions of a failed actor, since their state is lost, whether they have work there or not."""
        with self._dispatcher as scheduler:
            self._fail_sessions_of(scheduler, index, lane, error)

    def _on_replaced(self, index: int, lane: ActorLane, error: BaseException) -> None:
        with self._dispatcher as scheduler:
            old = scheduler.queues[index].lane
            scheduler.replace_lane(index, lane, error)
            self._fail_sessions_of(scheduler, index, old, error)

    def _fail_sessions_of(self, scheduler: Scheduler, index: int, lane: ActorLane, error: BaseException) -> None:
        for session in self._sessions.all():
            if session.status is RUNNING and session.lanes[index] is lane:
                scheduler.end_session(session, StreamingSessionStatus.FAILED, StreamingSessionCloseReason.FAILED, error)
