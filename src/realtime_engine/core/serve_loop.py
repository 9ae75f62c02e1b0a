"""The loop of :func:`~realtime_engine.core.serve.default_serve`, as it runs on the engine's thread."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .clock import NS_PER_S, Clock, Deadlines, Wakeup
from .contract import AdmissionError, EngineManifest, RealtimeInterface, SessionInit
from .errors import EngineContractError, call_hook, describe, reason_of
from .inbox import Inbox
from .loglimit import LogLimiter
from .membership import MAX_CONSECUTIVE_FAILURES, Membership
from .messages import (
    Action,
    Attach,
    Attached,
    Chunk,
    Detached,
    Failed,
    Finished,
    RejectionCode,
    ResetDone,
    SessionEvent,
)
from .monitor import ServeMonitor
from .outbox import Outbox
from .session import Applied, PendingDetaches, Session
from .stepper import Outcome, Stepper, StepperOptions
from .values import snapshot

logger = logging.getLogger(__name__)

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
    max_consecutive_failures: int = MAX_CONSECUTIVE_FAILURES
    max_chunks: int | None = None

    def __post_init__(self) -> None:
        interval = self.tick_interval_s
        if interval is not None and not (math.isfinite(interval) and interval >= 0):
            raise ValueError(f"tick_interval_s must be a finite number of seconds, 0 or more, got {interval!r}")
        if self.max_consecutive_failures < 1:
            raise ValueError(f"max_consecutive_failures must be 1 or more, got {self.max_consecutive_failures!r}")
        if self.max_chunks is not None and self.max_chunks < 1:
            raise ValueError(f"max_chunks must be 1 or more, or None for no limit, got {self.max_chunks!r}")


class ServeLoop(Membership[Session]):
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
        super().__init__(outbox, monitor)
        self._engine = engine
        self._inbox = inbox
        self._options = options
        self._clock = clock
        self._engine_copies = getattr(engine, "copies_conditioning", False) is True
        self._log = LogLimiter(logger, clock)
        self._wakeup = Wakeup()
        self._sleeping = False
        self._stopping = False
        self._yielded_ns = 0

        self._due: dict[str, Session] = {}  # stepped together
        self._quarantined: dict[str, Session] = {}  # stepped one by one, because they failed recently
        self._unseeded_replies: dict[str, SessionEvent] = {}  # sent once the session is seeded
        self._new_actions: list[tuple[Session, int]] = []  # applied by the next step, with their time of arrival
        self._pending_detaches = PendingDetaches(self._detach_engine, self._log)

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
                self._clock, self.monitor, self._log, manifest.pipeline_depth_chunks, self._options.max_chunks
            )
            self._stepper = Stepper(self._engine, self.sessions, self, stepper_options)
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
        self.monitor.overruns += deadlines.tick_ended(now)
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
        for received_ns, msg in self._inbox.drain_stamped():
            self.handle(msg, received_ns)
        if self._stepper.primed:
            last = Outcome()
            self._stepper.flush(last)
            self._stepper.finalize(last)
            for session_id, error in last.failures.items():
                self._log.error("a session failed", error, session_id)
        for session in list(self.sessions.values()):
            self.end(session)

    # -- one round

    def apply_inbox(self) -> None:
        """Apply every message that has arrived, in order."""
        for received_ns, msg in self._inbox.drain_stamped():
            self.handle(msg, received_ns)
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
        if self.replies and not self._stepper.primed:
            self.put(self.replies.pop())
        self.monitor.ticks += 1
        self.monitor.step.record(self._clock.now_ns() - begin)

    def _take_conditioning(self) -> dict[str, Mapping[str, Any]]:
        if self._engine_copies:
            return {sid: s.take_conditioning() if s.events else s.conditioning for sid, s in self._due.items()}
        return {sid: s.take_conditioning() if s.events else dict(s.conditioning) for sid, s in self._due.items()}

    def _record_input_latency(self, begin: int) -> None:
        for session, received_ns in self._new_actions:
            if session.steppable and self.sessions.get(session.session_id) is session:
                self.monitor.input_to_step.record(begin - received_ns)
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
            self.put(chunks)
            self.monitor.chunks += len(chunks)
        if self.replies:
            self.put(self.replies.on_step())

    def awaits_chunks(self, session: Session) -> bool:
        """Whether a pause is not answered yet because the session's chunks are still in the pipeline."""
        return self.replies.has(session.session_id)

    # -- outcome of a tick

    def _handle_outcome(self, outcome: Outcome) -> None:
        """Report failures and ends of rollouts, and release sessions from quarantine."""
        if outcome.failures:
            self._handle_failures(outcome.failures)
        made_chunks = set(outcome.emitted) if self._quarantined else ()
        for session in list(self._quarantined.values()):
            if session.session_id in made_chunks and session.session_id not in outcome.failures:
                session.quarantine.record_success()
                self.schedule(session)
        for session_id in outcome.finished:
            self._finish(session_id)
        if self._unseeded_replies:
            self._reply_to_seeded()

    def _handle_failures(self, failures: Mapping[str, BaseException]) -> None:
        unseeded = self._unseeded()
        for session_id, error in failures.items():
            session = self.sessions.get(session_id)
            if session is None:
                continue
            if session_id in unseeded:
                self._reject_unseeded(session, error)
            else:
                self._fail(session, error)

    def _fail(self, session: Session, error: BaseException) -> None:
        self.reply_to_attach(session)
        session.quarantine.record_failure(self.monitor.ticks)
        self._log.error("a session failed", error, session.session_id)
        if session.quarantine.failures_in_row >= self._options.max_consecutive_failures:
            self.end(session, error)
        else:
            self.failed(session, error)
            self.schedule(session)

    def _finish(self, session_id: str) -> None:
        """Report the end of a rollout, unless the session failed fatally in the same tick."""
        session = self.sessions.get(session_id)
        if session is not None:
            self.reply_to_attach(session)
            self.schedule(session)
            self.reply(session, Finished(session_id, epoch=session.epoch))

    def _reject_unseeded(self, session: Session, error: BaseException) -> None:
        self._log.error("a session could not be seeded", error, session.session_id)
        reply = self._unseeded_replies.pop(session.session_id, None)
        if isinstance(reply, Attached):
            self.forget(session)
            self._pending_detaches.detach(session.session_id, self._clock.now_ns())
            self.reject(session.session_id, RejectionCode.of(error), describe(error, "seed"))
        else:
            self.end(session, error, "seed")

    def _unseeded(self) -> frozenset[str]:
        try:
            return frozenset(getattr(self._engine, "pending_sessions", ()))
        except BaseException as error:
            self._log.error("reading pending_sessions failed", error)
            return frozenset()

    # -- messages

    @property
    def stopping(self) -> bool:
        """Whether the loop is to end."""
        return self._stopping

    def on_outbox_closed(self) -> None:
        """End the loop."""
        self._stopping = True

    def admit(self, msg: Attach) -> None:
        """Attach a session to the engine; the reply follows when it is seeded."""
        if not self._pending_detaches.retry_now(msg.session_id):
            reason = f"session {msg.session_id!r} could not be released yet: try again later"
            self.reject(msg.session_id, RejectionCode.NOT_RELEASED, reason)
            return
        try:
            call_hook(self._engine.attach, SessionInit(msg.session_id, snapshot(msg.context)))
        except AdmissionError as error:
            self.reject(msg.session_id, RejectionCode.FULL, reason_of(error) or "the engine is full")
        except BaseException as error:
            self._log.error("attach failed", error, msg.session_id)
            self._pending_detaches.detach(msg.session_id, self._clock.now_ns())
            self.reject(msg.session_id, RejectionCode.of(error), describe(error, "attach"))
        else:
            epoch, seq = self.identities.allocate(msg.session_id)
            session = self.sessions[msg.session_id] = Session(msg.session_id, msg.context, epoch, seq)
            self.schedule(session)
            self._unseeded_replies[msg.session_id] = Attached(msg.session_id, epoch=epoch)

    def detach_unknown(self, session_id: str) -> None:
        """Reply to the detach of a session that is not attached, once the engine has released it."""
        epoch = self.identities.last_epoch(session_id)
        if self._pending_detaches.retry_now(session_id):
            self.put((Detached(session_id, epoch=epoch),))
        else:
            self.put((Failed(session_id, "the engine could not release it yet", fatal=True, epoch=epoch),))

    def restart(self, session: Session, context: Mapping[str, Any]) -> None:
        """Seed a session anew; the reply follows when it is seeded."""
        self.reply_to_attach(session)
        self.flush_replies(session)
        try:
            self._reset_engine(SessionInit(session.session_id, snapshot(context)))
        except _NotReleased as refused:
            self.reject(session.session_id, RejectionCode.FULL, str(refused))
        except BaseException as error:
            self._log.error("reset failed", error, session.session_id)
            self.end(session, error, "reset")
        else:
            session.begin_epoch(context, session.epoch + 1)
            self.schedule(session)
            self._unseeded_replies[session.session_id] = ResetDone(session.session_id, epoch=session.epoch)

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

    def apply(self, session: Session, msg: Action, received_ns: int) -> None:
        """Apply an action before the next step."""
        session.apply(msg.conditioning, tuple(msg.events), Applied(msg.action_id, received_ns))
        self._new_actions.append((session, received_ns))

    def steps_in_flight(self, session: Session) -> int:
        """Steps until the chunks in the engine's pipeline have been sent."""
        return self._stepper.depth - 1 if self._stepper.primed else 0

    # -- membership

    def schedule(self, session: Session) -> None:
        """Put a session where its state belongs: stepped with others, stepped alone, or not stepped."""
        self._due.pop(session.session_id, None)
        self._quarantined.pop(session.session_id, None)
        if session.steppable:
            group = self._quarantined if session.quarantine.quarantined else self._due
            group[session.session_id] = session

    def forget(self, session: Session) -> None:
        """Remove a session; its id continues counting when it comes back."""
        self._due.pop(session.session_id, None)
        self._quarantined.pop(session.session_id, None)
        super().forget(session)

    def end(self, session: Session, error: BaseException | None = None, hook: str = "") -> None:
        """Detach a session and report it: ``Detached``, or ``Failed(fatal=True)`` when it ends by or with an error."""
        self.reply_to_attach(session)
        self.flush_replies(session)
        self.forget(session)
        released = self._pending_detaches.detach(session.session_id, self._clock.now_ns())
        self.ended(session, error or released, hook)

    def _detach_engine(self, session_id: str) -> None:
        call_hook(self._engine.detach, session_id)

    # -- events

    def _reply_to_seeded(self, *, paused_only: bool = False) -> None:
        """Answer the attaches and resets of sessions that are seeded, or paused: those are not stepped to be seeded."""
        unseeded = self._unseeded()
        for session_id in list(self._unseeded_replies):
            session = self.sessions[session_id]
            ready = not session.active if paused_only else session_id not in unseeded
            if ready:
                self.reply_to_attach(session)

    def reply_to_attach(self, session: Session) -> None:
        """Answer the session's attach or reset, if it is not answered yet."""
        reply = self._unseeded_replies.pop(session.session_id, None)
        if reply is not None:
            self.reply(session, reply)


class _NotReleased(Exception):
    """A reset was refused and the session is unchanged."""
