"""The serve loop of a pipeline: Level 2 of the engine contract."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from ..clock import MONOTONIC, NS_PER_S, Clock, Deadlines
from ..contract import EngineManifest
from ..errors import describe, reason_of
from ..inbox import Inbox
from ..loglimit import LogLimiter
from ..membership import MAX_CONSECUTIVE_FAILURES, Membership, Pending
from ..messages import Action, Attach, Attached, Chunk, Finished, InboxMsg, RejectionCode, ResetDone
from ..monitor import PipelineSnapshot, ServeMonitor, StageSpan
from ..outbox import Outbox
from ..values import snapshot
from .errors import StreamingError, StreamingSessionError, UnknownSessionError
from .metrics import NEVER
from .orchestrator import StreamingPipelineOrchestrator
from .rollout import FinishedChunk, Ports, Rollout, SessionInput

logger = logging.getLogger(__name__)

_RELEASE_TIMEOUT_S = 5.0
_DRAIN_TIMEOUT_S = 10.0

T = TypeVar("T")


@dataclass(frozen=True)
class RolloutCallbacks:
    """What a session reports of its rollout, on the event loop.

    Attributes:
        on_chunk: a chunk came out.
        on_skipped: the author's mapping to inputs raised; the rollout continues.
        on_end: the rollout ended, by an error or after its last chunk (``None``).
    """

    on_chunk: Callable[[ServedSession, FinishedChunk], None]
    on_skipped: Callable[[ServedSession, BaseException], None]
    on_end: Callable[[ServedSession, BaseException | None], None]


@dataclass(frozen=True)
class SessionEnvironment:
    """What all sessions of a server share.

    Attributes:
        pipeline: runs their chunks.
        interval_ns: time between two chunks of a session.
        callbacks: receive their chunks and ends.
        monitor: counts their ticks and overruns.
        clock: time.
    """

    pipeline: StreamingPipelineOrchestrator
    interval_ns: int
    callbacks: RolloutCallbacks
    monitor: ServeMonitor
    clock: Clock = MONOTONIC


class ServedSession:
    """Feeds and reads the rollouts of one session, each with two tasks.

    Args:
        session_id: its id.
        context: what it is attached with.
        identity: its epoch, and the number of its next chunk.
        environment: what it shares with other sessions.

    Attributes:
        context: what it was attached or reset with.
        epoch, seq: of the next chunk.
        active: false while it is paused.
        rollout: set while the session is in the pipeline.
        epoch_begin_seq, rollout_begin_seq: ``seq`` at the begin of the epoch and of the rollout.
        failures_in_row: failures since the newest chunk.
    """

    def __init__(
        self, session_id: str, context: Mapping[str, Any], identity: tuple[int, int], environment: SessionEnvironment
    ) -> None:
        self.session_id = session_id
        self.context = context
        self.epoch, self.seq = identity
        self.active = True
        self.rollout: Rollout | None = None
        self.epoch_begin_seq = self.rollout_begin_seq = self.seq
        self.failures_in_row = 0
        self._pipeline = environment.pipeline
        self._callbacks = environment.callbacks
        self._monitor = environment.monitor
        self._clock = environment.clock
        self._interval_ns = environment.interval_ns
        self._deadlines = Deadlines(self._interval_ns, self._clock.now_ns())
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._feeding: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None

    def run(self, rollout: Rollout, *, restarts: bool = False) -> None:
        """Feed and read a rollout from now on; one that ``restarts`` a failed one keeps its deadlines."""
        self.rollout = rollout
        self.rollout_begin_seq = self.seq
        if restarts:
            self._deadlines.resume(self._clock.now_ns())
        else:
            self._deadlines = Deadlines(self._interval_ns, self._clock.now_ns())
        self._feeding = asyncio.create_task(self._feed(rollout))
        self._reading = asyncio.create_task(self._read(rollout))

    async def stop_feeding(self) -> None:
        """Request no more chunks; those in flight still come out."""
        await _cancelled(self._feeding)

    async def stop(self) -> None:
        """Request and report no more chunks."""
        await _cancelled(self._feeding, self._reading)
        self._feeding = self._reading = None

    async def read_to_end(self, timeout_s: float) -> None:
        """Return when the rollout, which takes no more inputs, has been read to its end."""
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=timeout_s)

    def schedule(self) -> None:
        """Request chunks or not, as ``active`` demands."""
        if self.active:
            self._resumed.set()
        else:
            self._resumed.clear()

    async def _feed(self, rollout: Rollout) -> None:
        while not rollout.complete:
            if not self.active:
                await self._resumed.wait()
                self._deadlines.resume(self._clock.now_ns())
            await self._sleep_until(self._deadlines.next_ns)
            if not self.active:
                continue
            try:
                await self._pipeline.push_inputs(self.session_id, *rollout.next_request())
            except StreamingSessionError:  # the session has ended: the reader reports why
                return
            except Exception as error:  # raised by the author's mapping
                self._callbacks.on_skipped(self, error)
            self._monitor.ticks += 1
            self._monitor.overruns += self._deadlines.tick_ended(self._clock.now_ns())

    async def _sleep_until(self, moment_ns: int) -> None:
        await asyncio.sleep((moment_ns - self._clock.now_ns()) / NS_PER_S)

    async def _read(self, rollout: Rollout) -> None:
        try:
            async for output in self._pipeline.outputs(self.session_id):
                chunk = rollout.add_output(output)
                if chunk is not None:
                    self._callbacks.on_chunk(self, chunk)
        except Exception as error:
            self._callbacks.on_end(self, error)
        else:
            self._callbacks.on_end(self, None)


async def _cancelled(*tasks: asyncio.Task[None] | None) -> None:
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


@dataclass(frozen=True)
class _RolloutEnded:
    """A rollout ended in the pipeline: by an error, or after its last chunk."""

    session_id: str
    session: ServedSession
    rollout: Rollout
    error: BaseException | None


class PipelineServer(Membership[ServedSession]):
    """Applies messages from the inbox as they arrive.

    Operations that may take time (attach, reset, detach, the restart after a failure) run as a task of their session.
    Later messages to that session wait for the task; other sessions are not delayed.

    Args:
        pipeline: runs the chunks.
        ports: inputs, controls and outputs of the pipeline.
        manifest: capacity and rate.
        inbox: messages to apply.
        outbox: receives chunks and events.
        monitor: counters to update.
        max_chunks: chunks after which an epoch of a session finishes; ``None``: no limit.
        clock: time.
    """

    def __init__(
        self,
        pipeline: StreamingPipelineOrchestrator,
        ports: Ports,
        manifest: EngineManifest,
        inbox: Inbox,
        outbox: Outbox,
        *,
        monitor: ServeMonitor,
        max_chunks: int | None = None,
        clock: Clock = MONOTONIC,
    ) -> None:
        super().__init__(outbox, monitor)
        self._pipeline = pipeline
        self._ports = ports
        self._manifest = manifest
        self._inbox = inbox
        self._max_chunks = max_chunks
        self._clock = clock
        callbacks = RolloutCallbacks(self._on_chunk, self._on_skipped, self._on_rollout_end)
        interval_ns = round(NS_PER_S / manifest.rate_hz)
        self._environment = SessionEnvironment(pipeline, interval_ns, callbacks, monitor, clock)
        self._log = LogLimiter(logger, clock)
        self._queues: dict[str, deque[tuple[int, InboxMsg | _RolloutEnded]]] = {}  # of sessions with a running task
        self._tasks: set[asyncio.Task[None]] = set()
        self._unreleased: set[str] = set()  # detached, but a stage still holds their state
        self._pool = ThreadPoolExecutor(manifest.max_sessions, "streaming-serve")  # a session has one call at a time
        self._ended = asyncio.Event()
        self._stop = asyncio.Event()
        self._handlers[_RolloutEnded] = self._rollout_ended
        monitor.pipeline = ServedPipelineMonitor(pipeline, self.sessions, 1 / manifest.rate_hz)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop``, or until the outbox is closed by its reader; then end all sessions."""
        self._stop = stop
        watched = [asyncio.ensure_future(task) for task in (stop.wait(), self._ended.wait(), self._receive())]
        try:
            done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in watched:
                task.cancel()
            await self._shut_down()
            self._pool.shutdown(wait=False)
            self._log.flush()

    @property
    def stopping(self) -> bool:
        """Whether the server ends."""
        return self._stop.is_set() or self._ended.is_set()

    def on_outbox_closed(self) -> None:
        """End the server."""
        self._ended.set()

    async def _receive(self) -> None:
        while True:
            await self._inbox.wait()
            self._apply_inbox()

    def _apply_inbox(self) -> None:
        for received_ns, msg in self._inbox.drain_stamped():
            self._dispatch(msg, received_ns)

    async def _shut_down(self) -> None:
        self._ended.set()
        self._apply_inbox()
        while self._tasks:
            await asyncio.gather(*self._tasks)
        await asyncio.gather(*(self._end(session, None) for session in list(self.sessions.values())))

    # -- messages, in order for each session

    def _dispatch(self, msg: InboxMsg | _RolloutEnded, received_ns: int) -> None:
        queue = self._queues.get(msg.session_id)
        if queue is not None:
            queue.append((received_ns, msg))
            return
        pending = self._handlers[type(msg)](msg, received_ns)
        if pending is not None:
            self._queues[msg.session_id] = deque()
            task = asyncio.create_task(self._work(msg.session_id, pending))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self, session_id: str, pending: Pending) -> None:
        queue = self._queues[session_id]
        while True:
            if pending is not None:
                await pending
            if not queue:
                del self._queues[session_id]
                return
            received_ns, msg = queue.popleft()
            pending = self._handlers[type(msg)](msg, received_ns)

    def admit(self, msg: Attach) -> Pending:
        """Create the session in the pipeline, if there is a place, and reply."""
        if len(self.sessions) + self._count_unreleased() >= self._manifest.max_sessions:
            reason = f"all {self._manifest.max_sessions} places are taken"
            self.reject(msg.session_id, RejectionCode.FULL, reason)
            return None
        session = ServedSession(
            msg.session_id, msg.context, self.identities.allocate(msg.session_id), self._environment
        )
        self.sessions[msg.session_id] = session
        return self._admit(session)

    async def _admit(self, session: ServedSession) -> None:
        try:
            rollout = await self._new_rollout(session, self._fresh_input(session.context))
        except Exception as error:
            session.epoch -= 1
            self.forget(session)
            self._log.error("attach failed", error, session.session_id)
            is_own = isinstance(error, StreamingError)
            code = RejectionCode.FULL if is_own else RejectionCode.of(error)
            self.reject(session.session_id, code, reason_of(error) if is_own else describe(error))
        else:
            self.reply(session, Attached(session.session_id, epoch=session.epoch))
            session.run(rollout)

    def restart(self, session: ServedSession, context: Mapping[str, Any]) -> Pending:
        """Release the session in the pipeline, create it again with this context, and reply."""
        return self._reset_session(session, context)

    async def _reset_session(self, session: ServedSession, context: Mapping[str, Any]) -> None:
        await session.stop()
        self.flush_replies(session)
        error = await self._release(session)
        if error is None:
            begin_seq, session.epoch_begin_seq = session.epoch_begin_seq, session.seq
            try:
                rollout = await self._new_rollout(session, self._fresh_input(context))
            except Exception as failure:
                session.epoch_begin_seq = begin_seq
                error = failure
            else:
                session.context = context
                session.epoch += 1
                session.failures_in_row = 0
                self.reply(session, ResetDone(session.session_id, epoch=session.epoch))
                session.run(rollout)
                return
        self._log.error("reset failed", error, session.session_id)
        self.forget(session)
        self.ended(session, error)

    def apply(self, session: ServedSession, msg: Action, received_ns: int) -> Pending:
        """Apply an action to the controls and to the requests that are read from now on."""
        if session.rollout is None:
            return None
        try:
            session.rollout.apply(msg.conditioning, tuple(msg.events), msg.action_id, received_ns)
        except StreamingSessionError:  # the session has just failed, which its reader reports
            return None
        except Exception as error:  # raised by the author's mapping: the action is dropped
            self._on_skipped(session, error)
        return None

    def schedule(self, session: ServedSession) -> None:
        """Request chunks or not, as ``session.active`` demands."""
        session.schedule()

    def steps_in_flight(self, session: ServedSession) -> int:
        """Chunks that were requested and are still to come out."""
        return 0 if session.rollout is None else session.rollout.in_flight

    def end(self, session: ServedSession, error: BaseException | None = None) -> Pending:
        """Release a session and report its end; drain it first, if that is the policy of the pipeline."""
        return self._end(session, error, drain=error is None and self._pipeline.spec.on_detach == "drain")

    async def _end(self, session: ServedSession, error: BaseException | None, *, drain: bool = False) -> None:
        """Release a session and report its end."""
        if drain and not self.stopping:
            await self._drain(session)
        await session.stop()
        self.flush_replies(session)
        released = await self._release(session)
        self.forget(session)
        self.ended(session, error or released)

    # -- rollouts

    def _fresh_input(self, context: Mapping[str, Any]) -> SessionInput:
        return SessionInput(snapshot(context), self._clock)

    async def _new_rollout(self, session: ServedSession, session_input: SessionInput) -> Rollout:
        """On a thread, because a stage may have to be restarted for it."""
        final = None
        if self._max_chunks is not None:
            final = self._max_chunks - (session.seq - session.epoch_begin_seq) - 1
        return await self._call(Rollout, self._pipeline, self._ports, session.session_id, session_input, final)

    def _on_chunk(self, session: ServedSession, chunk: FinishedChunk) -> None:
        stamps, monitor = chunk.stamps._replace(emitted=self._clock.now_ns()), self.monitor
        session.failures_in_row = 0
        monitor.chunks += 1
        monitor.step.record(stamps.step_end - stamps.step_begin)
        if chunk.shows_new_action and stamps.action_received is not None:
            monitor.input_to_step.record(stamps.step_begin - stamps.action_received)
        sent = Chunk(
            session.session_id,
            chunk.output,
            seq=session.seq,
            epoch=session.epoch,
            action_id=chunk.action_id,
            stamps=stamps,
        )
        session.seq += 1
        self.put((sent, *self.replies.on_step(session.session_id)))

    def _on_skipped(self, session: ServedSession, error: BaseException) -> None:
        """Report that an author's mapping raised; the rollout continues, unless this was one failure too many."""
        self._log.error("a session failed", error, session.session_id)
        session.failures_in_row += 1
        if session.failures_in_row < MAX_CONSECUTIVE_FAILURES:
            self.failed(session, error)
        else:
            self._on_rollout_end(session, error)

    def _on_rollout_end(self, session: ServedSession, error: BaseException | None) -> None:
        if session.rollout is not None:
            ended = _RolloutEnded(session.session_id, session, session.rollout, error)
            self._dispatch(ended, self._clock.now_ns())

    def _rollout_ended(self, msg: _RolloutEnded, received_ns: int) -> Pending:
        session, error = self.sessions.get(msg.session_id), msg.error
        if session is not msg.session or session.rollout is not msg.rollout or self.stopping:
            return None  # it was reset or detached before
        if error is None and msg.rollout.ended:
            self.flush_replies(session)
            self.reply(session, Finished(session.session_id, epoch=session.epoch))
            return None
        error = error or RuntimeError("the pipeline has ended the session")
        if session.failures_in_row >= MAX_CONSECUTIVE_FAILURES:
            return self._end(session, error)
        self._log.error("a session failed", error, session.session_id)
        session.failures_in_row += 1
        if session.failures_in_row >= MAX_CONSECUTIVE_FAILURES:
            return self._end(session, error)
        return self._restart_failed(session, msg.rollout, error)

    async def _restart_failed(self, session: ServedSession, failed: Rollout, error: BaseException) -> None:
        """Seed the session again with its context; its conditioning, epoch and ``seq`` continue."""
        await session.stop()
        self.flush_replies(session)
        self.failed(session, error)
        obstacle = await self._release(session)
        if obstacle is None:
            try:
                session.run(await self._new_rollout(session, failed.input), restarts=True)
                return
            except Exception as failure:
                obstacle = failure
        self._log.error("restarting a failed session failed", obstacle, session.session_id)
        self.forget(session)
        self.ended(session, obstacle)

    async def _drain(self, session: ServedSession) -> None:
        """Deliver the chunks in flight."""
        await session.stop_feeding()
        try:
            await self._call(self._pipeline.drain_session, session.session_id, _DRAIN_TIMEOUT_S)
        except UnknownSessionError:
            return
        except Exception as error:  # it is cancelled instead
            self._log.error("a session could not be drained", error, session.session_id)
        else:
            await session.read_to_end(_DRAIN_TIMEOUT_S)

    async def _release(self, session: ServedSession) -> BaseException | None:
        """Release a session in the stages; returns the error of a stage that does not. A stuck one does so later."""
        session.rollout = None
        try:
            await self._call(self._pipeline.close_session, session.session_id, _RELEASE_TIMEOUT_S)
        except UnknownSessionError:
            return None
        except Exception as error:
            self._log.error("a session could not be released", error, session.session_id)
            self._unreleased.add(session.session_id)
            return error
        return None

    async def _call(self, function: Callable[..., T], *args: object) -> T:
        """Call a function on a thread of this server; those of the event loop are few and shared."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *args)

    def _count_unreleased(self) -> int:
        for session_id in list(self._unreleased):
            try:
                self._pipeline.status(session_id)
            except UnknownSessionError:
                self._unreleased.discard(session_id)
        return len(self._unreleased)


class ServedPipelineMonitor:
    """The stage statistics of a served pipeline; a :class:`~realtime_engine.core.monitor.PipelineMonitor`."""

    def __init__(
        self,
        pipeline: StreamingPipelineOrchestrator,
        sessions: Mapping[str, ServedSession],
        chunk_duration_s: float,
    ) -> None:
        self._pipeline = pipeline
        self._sessions = sessions
        self._chunk_duration_s = chunk_duration_s

    def snapshot(self) -> PipelineSnapshot:
        """All sessions since serving began."""
        return self._pipeline.snapshot(self._chunk_duration_s)

    def session_snapshot(self, session_id: str) -> PipelineSnapshot | None:
        """The newest chunks of one session; ``None`` if it is not in the pipeline."""
        try:
            return self._pipeline.session_snapshot(session_id, self._chunk_duration_s)
        except UnknownSessionError:
            return None

    def session_spans(self, session_id: str, since_ns: int) -> Sequence[StageSpan]:
        """The stages' work for a session, for chunks whose inputs were ready at ``since_ns`` or later."""
        session = self._sessions.get(session_id)
        if session is None:
            return ()
        epoch, begin_seq = session.epoch, session.rollout_begin_seq
        try:
            stages = self._pipeline.stage_spans(session_id)
        except UnknownSessionError:
            return ()
        return tuple(
            StageSpan(
                stage_id,
                epoch,
                begin_seq + span.sequence_id,
                span.ready_ns,
                *(None if at_ns == NEVER else at_ns for at_ns in (span.admitted_ns, span.begun_ns, span.completed_ns)),
            )
            for stage_id, spans in stages.items()
            for span in spans
            if span.ready_ns >= since_ns
        )
