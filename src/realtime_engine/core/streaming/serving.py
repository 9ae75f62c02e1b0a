"""The loop that serves sessions on a pipeline: Level 2 of the engine contract."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from ..clock import MONOTONIC, NS_PER_S, Deadlines
from ..contract import EngineManifest
from ..errors import OutboxClosed, describe, reason_of
from ..inbox import Inbox
from ..loglimit import LogLimiter
from ..messages import (
    Action,
    ActiveChanged,
    Attach,
    Attached,
    Chunk,
    Detach,
    Detached,
    Failed,
    InboxMsg,
    Rejected,
    Reset,
    ResetDone,
    SessionEvent,
    SetActive,
)
from ..outbox import Outbox, OutboxItem
from ..session import Identities
from ..values import snapshot
from .epoch import Ports, SessionEpoch
from .errors import StreamingError, UnknownSessionError
from .orchestrator import StreamingPipelineOrchestrator
from .types import StreamingOutput


class ServedSession:
    """Feeds and reads one session, as two tasks that live as long as its epoch.

    Attributes:
        context: what its last epoch began with.
        epoch, seq: of the next chunk.
        active: whether new chunks are asked for.
    """

    def __init__(
        self,
        pipeline: StreamingPipelineOrchestrator,
        session_id: str,
        identity: tuple[int, int],
        rate_hz: float,
        put: Callable[[OutboxItem], None],
        broken: Callable[[ServedSession, BaseException], None],
    ) -> None:
        self.session_id = session_id
        self.context: Mapping[str, Any] = {}
        self.epoch, self.seq = identity
        self.active = True
        self.life: SessionEpoch | None = None
        self._pipeline = pipeline
        self._interval_ns = round(NS_PER_S / rate_hz)
        self._put = put
        self._broken = broken
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._held: list[SessionEvent] = []  # a pause, and answers after it, that wait for the chunks in flight
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    def begin(self, life: SessionEpoch, context: Mapping[str, Any]) -> None:
        """Feed and read this life from now on."""
        self.life, self.context = life, context
        self._tasks = (asyncio.create_task(self._feed(life)), asyncio.create_task(self._read(life)))

    async def end(self) -> None:
        """No more chunks; answers that waited for some are given."""
        tasks, self._tasks = self._tasks, ()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.life = None
        self._let_out()

    def set_active(self, active: bool) -> None:
        """Pause, answered when the chunks in flight are out, or resume."""
        self.active = active
        if active:
            self._let_out()
            self._resumed.set()
        else:
            self._resumed.clear()
        answer = ActiveChanged(self.session_id, active, epoch=self.epoch)
        if not active and (self._held or (self.life is not None and self.life.in_flight)):
            self._held.append(answer)
        else:
            self._put(answer)

    def answer(self, event: SessionEvent) -> None:
        """Send an answer, never before an older one."""
        if self._held:
            self._held.append(event)
        else:
            self._put(event)

    def _let_out(self) -> None:
        held, self._held = self._held, []
        for event in held:
            self._put(event)

    async def _feed(self, life: SessionEpoch) -> None:
        deadlines = Deadlines(self._interval_ns, MONOTONIC.now_ns())
        try:
            while True:
                if not self.active:
                    await self._resumed.wait()
                    deadlines.resume(MONOTONIC.now_ns())
                await self._sleep_until(deadlines.next_ns)
                if not self.active:
                    continue
                await self._pipeline.push_inputs(self.session_id, *life.next_request())
                deadlines.tick_ended(MONOTONIC.now_ns())
        except Exception as error:  # the session is over; if a stage failed it, the reader says so
            if self._pipeline.error(self.session_id) is None:
                self._broken(self, error)

    async def _sleep_until(self, moment_ns: int) -> None:
        await asyncio.sleep((moment_ns - MONOTONIC.now_ns()) / NS_PER_S)

    async def _read(self, life: SessionEpoch) -> None:
        try:
            async for output in self._pipeline.outputs(self.session_id):
                self._take(life, output)
        except Exception as error:
            self._broken(self, error)
        else:
            self._broken(self, RuntimeError("its pipeline has ended it"))

    def _take(self, life: SessionEpoch, output: StreamingOutput) -> None:
        made = life.take(output)
        if made is None:
            return
        stamps = made.stamps._replace(emitted=MONOTONIC.now_ns())
        self._put(
            Chunk(self.session_id, made.output, seq=self.seq, epoch=self.epoch, action_id=made.action_id, stamps=stamps)
        )
        self.seq += 1
        if self._held and not life.in_flight:
            self._let_out()


logger = logging.getLogger(__name__)

_RELEASE_TIMEOUT_S = 5.0
_STOPPING = "the engine is stopping"

T = TypeVar("T")
Step: TypeAlias = Coroutine[Any, Any, None]


@dataclass(frozen=True)
class _Broken:
    """A session's pipeline has failed it."""

    session_id: str
    session: ServedSession
    epoch: int
    error: BaseException


