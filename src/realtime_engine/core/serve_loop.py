"""The loop behind :func:`~realtime_engine.core.serve.default_serve`, as it runs on the engine's thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .clock import NS_PER_S, Clock, Deadlines, Wakeup
from .contract import AdmissionError, EngineManifest, RealtimeInterface, SessionInit
from .errors import EngineContractError, OutboxClosed, call_hook, describe, reason_of
from .inbox import Inbox
from .loglimit import LogLimiter
from .messages import (
    Action,
    ActiveChanged,
    Attach,
    Attached,
    Chunk,
    Detach,
    Detached,
    Failed,
    Finished,
    Rejected,
    Reset,
    ResetDone,
    SessionEvent,
    SetActive,
)
from .monitor import ServeMonitor
from .outbox import Outbox, OutboxItem
from .session import Applied, Identities, PendingDetaches, PendingReplies, Session
from .stepper import Outcome, Stepper
from .values import snapshot

logger = logging.getLogger(__name__)

_STOPPING = "the engine is stopping"
_MAX_WITHOUT_REST_NS = 200_000


class ServeLoop:
    """Everything that happens to one engine, on one thread: :meth:`run` from start to end.

    A round: apply what the inbox holds, step everybody who is due, send chunks and events, call finalize, sleep until
    the next deadline. With nobody due it sleeps until there is input.
    """

    def __init__(
        self,
        engine: RealtimeInterface,
        inbox: Inbox,
        outbox: Outbox,
        *,
        tick_interval_s: float | None,
        clock: Clock,
        monitor: ServeMonitor,
        max_consecutive_failures: int,
        max_chunks: int | None = None,
    ) -> None:
        self._engine = engine
        self._inbox = inbox
        self._outbox = outbox
        self._tick_interval_s = tick_interval_s
        self._clock = clock
        self._monitor = monitor
        monitor.outbox = outbox
        self._max_failures = max_consecutive_failures
        self._max_chunks = max_chunks
        self._engine_copies = getattr(engine, "copies_conditioning", False) is True
        self._log = LogLimiter(logger, clock)
        self._wakeup = Wakeup()
        self._sleeping = False
        self._stopping = False
        self._rested_ns = 0

        self._sessions: dict[str, Session] = {}
        self._due: dict[str, Session] = {}  # stepped together
        self._apart: dict[str, Session] = {}  # stepped one by one, because they failed lately
        self._arriving: dict[str, SessionEvent] = {}  # the answer that waits until the session is seeded
        self._held = PendingReplies()
        self._fresh: list[tuple[Session, int]] = []  # Actions that the next step applies, and when they came
        self._identities = Identities()
        self._releases = PendingDetaches(self._release_engine_side, self._log)
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            Attach: self._attach,
            Detach: self._detach,
            Reset: self._reset,
            Action: self._action,
            SetActive: self._set_active,
        }

    # -- the thread's life

    def request_stop(self) -> None:
        """From any thread: finish the tick and end."""
        self._stopping = True
        self._wakeup.notify()

    def run(self) -> None:
        """Serve until :meth:`request_stop`. Raises only when the engine gives no valid manifest."""
        try:
            manifest = call_hook(self._engine.manifest)
            if not isinstance(manifest, EngineManifest):
                raise EngineContractError(f"manifest() must return an EngineManifest, got {manifest!r}")
            self._stepper = Stepper(
                self._engine,
                self._sessions,
                depth=manifest.pipeline_depth_chunks,
                clock=self._clock,
                monitor=self._monitor,
                log=self._log,
                emit=self._emit_chunks,
                leaving=lambda session: self._held.holds(session.session_id),
                interrupted=lambda: self._stopping,
                max_chunks=self._max_chunks,
            )
            deadlines = Deadlines(self._interval_ns(manifest.rate_hz), self._clock.now_ns())
            with self._inbox.listening(self._wake_if_sleeping):
                self._serve(deadlines)
                self._shut_down()
        finally:
            self._outbox.close()
            self._log.flush()

    def _interval_ns(self, rate_hz: float) -> int:
        seconds = 1.0 / rate_hz if self._tick_interval_s is None else self._tick_interval_s
        return round(seconds * NS_PER_S)

    def _serve(self, deadlines: Deadlines) -> None:
        while not self._stopping:
            if self._steppable:
                self._tick_at(deadlines)
            else:
                self._sleep_until_input()
                self.apply_inbox()
                deadlines.resume(self._clock.now_ns())

    @property
    def _steppable(self) -> bool:
        return bool(self._due or self._apart or self._stepper.primed)

    def _tick_at(self, deadlines: Deadlines) -> None:
        while self._clock.now_ns() < deadlines.next_ns and not self._stopping:
            self._clock.wait(self._wakeup, deadlines.next_ns)
        if self._stopping:
            return
        self.apply_inbox()
        if not self._steppable:
            return  # everybody has left or paused: the beat starts anew with the next arrival
        self.tick()
        now = self._clock.now_ns()
        self._monitor.overruns += deadlines.tick_ended(now)
        if now >= deadlines.next_ns:
            self._let_others_run(now)

    def _let_others_run(self, now: int) -> None:
        """A loop that is never in time does not sleep, but the readers need the interpreter too."""
        patience = _MAX_WITHOUT_REST_NS if self._outbox.backlog else 10 * _MAX_WITHOUT_REST_NS
        if now - self._rested_ns > patience:
            self._clock.yield_now()
            self._rested_ns = self._clock.now_ns()

    def _sleep_until_input(self) -> None:
        self._sleeping = True  # before looking: a put after the look rings the bell
        if self._inbox.empty() and not self._stopping:
            self._clock.wait(self._wakeup, self._releases.next_ns)
        self._sleeping = False

    def _wake_if_sleeping(self) -> None:
        if self._sleeping:
            self._wakeup.notify()

    def _shut_down(self) -> None:
        for _, msg in self._inbox.drain_stamped():
            if isinstance(msg, (Attach, Reset)):
                self._reject(msg.session_id, _STOPPING)
            else:
                self._handlers[type(msg)](msg, 0)
        if self._stepper.primed:
            last = Outcome()
            self._stepper.flush(last)
            self._stepper.finalize(last)
            for session_id, error in last.failures.items():
                self._log.error("a session failed", error, session_id)
        for session in list(self._sessions.values()):
            self._end(session)

    # -- one round

    def apply_inbox(self) -> None:
        """Apply every message that has arrived, in order."""
        for received_ns, msg in self._inbox.drain_stamped():
            self._handlers[type(msg)](msg, received_ns)
        if self._releases.waiting:
            self._releases.retry(self._clock.now_ns())
        if self._arriving:
            self._announce_seeded(paused_only=True)
        if not self._steppable:
            self._fresh.clear()

    def tick(self) -> None:
        """Step everybody who is due, once."""
        begin = self._clock.now_ns()
        self._record_input(begin)
        outcome = Outcome()
        due = self._take_due()
        if due or self._stepper.primed:
            self._stepper.step(due, outcome, flush=bool(self._apart or not due))
        for session in list(self._apart.values()):
            self._stepper.step({session.session_id: session.take_conditioning()}, outcome, flush=True)
        self._stepper.finalize(outcome)
        self._judge(outcome)
        if self._held and not self._stepper.primed:
            self._put(self._held.take())
        self._monitor.ticks += 1
        self._monitor.step.record(self._clock.now_ns() - begin)

    def _take_due(self) -> dict[str, Mapping[str, Any]]:
        if self._engine_copies:
            return {sid: s.take_conditioning() if s.events else s.conditioning for sid, s in self._due.items()}
        return {sid: s.take_conditioning() if s.events else dict(s.conditioning) for sid, s in self._due.items()}

    def _record_input(self, begin: int) -> None:
        for session, received_ns in self._fresh:
            if session.steppable and self._sessions.get(session.session_id) is session:
                self._monitor.input_to_step.record(begin - received_ns)
        self._fresh.clear()

    def _emit_chunks(self, chunks: list[Chunk]) -> None:
        if self._arriving:
            self._announce_seeded()
        if chunks:
            self._put(chunks)
            self._monitor.chunks += len(chunks)
        if self._held:
            self._put(self._held.step_passed())

    # -- failures

    def _judge(self, outcome: Outcome) -> None:
        """Tell those who failed, part with those who do so for good, and let the others back in."""
        if outcome.failures:
            self._judge_failures(outcome.failures)
        made_chunks = set(outcome.emitted) if self._apart else ()
        for session in list(self._apart.values()):
            if session.session_id in made_chunks and session.session_id not in outcome.failures:
                session.trust.stepped_cleanly()
                self._place(session)
        for session_id in outcome.finished:
            self._finish(session_id)
        if self._arriving:
            self._announce_seeded()

    def _judge_failures(self, failures: Mapping[str, BaseException]) -> None:
        unseeded = self._unseeded()
        for session_id, error in failures.items():
            session = self._sessions.get(session_id)
            if session is None:
                continue
            if session_id in unseeded:
                self._refuse_unseeded(session, error)
            else:
                self._failed(session, error)

    def _finish(self, session_id: str) -> None:
        """Its last chunk is out: step it no more and report the end, unless it failed fatally in the same tick."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._announce(session)
            self._place(session)
            self._send(Finished(session_id, epoch=session.epoch))

    def _failed(self, session: Session, error: BaseException) -> None:
        self._announce(session)
        session.trust.failed(self._monitor.ticks)
        self._log.error("a session failed", error, session.session_id)
        if session.trust.failures_in_row >= self._max_failures:
            self._end(session, because=error)
        else:
            self._monitor.failed += 1
            self._send(Failed(session.session_id, describe(error), epoch=session.epoch))
            self._place(session)

    def _refuse_unseeded(self, session: Session, error: BaseException) -> None:
        self._log.error("a session could not be seeded", error, session.session_id)
        answer = self._arriving.pop(session.session_id, None)
        if isinstance(answer, Attached):
            self._forget(session)
            self._releases.release(session.session_id, self._clock.now_ns())
            self._reject(session.session_id, describe(error))
        else:
            self._end(session, because=error)

    def _unseeded(self) -> frozenset[str]:
        try:
            return frozenset(getattr(self._engine, "pending_sessions", ()))
        except BaseException as error:
            self._log.error("reading pending_sessions failed", error)
            return frozenset()

    # -- messages

    def _attach(self, msg: Attach, received_ns: int) -> None:
        session = self._sessions.get(msg.session_id)
        if session is not None:
            self._announce(session)
            self._send(Attached(session.session_id, epoch=session.epoch))
            return
        if not self._releases.settle(msg.session_id):
            self._reject(msg.session_id, f"session {msg.session_id!r} could not be released yet: try again later")
            return
        try:
            call_hook(self._engine.attach, SessionInit(msg.session_id, snapshot(msg.context)))
        except AdmissionError as error:
            self._reject(msg.session_id, reason_of(error) or "the engine is full")
        except BaseException as error:
            self._log.error("attach failed", error, msg.session_id)
            self._releases.release(msg.session_id, self._clock.now_ns())
            self._reject(msg.session_id, describe(error))
        else:
            epoch, seq = self._identities.begin(msg.session_id)
            session = self._sessions[msg.session_id] = Session(msg.session_id, msg.context, epoch, seq)
            self._place(session)
            self._arriving[msg.session_id] = Attached(msg.session_id, epoch=epoch)

    def _detach(self, msg: Detach, received_ns: int) -> None:
        session = self._sessions.get(msg.session_id)
        if session is not None:
            self._end(session)
            return
        epoch = self._identities.epoch(msg.session_id)
        if self._releases.settle(msg.session_id):
            self._send(Detached(msg.session_id, epoch=epoch))
        else:
            self._send(Failed(msg.session_id, "the engine does not let go of it yet", fatal=True, epoch=epoch))

    def _reset(self, msg: Reset, received_ns: int) -> None:
        session = self._sessions.get(msg.session_id)
        if session is None:
            self._reject(msg.session_id, f"session {msg.session_id!r} is not attached")
            return
        self._announce(session)
        self._put(self._held.take(msg.session_id))
        context = msg.context or session.context
        try:
            self._reset_engine(SessionInit(msg.session_id, snapshot(context)))
        except _NotReleased as refused:
            self._reject(msg.session_id, str(refused))
        except BaseException as error:
            self._log.error("reset failed", error, msg.session_id)
            self._end(session, because=error)
        else:
            session.begin_epoch(context, session.epoch + 1)
            self._place(session)
            self._arriving[msg.session_id] = ResetDone(msg.session_id, epoch=session.epoch)

    def _reset_engine(self, init: SessionInit) -> None:
        reset = getattr(self._engine, "reset", None)
        try:
            if callable(reset):
                call_hook(reset, init)
                return
            call_hook(self._engine.detach, init.session_id)
        except AdmissionError as error:
            raise _NotReleased(reason_of(error) or "the session could not be admitted again") from error
        call_hook(self._engine.attach, init)

    def _action(self, msg: Action, received_ns: int) -> None:
        session = self._sessions.get(msg.session_id)
        if session is None:
            self._reject(msg.session_id, f"session {msg.session_id!r} is not attached")
            return
        session.apply(msg.conditioning, tuple(msg.events), Applied(msg.action_id, received_ns))
        self._fresh.append((session, received_ns))

    def _set_active(self, msg: SetActive, received_ns: int) -> None:
        session = self._sessions.get(msg.session_id)
        if session is None:
            self._reject(msg.session_id, f"session {msg.session_id!r} is not attached")
            return
        self._announce(session)
        session.active = msg.active
        self._place(session)
        answer = ActiveChanged(session.session_id, msg.active, epoch=session.epoch)
        if self._stepper.primed and not msg.active:
            self._held.hold(answer, self._stepper.depth - 1)  # its chunks in flight go out first
        else:
            self._send(answer)

    # -- membership

    def _place(self, session: Session) -> None:
        """Put a session where its state belongs: with the others, apart, or nowhere while it is not stepped."""
        self._due.pop(session.session_id, None)
        self._apart.pop(session.session_id, None)
        if session.steppable:
            (self._apart if session.trust.apart else self._due)[session.session_id] = session

    def _forget(self, session: Session) -> None:
        for table in (self._sessions, self._due, self._apart):
            table.pop(session.session_id, None)
        self._identities.end(session.session_id, session.epoch, session.seq)

    def _end(self, session: Session, because: BaseException | None = None) -> None:
        """Detach a session and say so: ``Detached``, or ``Failed(fatal=True)`` if it ends by, or with, an error."""
        self._announce(session)
        self._put(self._held.take(session.session_id))
        self._forget(session)
        error = self._releases.release(session.session_id, self._clock.now_ns())
        because = because or error
        if because is None:
            self._send(Detached(session.session_id, epoch=session.epoch))
        else:
            self._monitor.failed += 1
            self._send(Failed(session.session_id, describe(because), fatal=True, epoch=session.epoch))

    def _release_engine_side(self, session_id: str) -> None:
        call_hook(self._engine.detach, session_id)

    # -- events

    def _announce_seeded(self, *, paused_only: bool = False) -> None:
        """Answer the arrivals that are seeded by now; a paused one need not be stepped, so it does not wait."""
        unseeded = self._unseeded()
        for session_id in list(self._arriving):
            session = self._sessions[session_id]
            ready = not session.active if paused_only else session_id not in unseeded
            if ready:
                self._announce(session)

    def _announce(self, session: Session) -> None:
        answer = self._arriving.pop(session.session_id, None)
        if answer is not None:
            self._send(answer)

    def _reject(self, session_id: str, reason: str) -> None:
        self._monitor.rejected += 1
        session = self._sessions.get(session_id)
        epoch = session.epoch if session is not None else self._identities.epoch(session_id)
        self._send(Rejected(session_id, reason, epoch=epoch))

    def _send(self, event: SessionEvent) -> None:
        if self._held.holds(event.session_id):
            self._held.hold(event, self._stepper.depth - 1)  # never before an older answer
        else:
            self._put((event,))

    def _put(self, items: Sequence[OutboxItem]) -> None:
        if not items:
            return
        try:
            self._outbox.put_many(items)
        except OutboxClosed:
            if not self._stopping:
                logger.warning("the outbox was closed by its reader: the serve loop ends")
            self._stopping = True


class _NotReleased(Exception):
    """A reset was refused with the session untouched."""
