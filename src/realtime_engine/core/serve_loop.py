"""The loop of :func:`~realtime_engine.core.serve.default_serve`, as it runs on the engine's thread."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from .stepper import Outcome, Stepper, StepperOptions
from .values import snapshot

logger = logging.getLogger(__name__)

_STOPPING = "the engine is stopping"
_MAX_WITHOUT_YIELD_NS = 200_000


@dataclass(frozen=True)
class ServeOptions:
    """How an engine is served.

    Attributes:
        tick_interval_s: seconds between chunks; ``None`` follows the manifest's ``rate_hz``, 0 runs flat out.
        max_consecutive_failures: failed steps in a row after which a session is ended.
        max_chunks: chunks after which each epoch of a session finishes, unless its rollout ends before; ``None``: no
            limit.

    Raises:
        ValueError: naming the field.
    """

    tick_interval_s: float | None = None
    max_consecutive_failures: int = 10
    max_chunks: int | None = None

    def __post_init__(self) -> None:
        interval = self.tick_interval_s
        if interval is not None and not (math.isfinite(interval) and interval >= 0):
            raise ValueError(f"tick_interval_s must be a finite number of seconds, 0 or more, got {interval!r}")
        if self.max_consecutive_failures < 1:
            raise ValueError(f"max_consecutive_failures must be 1 or more, got {self.max_consecutive_failures!r}")
        if self.max_chunks is not None and self.max_chunks < 1:
            raise ValueError(f"max_chunks must be 1 or more, or None for no limit, got {self.max_chunks!r}")


class ServeLoop:
    """Serves one engine on the calling thread: :meth:`run`.

    A round: apply the inbox, step the sessions that are due, send chunks and events, call finalize, sleep until the
    next deadline. With no session to step it sleeps until there is input.

    Args:
        engine: Level 1 of the contract.
        inbox: messages to apply.
        outbox: receives chunks and events; closed at the end.
        options: rate and limits.
        clock: time.
        monitor: counters to update.
    """

    def __init__(
        self,
        engine: RealtimeInterface,
        inbox: Inbox,
        outbox: Outbox,
        options: ServeOptions,
        *,
        clock: Clock,
        monitor: ServeMonitor,
    ) -> None:
        self._engine = engine
        self._inbox = inbox
        self._outbox = outbox
        self._options = options
        self._clock = clock
        self._monitor = monitor
        monitor.outbox = outbox
        self._engine_copies = getattr(engine, "copies_conditioning", False) is True
        self._log = LogLimiter(logger, clock)
        self._wakeup = Wakeup()
        self._sleeping = False
        self._stopping = False
        self._yielded_ns = 0

        self._sessions: dict[str, Session] = {}
        self._due: dict[str, Session] = {}  # stepped together
        self._quarantined: dict[str, Session] = {}  # stepped one by one, because they failed recently
        self._unseeded_replies: dict[str, SessionEvent] = {}  # sent once the session is seeded
        self._pending_replies = PendingReplies()
        self._new_actions: list[tuple[Session, int]] = []  # applied by the next step, with their time of arrival
        self._identities = Identities()
        self._pending_detaches = PendingDetaches(self._detach_engine, self._log)
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            Attach: self._attach,
            Detach: self._detach,
            Reset: self._reset,
            Action: self._action,
            SetActive: self._set_active,
        }

    # -- life cycle

    def request_stop(self) -> None:
        """Finish the tick and end; may be called from any thread."""
        self._stopping = True
        self._wakeup.notify()

    def run(self) -> None:
        """Serve until :meth:`request_stop`. Raises only when the engine gives no valid manifest."""
        try:
            manifest = call_hook(self._engine.manifest)
            if not isinstance(manifest, EngineManifest):
                raise EngineContractError(f"manifest() must return an EngineManifest, got {manifest!r}")
            stepper_options = StepperOptions(
                self._clock, self._monitor, self._log, manifest.pipeline_depth_chunks, self._options.max_chunks
            )
            self._stepper = Stepper(self._engine, self._sessions, self, stepper_options)
            deadlines = Deadlines(self._interval_ns(manifest.rate_hz), self._clock.now_ns())
            with self._inbox.listening(self._wake_if_sleeping):
                self._serve(deadlines)
                self._shut_down()
        finally:
            self._outbox.close()
            self._log.flush()

    def _interval_ns(self, rate_hz: float) -> int:
        interval_s = self._options.tick_interval_s
        return round((1.0 / rate_hz if interval_s is None else interval_s) * NS_PER_S)

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
        return bool(self._due or self._quarantined or self._stepper.primed)

    def _tick_at(self, deadlines: Deadlines) -> None:
        while self._clock.now_ns() < deadlines.next_ns and not self._stopping:
            self._clock.wait(self._wakeup, deadlines.next_ns)
        if self._stopping:
            return
        self.apply_inbox()
        if not self._steppable:
            return
        self.tick()
        now = self._clock.now_ns()
        self._monitor.overruns += deadlines.tick_ended(now)
        if now >= deadlines.next_ns:
            self._yield_to_readers(now)

    def _yield_to_readers(self, now: int) -> None:
        """Release the GIL now and then in a loop that is always late and never sleeps."""
        limit = _MAX_WITHOUT_YIELD_NS if self._outbox.backlog else 10 * _MAX_WITHOUT_YIELD_NS
        if now - self._yielded_ns > limit:
            self._clock.yield_now()
            self._yielded_ns = self._clock.now_ns()

    def _sleep_until_input(self) -> None:
        self._sleeping = True  # set before the check, so that a put after the check wakes the loop
        if self._inbox.empty() and not self._stopping:
            self._clock.wait(self._wakeup, self._pending_detaches.next_ns)
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
            self._end_session(session)

    # -- one round

    def apply_inbox(self) -> None:
        """Apply every message that has arrived, in order."""
        for received_ns, msg in self._inbox.drain_stamped():
            self._handlers[type(msg)](msg, received_ns)
        if self._pending_detaches:
            self._pending_detaches.retry_due(self._clock.now_ns())
        if self._unseeded_replies:
            self._reply_to_seeded(paused_only=True)
        if not self._steppable:
            self._new_actions.clear()

    def tick(self) -> None:
        """Step every session that is due, once."""
        begin = self._clock.now_ns()
        self._record_input_latency(begin)
        outcome = Outcome()
        due = self._take_conditioning()
        if due or self._stepper.primed:
            self._stepper.step(due, outcome, flush=bool(self._quarantined or not due))
        for session in list(self._quarantined.values()):
            self._stepper.step({session.session_id: session.take_conditioning()}, outcome, flush=True)
        self._stepper.finalize(outcome)
        self._handle_outcome(outcome)
        if self._pending_replies and not self._stepper.primed:
            self._put(self._pending_replies.pop())
        self._monitor.ticks += 1
        self._monitor.step.record(self._clock.now_ns() - begin)

    def _take_conditioning(self) -> dict[str, Mapping[str, Any]]:
        if self._engine_copies:
            return {sid: s.take_conditioning() if s.events else s.conditioning for sid, s in self._due.items()}
        return {sid: s.take_conditioning() if s.events else dict(s.conditioning) for sid, s in self._due.items()}

    def _record_input_latency(self, begin: int) -> None:
        for session, received_ns in self._new_actions:
            if session.steppable and self._sessions.get(session.session_id) is session:
                self._monitor.input_to_step.record(begin - received_ns)
        self._new_actions.clear()

    # -- the stepper's owner

    @property
    def interrupted(self) -> bool:
        """Whether the loop is stopping."""
        return self._stopping

    def send_chunks(self, chunks: list[Chunk]) -> None:
        """Send the chunks of one step, after the replies that precede them and before those that follow."""
        if self._unseeded_replies:
            self._reply_to_seeded()
        if chunks:
            self._put(chunks)
            self._monitor.chunks += len(chunks)
        if self._pending_replies:
            self._put(self._pending_replies.on_step())

    def awaits_chunks(self, session: Session) -> bool:
        """Whether a pause is not answered yet because the session's chunks are still in the pipeline."""
        return self._pending_replies.has(session.session_id)

    # -- outcome of a tick

    def _handle_outcome(self, outcome: Outcome) -> None:
        """Report failures and ends of rollouts, and release sessions from quarantine."""
        if outcome.failures:
            self._handle_failures(outcome.failures)
        made_chunks = set(outcome.emitted) if self._quarantined else ()
        for session in list(self._quarantined.values()):
            if session.session_id in made_chunks and session.session_id not in outcome.failures:
                session.quarantine.record_success()
                self._schedule(session)
        for session_id in outcome.finished:
            self._finish(session_id)
        if self._unseeded_replies:
            self._reply_to_seeded()

    def _handle_failures(self, failures: Mapping[str, BaseException]) -> None:
        unseeded = self._unseeded()
        for session_id, error in failures.items():
            session = self._sessions.get(session_id)
            if session is None:
                continue
            if session_id in unseeded:
                self._reject_unseeded(session, error)
            else:
                self._fail(session, error)

    def _fail(self, session: Session, error: BaseException) -> None:
        self._reply_to_attach(session)
        session.quarantine.record_failure(self._monitor.ticks)
        self._log.error("a session failed", error, session.session_id)
        if session.quarantine.failures_in_row >= self._options.max_consecutive_failures:
            self._end_session(session, because=error)
        else:
            self._monitor.failed += 1
            self._send(Failed(session.session_id, describe(error), epoch=session.epoch))
            self._schedule(session)

    def _finish(self, session_id: str) -> None:
        """Report the end of a rollout, unless the session failed fatally in the same tick."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._reply_to_attach(session)
            self._schedule(session)
            self._send(Finished(session_id, epoch=session.epoch))

    def _reject_unseeded(self, session: Session, error: BaseException) -> None:
        self._log.error("a session could not be seeded", error, session.session_id)
        reply = self._unseeded_replies.pop(session.session_id, None)
        if isinstance(reply, Attached):
            self._remove(session)
            self._pending_detaches.detach(session.session_id, self._clock.now_ns())
            self._reject(session.session_id, describe(error))
        else:
            self._end_session(session, because=error)

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
            self._reply_to_attach(session)
            self._send(Attached(session.session_id, epoch=session.epoch))
            return
        if not self._pending_detaches.retry_now(msg.session_id):
            self._reject(msg.session_id, f"session {msg.session_id!r} could not be released yet: try again later")
            return
        try:
            call_hook(self._engine.attach, SessionInit(msg.session_id, snapshot(msg.context)))
        except AdmissionError as error:
            self._reject(msg.session_id, reason_of(error) or "the engine is full")
        except BaseException as error:
            self._log.error("attach failed", error, msg.session_id)
            self._pending_detaches.detach(msg.session_id, self._clock.now_ns())
            self._reject(msg.session_id, describe(error))
        else:
            epoch, seq = self._identities.allocate(msg.session_id)
            session = self._sessions[msg.session_id] = Session(msg.session_id, msg.context, epoch, seq)
            self._schedule(session)
            self._unseeded_replies[msg.session_id] = Attached(msg.session_id, epoch=epoch)

    def _detach(self, msg: Detach, received_ns: int) -> None:
        session = self._sessions.get(msg.session_id)
        if session is not None:
            self._end_session(session)
            return
        epoch = self._identities.last_epoch(msg.session_id)
        if self._pending_detaches.retry_now(msg.session_id):
            self._send(Detached(msg.session_id, epoch=epoch))
        else:
            self._send(Failed(msg.session_id, "the engine could not release it yet", fatal=True, epoch=epoch))

    def _reset(self, msg: Reset, received_ns: int) -> None:
        session = self._sessions.get(msg.session_id)
        if session is None:
            self._reject(msg.session_id, f"session {msg.session_id!r} is not attached")
            return
        self._reply_to_attach(session)
        self._put(self._pending_replies.pop(msg.session_id))
        context = msg.context or session.context
        try:
            self._reset_engine(SessionInit(msg.session_id, snapshot(context)))
        except _NotReleased as refused:
            self._reject(msg.session_id, str(refused))
        except BaseException as error:
            self._log.error("reset failed", error, msg.session_id)
            self._end_session(session, because=error)
        else:
            session.begin_epoch(context, session.epoch + 1)
            self._schedule(session)
            self._unseeded_replies[msg.session_id] = ResetDone(msg.session_id, epoch=session.epoch)

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
        self._new_actions.append((session, received_ns))

    def _set_active(self, msg: SetActive, received_ns: int) -> None:
        session = self._sessions.get(msg.session_id)
        if session is None:
            self._reject(msg.session_id, f"session {msg.session_id!r} is not attached")
            return
        self._reply_to_attach(session)
        session.active = msg.active
        self._schedule(session)
        reply = ActiveChanged(session.session_id, msg.active, epoch=session.epoch)
        if self._stepper.primed and not msg.active:
            self._pending_replies.add(reply, self._stepper.depth - 1)  # its chunks in flight are sent first
        else:
            self._send(reply)

    # -- membership

    def _schedule(self, session: Session) -> None:
        """Put a session where its state belongs: stepped with others, stepped alone, or not stepped."""
        self._due.pop(session.session_id, None)
        self._quarantined.pop(session.session_id, None)
        if session.steppable:
            group = self._quarantined if session.quarantine.quarantined else self._due
            group[session.session_id] = session

    def _remove(self, session: Session) -> None:
        for table in (self._sessions, self._due, self._quarantined):
            table.pop(session.session_id, None)
        self._identities.store(session.session_id, session.epoch, session.seq)

    def _end_session(self, session: Session, because: BaseException | None = None) -> None:
        """Detach a session and report it: ``Detached``, or ``Failed(fatal=True)`` when it ends by or with an error."""
        self._reply_to_attach(session)
        self._put(self._pending_replies.pop(session.session_id))
        self._remove(session)
        error = self._pending_detaches.detach(session.session_id, self._clock.now_ns())
        because = because or error
        if because is None:
            self._send(Detached(session.session_id, epoch=session.epoch))
        else:
            self._monitor.failed += 1
            self._send(Failed(session.session_id, describe(because), fatal=True, epoch=session.epoch))

    def _detach_engine(self, session_id: str) -> None:
        call_hook(self._engine.detach, session_id)

    # -- events

    def _reply_to_seeded(self, *, paused_only: bool = False) -> None:
        """Answer the attaches and resets of sessions that are seeded, or paused: those are not stepped to be seeded."""
        unseeded = self._unseeded()
        for session_id in list(self._unseeded_replies):
            session = self._sessions[session_id]
            ready = not session.active if paused_only else session_id not in unseeded
            if ready:
                self._reply_to_attach(session)

    def _reply_to_attach(self, session: Session) -> None:
        """Answer the session's attach or reset, if it is not answered yet."""
        reply = self._unseeded_replies.pop(session.session_id, None)
        if reply is not None:
            self._send(reply)

    def _reject(self, session_id: str, reason: str) -> None:
        self._monitor.rejected += 1
        session = self._sessions.get(session_id)
        epoch = session.epoch if session is not None else self._identities.last_epoch(session_id)
        self._send(Rejected(session_id, reason, epoch=epoch))

    def _send(self, event: SessionEvent) -> None:
        if self._pending_replies.has(event.session_id):
            self._pending_replies.add(event, self._stepper.depth - 1)  # not before an older reply
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
    """A reset was refused and the session is unchanged."""
