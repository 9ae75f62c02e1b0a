"""The public face of the streaming scheduler."""

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
from .controls import SessionControls
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

    A session takes sequences 0, 1, 2, ..., one input at a time also in any order; its outputs come in order. It ends
    when a stage fails, and its state in the stages is then released in the background. Otherwise ``drain_session``
    ends it (what was accepted is still made), ``cancel_session`` (what waits is dropped) or ``close_session`` (the
    same, and the id is unknown afterwards). Outputs that were ready stay readable until ``close_session``, or until
    the id is used again.

    Args:
        spec: the graph.
        actors: stage id -> its actor, or a function without arguments that makes one. A stage with such a function
            gets a new actor when its own is found dead as a session is created. Closing closes all of them.
        clock: for stamps and metrics.
        metrics_window: how many of the newest chunks of a session the metrics cover.
        cleanup_timeout: seconds that one stage may take to release one session.

    Raises:
        ValueError: naming what is wrong with the graph or the actors.
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
        """Begin a session; returns its epoch, which is greater than that of any session before.

        Raises:
            SessionActiveError: the id is in use, or its last session is not released.
            StreamingActorFailedError: a stage has no living actor.
            StreamingSessionError: the pipeline is closed.
        """
        check_name("session_id", session_id)
        self._check_not_closed()
        self._actors.revive(self._on_replaced)
        with self._dispatcher as scheduler:
            self._check_not_closed()
            lanes = tuple(desk.lane for desk in scheduler.desks)
            return self._sessions.add(session_id, lanes, final_sequence_id).context.session_epoch

    def finish_inputs(self, session_id: str, final_sequence_id: int) -> None:
        """Say which sequence is the last. Inputs up to it are still taken.

        Raises:
            SequenceError: a later one was accepted, another was named before, or a stage has been handed this one
                already and cannot be told any more that it is the last.
            SessionEndedError: the session has ended.
        """
        session = self._sessions.get(session_id)
        with self._dispatcher:
            check_open(session)
            if check_final(session, final_sequence_id):
                session.final = final_sequence_id

    def drain_session(self, session_id: str, timeout: float = 5.0) -> None:
        """Take nothing more, make everything that was accepted, and release the session; its outputs stay readable.

        An unread output may hold its stage up: somebody has to read meanwhile. A sequence that lacks an input is
        dropped. A session that has ended already is only waited for.

        Raises:
            TimeoutError: after ``timeout`` seconds; the session goes on draining.
            StreamingCleanupError: a stage could not release it.
            Exception: what the session has failed with, so that not everything was made.
        """
        session, deadline = self._sessions.get(session_id), Deadline(timeout)
        with self._dispatcher as scheduler:
            if session.status is RUNNING and not session.draining:
                scheduler.drain(session)
        if not self._watch(session, lambda: session.finished or session.status is not RUNNING, deadline):
            raise TimeoutError(f"session {session_id!r} was not drained within {timeout} s")
        self._end(session, StreamingSessionStatus.CLOSED, StreamingSessionCloseReason.CLOSED, deadline)
        session.raise_error()

    def cancel_session(self, session_id: str, timeout: float = 5.0) -> None:
        """Drop what waits, and release the session when its work in progress is over; its outputs stay readable.

        Raises:
            TimeoutError: after ``timeout`` seconds; the rest happens in the background.
            StreamingCleanupError: a stage could not release it.
        """
        session, deadline = self._sessions.get(session_id), Deadline(timeout)
        self._end(session, StreamingSessionStatus.CANCELLED, StreamingSessionCloseReason.CANCELLED, deadline)

    def close_session(self, session_id: str, timeout: float = 5.0) -> None:
        """Like :meth:`cancel_session`, and then the session is unknown. Drain it first to lose nothing.

        Raises:
            TimeoutError: after ``timeout`` seconds; the rest happens in the background.
            StreamingCleanupError: a stage could not release it. The session stays known, and its id is not used again.
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
            SessionEndedError: the session takes nothing more.
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
        """Push inputs of a sequence, all or none; false when there is no room now.

        Args:
            in_order: refuse a sequence that leaves a gap.

        Raises:
            SequenceError: these inputs were pushed before, are past the final sequence, or leave a gap.
            SessionEndedError: the session takes nothing more.
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
            await self._await_turn(waiter, session.push_line)

    def can_push_input(self, session_id: str, artifact: str) -> bool:
        """Whether the next sequence of an input would be taken now."""
        return self.can_push_inputs(session_id, (artifact,))

    def can_push_inputs(self, session_id: str, artifacts: Iterable[str]) -> bool:
        """Whether the next sequence of all these inputs would be taken now."""
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
        """Give the newest value of a control, for every invocation that begins from now on. Never waits.

        Returns its version, from 1: outputs tell in ``controls`` which they were made with.

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

    def session_controls(self, session_id: str) -> SessionControls:
        """The controls of a session, to sample them outside a stage. Takes no lock."""
        return self._sessions.get(session_id).controls

    # -- outputs

    def poll_outputs(self, session_id: str) -> list[StreamingOutput]:
        """All outputs that are ready, in order: ``(sequence_id, artifact, value)`` each. Never waits."""
        session = self._sessions.get(session_id)
        with self._dispatcher as scheduler:
            return scheduler.read(session, len(session.outputs))

    def outputs(self, session_id: str) -> AsyncIterator[StreamingOutput]:
        """The outputs as they come, until the session has ended or made its final sequence.

        Every output goes to one reader. When the session has failed, its error is raised after the last output.
        """
        return self._outputs(self._sessions.get(session_id))

    async def _outputs(self, session: StreamingSession) -> AsyncIterator[StreamingOutput]:
        while True:
            with self._dispatcher as scheduler:
                found = scheduler.read(session, 1)
                if not found:
                    if session.finished or session.status is not RUNNING:
                        break
                    waiter = enlist(session.output_line)
            if found:
                yield found[0]
            else:
                await self._await_turn(waiter, session.output_line)
        session.raise_error()

    async def _await_turn(self, waiter: Waiter, line: deque[Waiter]) -> None:
        """Wait to be woken.

        A task whose loop was closed is not cancelled but thrown away, by the garbage collector, which may run while
        this very thread holds the scheduling lock: its waiter stays in line until the next that is woken.
        """
        try:
            await waiter[1]
        except asyncio.CancelledError:
            with self._dispatcher:
                if waiter in line:
                    line.remove(waiter)
            raise

    # -- looking

    def status(self, session_id: str) -> StreamingSessionStatus:
        """Where the session is in its life."""
        return self._sessions.get(session_id).status

    def error(self, session_id: str) -> BaseException | None:
        """Why the session has failed."""
        return self._sessions.get(session_id).error

    def cleanup_error(self, session_id: str) -> BaseException | None:
        """Why the session could not be released entirely."""
        return self._sessions.get(session_id).cleanup_error

    def artifact_stats(self, session_id: str) -> StreamingArtifactStats:
        """What the session holds now."""
        session = self._sessions.get(session_id)
        with self._dispatcher:
            return session.artifact_stats()

    def resource_group_usage(self, name: str) -> int:
        """How many invocations a group runs now. ``KeyError`` for an unknown group."""
        return self._scheduler.groups[name].in_use

    def diagnostics(self) -> StreamingSchedulerDiagnostics:
        """Things that should not happen, counted."""
        return self._scheduler.counts.snapshot()

    def stage_timings(self, session_id: str, stage_id: str) -> tuple[StreamingStageTiming, ...]:
        """The newest sequences of a session at a stage. ``KeyError`` for an unknown stage."""
        progress = self._sessions.get(session_id).stages[self._graph.index[stage_id]]
        return progress.record.timings(stage_id)

    def stage_idle_intervals(self, session_id: str, stage_id: str) -> tuple[StreamingStageIdleInterval, ...]:
        """How long a stage had nothing of a session, and why. ``KeyError`` for an unknown stage."""
        progress = self._sessions.get(session_id).stages[self._graph.index[stage_id]]
        return progress.record.idle_intervals(stage_id, progress.table.queued)

    def session_metrics(self, session_id: str) -> StreamingSessionMetrics:
        """How the session does. Takes no lock."""
        return self._sessions.get(session_id).record.snapshot()

    def snapshot(self, chunk_duration_s: float) -> PipelineSnapshot:
        """All sessions since the orchestrator was built; a chunk plays for ``chunk_duration_s``. Takes no lock."""
        sessions = self._sessions.all()
        stages = {}
        for index, desk in enumerate(self._scheduler.desks):
            waiting = sum(len(session.stages[index].ready) for session in sessions)
            stages[desk.table.spec.stage_id] = desk.statistics.snapshot(
                desk.table.queued, waiting, len(desk.lane.works)
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
        """How a stage's actor is. ``KeyError`` for an unknown stage."""
        return self._actors.lanes[self._graph.index[stage_id]].actor.health()

    def health(self) -> StreamingPipelineHealth:
        """How the pipeline is."""
        return StreamingPipelineHealth(self._closed, len(self._sessions), self._actors.health())

    def barrier(self, timeout: float = 5.0) -> None:
        """Return when every actor has answered what it has been given so far. ``TimeoutError`` after ``timeout`` s."""
        deadline = Deadline(timeout)
        for lane in tuple(self._actors.lanes):
            lane.actor.barrier(deadline.remaining())

    def wait_until_idle(self, session_id: str, timeout: float = 5.0) -> bool:
        """Wait until nothing of the session runs or could run: it needs inputs, or its outputs to be read.

        One that has ended is idle when it is released. False after ``timeout`` seconds.
        """
        session = self._sessions.get(session_id)
        return self._watch(session, lambda: session.idle, Deadline(timeout))

    def close(self, timeout: float = 300.0) -> None:
        """Cancel all sessions, release them and close the actors. May be called again.

        Raises:
            TimeoutError: a handler or a closer did not return within ``timeout`` seconds. What can be closed is.
        """
        deadline = Deadline(timeout)
        with self._dispatcher as scheduler:
            self._closed = True
            sessions = self._sessions.all()
            for session in sessions:
                if session.status is RUNNING:
                    scheduler.end(session, StreamingSessionStatus.CLOSED, StreamingSessionCloseReason.SHUTDOWN)
        stuck = [repr(session.session_id) for session in sessions if not self._watch_released(session, deadline)]
        late = self._actors.close(deadline.remaining)
        self._releaser.close()
        if stuck or late:
            sessions_left, stages_left = ", ".join(stuck) or "none", ", ".join(late) or "none"
            raise TimeoutError(f"not closed within {timeout} s: sessions {sessions_left}; stages {stages_left}")

    # -- steps

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
        scheduler.accept(session, sequence_id, inputs)
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
                scheduler.end(session, status, reason)
        if not self._watch_released(session, deadline):
            raise TimeoutError(f"session {session.session_id!r} was not released within {deadline.timeout} s")
        if session.cleanup_error is not None:
            raise session.cleanup_error

    def _watch_released(self, session: StreamingSession, deadline: Deadline) -> bool:
        return self._watch(session, lambda: session.released, deadline)

    def _watch(self, session: StreamingSession, condition: Callable[[], bool], deadline: Deadline) -> bool:
        """Wait for something about a session that the scheduling lock guards."""
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
            scheduler.released(session, error)
        if session.forget:
            self._forget(session)

    def _forget(self, session: StreamingSession) -> None:
        with self._dispatcher:
            self._sessions.forget(session)

    def _on_actor_failed(self, index: int, lane: ActorLane, error: StreamingActorFailedError) -> None:
        """The state of its sessions is lost: they fail now, whether they have work there or not."""
        with self._dispatcher as scheduler:
            self._fail_sessions_of(scheduler, index, lane, error)

    def _on_replaced(self, index: int, lane: ActorLane, error: BaseException) -> None:
        with self._dispatcher as scheduler:
            old = scheduler.desks[index].lane
            scheduler.replace(index, lane, error)
            self._fail_sessions_of(scheduler, index, old, error)

    def _fail_sessions_of(self, scheduler: Scheduler, index: int, lane: ActorLane, error: BaseException) -> None:
        for session in self._sessions.all():
            if session.status is RUNNING and session.lanes[index] is lane:
                scheduler.end(session, StreamingSessionStatus.FAILED, StreamingSessionCloseReason.FAILED, error)