class PipelineServer:
    """Applies what the inbox holds, at once.

    Whatever may take time (attach, reset, detach) is a task of its session, behind which that session's next messages
    queue; other sessions go on.
    """

    def __init__(
        self,
        pipeline: StreamingPipelineOrchestrator,
        ports: Ports,
        manifest: EngineManifest,
        inbox: Inbox,
        outbox: Outbox,
    ) -> None:
        self._pipeline = pipeline
        self._ports = ports
        self._manifest = manifest
        self._inbox = inbox
        self._outbox = outbox
        self._log = LogLimiter(logger, MONOTONIC)
        self._sessions: dict[str, ServedSession] = {}
        self._lines: dict[str, deque[tuple[int, InboxMsg | _Broken]]] = {}  # of sessions that a task works on
        self._tasks: set[asyncio.Task[None]] = set()
        self._stuck: set[str] = set()  # over for their caller; a stage has not let go of them
        self._identities = Identities()
        self._pool = ThreadPoolExecutor(manifest.max_sessions, "streaming-serve")  # a session has one step at a time
        self._ended = asyncio.Event()
        self._stop = asyncio.Event()
        self._handlers: dict[type, Callable[[Any, int], Step | None]] = {
            Attach: self._attach,
            Detach: self._detach,
            Reset: self._reset,
            Action: self._action,
            SetActive: self._set_active,
            _Broken: self._break,
        }

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
    def _stopping(self) -> bool:
        return self._stop.is_set() or self._ended.is_set()

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
        await asyncio.gather(*(self._end(session) for session in list(self._sessions.values())))

    # -- messages, each session's in order

    def _dispatch(self, msg: InboxMsg | _Broken, received_ns: int) -> None:
        line = self._lines.get(msg.session_id)
        if line is not None:
            line.append((received_ns, msg))
            return
        step = self._handlers[type(msg)](msg, received_ns)
        if step is not None:
            self._lines[msg.session_id] = deque()
            task = asyncio.create_task(self._work(msg.session_id, step))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self, session_id: str, step: Step | None) -> None:
        line = self._lines[session_id]
        while True:
            if step is not None:
                await step
            if not line:
                del self._lines[session_id]
                return
            received_ns, msg = line.popleft()
            step = self._handlers[type(msg)](msg, received_ns)

    def _attach(self, msg: Attach, received_ns: int) -> Step | None:
        session = self._sessions.get(msg.session_id)
        if session is not None:
            session.answer(Attached(msg.session_id, epoch=session.epoch))
        elif self._stopping:
            self._reject(msg.session_id, _STOPPING)
        elif len(self._sessions) + self._count_stuck() >= self._manifest.max_sessions:
            self._reject(msg.session_id, f"all {self._manifest.max_sessions} places are taken")
        else:
            identity = self._identities.allocate(msg.session_id)
            session = ServedSession(
                self._pipeline, msg.session_id, identity, self._manifest.rate_hz, self._put, self._broke
            )
            self._sessions[msg.session_id] = session
            return self._admit(session, msg.context)
        return None

    async def _admit(self, session: ServedSession, context: Mapping[str, Any]) -> None:
        try:
            life = await self._new_life(session.session_id, context)
        except Exception as error:
            self._forget(session, session.epoch - 1)
            self._log.error("attach failed", error, session.session_id)
            self._reject(session.session_id, reason_of(error) if isinstance(error, StreamingError) else describe(error))
        else:
            session.begin(life, context)
            self._put(Attached(session.session_id, epoch=session.epoch))

    async def _new_life(self, session_id: str, context: Mapping[str, Any]) -> SessionEpoch:
        """On a thread, because a stage may have to be restarted for it."""
        return await self._apart(SessionEpoch, self._pipeline, self._ports, session_id, snapshot(context))

    def _detach(self, msg: Detach, received_ns: int) -> Step | None:
        session = self._sessions.get(msg.session_id)
        if session is None:
            self._put(Detached(msg.session_id, epoch=self._identities.last_epoch(msg.session_id)))
            return None
        return self._end(session)

    def _reset(self, msg: Reset, received_ns: int) -> Step | None:
        session = self._sessions.get(msg.session_id)
        if session is None or self._stopping:
            self._reject(msg.session_id, _STOPPING if self._stopping else f"session {msg.session_id!r} is not attached")
            return None
        return self._begin_anew(session, msg.context or session.context)

    async def _begin_anew(self, session: ServedSession, context: Mapping[str, Any]) -> None:
        await session.end()
        error = await self._release(session.session_id)
        if error is None:
            try:
                life = await self._new_life(session.session_id, context)
            except Exception as failure:
                error = failure
            else:
                session.epoch += 1
                self._put(ResetDone(session.session_id, epoch=session.epoch))
                session.begin(life, context)
                return
        self._log.error("reset failed", error, session.session_id)
        self._forget(session, session.epoch)
        self._put(Failed(session.session_id, describe(error), fatal=True, epoch=session.epoch))

    def _action(self, msg: Action, received_ns: int) -> Step | None:
        session = self._sessions.get(msg.session_id)
        if session is None or session.life is None:
            self._reject(msg.session_id, f"session {msg.session_id!r} is not attached")
            return None
        try:
            session.life.apply(msg.conditioning, tuple(msg.events), msg.action_id, received_ns)
        except Exception as error:  # it has just failed, which is told apart, or the author's mapping did
            if self._pipeline.error(msg.session_id) is None:
                return self._end(session, error)
        return None

    def _set_active(self, msg: SetActive, received_ns: int) -> Step | None:
        session = self._sessions.get(msg.session_id)
        if session is None:
            self._reject(msg.session_id, f"session {msg.session_id!r} is not attached")
        else:
            session.set_active(msg.active)
        return None

    # -- ends

    def _broke(self, session: ServedSession, error: BaseException) -> None:
        self._dispatch(_Broken(session.session_id, session, session.epoch, error), MONOTONIC.now_ns())

    def _break(self, msg: _Broken, received_ns: int) -> Step | None:
        session = self._sessions.get(msg.session_id)
        if session is not msg.session or session.epoch != msg.epoch or self._stopping:
            return None  # over already
        self._log.error("a session failed", msg.error, msg.session_id)
        return self._end(session, msg.error)

    async def _end(self, session: ServedSession, because: BaseException | None = None) -> None:
        """Release a session and say so: ``Detached``, or ``Failed(fatal=True)`` if it ends by, or with, an error."""
        await session.end()
        error = because or await self._release(session.session_id)
        if because is not None:
            await self._release(session.session_id)
        self._forget(session, session.epoch)
        if error is None:
            self._put(Detached(session.session_id, epoch=session.epoch))
        else:
            self._put(Failed(session.session_id, describe(error), fatal=True, epoch=session.epoch))

    async def _release(self, session_id: str) -> BaseException | None:
        """Let the stages let go of it; what went wrong. A stage that is stuck does so later, by itself."""
        try:
            await self._apart(self._pipeline.close_session, session_id, _RELEASE_TIMEOUT_S)
        except UnknownSessionError:
            return None
        except Exception as error:
            self._log.error("a session could not be released", error, session_id)
            self._stuck.add(session_id)
            return error
        return None

    async def _apart(self, call: Callable[..., T], *args: object) -> T:
        """On a thread that waits for nobody else: the loop's own are few, and others' as well."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *args)

    def _forget(self, session: ServedSession, epoch: int) -> None:
        del self._sessions[session.session_id]
        self._identities.store(session.session_id, epoch, session.seq)

    def _count_stuck(self) -> int:
        for session_id in list(self._stuck):
            try:
                self._pipeline.status(session_id)
            except UnknownSessionError:
                self._stuck.discard(session_id)
        return len(self._stuck)

    # -- events

    def _reject(self, session_id: str, reason: str) -> None:
        session = self._sessions.get(session_id)
        if session is None:
            self._put(Rejected(session_id, reason, epoch=self._identities.last_epoch(session_id)))
        else:
            session.answer(Rejected(session_id, reason, epoch=session.epoch))

    def _put(self, item: OutboxItem) -> None:
        try:
            self._outbox.put_nowait(item)
        except OutboxClosed:
            if not self._stopping:
                logger.warning("the outbox was closed by its reader: the engine ends")
            self._ended.set()
