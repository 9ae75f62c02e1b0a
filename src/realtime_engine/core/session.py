"""State of the serve loop for each session: input, numbering, failures, detaches to retry, replies to hold back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .clock import NS_PER_S
from .loglimit import LogLimiter
from .messages import SessionEvent

_MAX_EVENTS = 4096
_MAX_PROBATION = 256
_FORGIVEN_AFTER_TICKS = 1024


class Applied(NamedTuple):
    """The newest Action of a session: its id and when it was received."""

    action_id: Any = None
    received_ns: int | None = None


NOTHING_APPLIED = Applied()


class Session:
    """One attached session. Used by the loop's thread only.

    Attributes:
        seq: of the next chunk.
        active: whether the client has it running; false: paused.
        finished: its last chunk of this epoch has left the pipeline.
        epoch_begin_seq: ``seq`` of the first chunk of this epoch.
        conditioning, events: input of the next step.
        applied: the action that this input belongs to.
        quarantine: whether it may be stepped together with other sessions.
    """

    __slots__ = (
        "session_id",
        "context",
        "epoch",
        "seq",
        "active",
        "finished",
        "epoch_begin_seq",
        "conditioning",
        "events",
        "applied",
        "quarantine",
    )

    def __init__(self, session_id: str, context: Mapping[str, Any], epoch: int, seq: int) -> None:
        self.session_id = session_id
        self.seq = seq
        self.active = True
        self.quarantine = FailureQuarantine()
        self.begin_epoch(context, epoch)

    def begin_epoch(self, context: Mapping[str, Any], epoch: int) -> None:
        """Clear everything but the pause, the quarantine and ``seq``."""
        self.context = context
        self.epoch = epoch
        self.epoch_begin_seq = self.seq
        self.finished = False
        self.conditioning: Mapping[str, Any] = {}
        self.events: list[Any] = []
        self.applied = NOTHING_APPLIED

    @property
    def steppable(self) -> bool:
        """Whether it takes part in the next step."""
        return self.active and not self.finished

    def apply(self, conditioning: Mapping[str, Any], events: tuple[Any, ...], applied: Applied) -> None:
        """Apply an action: the newest state wins, edges queue up (the newest 4096 of a session that is not stepped)."""
        self.conditioning = conditioning
        self.applied = applied
        if events:
            self.events.extend(events)
            del self.events[:-_MAX_EVENTS]

    def take_conditioning(self) -> dict[str, Any]:
        """A copy of the conditioning for one step, with the edges since the last step, which are cleared."""
        conditioning = dict(self.conditioning)
        if self.events:
            conditioning["events"] = tuple(self.events)
            self.events.clear()
        return conditioning


class FailureQuarantine:
    """Decides whether a session may be stepped together with others.

    A session that failed is stepped alone until it has made one clean step. Each relapse doubles that number, up to
    256, so that a session which fails every other time does not cause a search for the culprit again and again.

    Attributes:
        failures_in_row: failed steps since the last clean one.
    """

    __slots__ = ("failures_in_row", "_probation", "_relapses", "_last_failure_tick")

    def __init__(self) -> None:
        self.failures_in_row = 0
        self._probation = 0  # clean steps that are still needed
        self._relapses = 0
        self._last_failure_tick: int | None = None

    @property
    def quarantined(self) -> bool:
        """Whether the session is stepped alone."""
        return self._probation > 0

    def record_failure(self, tick: int) -> None:
        """The session failed in this tick of the loop."""
        last = self._last_failure_tick
        if last is not None and tick - last > _FORGIVEN_AFTER_TICKS:
            self._relapses = 0
        elif last is not None and self.failures_in_row == 0:
            self._relapses += 1
        self._last_failure_tick = tick
        self.failures_in_row += 1
        self._probation = min(1 << min(self._relapses, 16), _MAX_PROBATION)

    def record_success(self) -> None:
        """The session made a chunk without a failure."""
        self.failures_in_row = 0
        if self._probation:
            self._probation -= 1


_MAX_IDENTITIES = 65_536
_FIRST_RETRY_NS = NS_PER_S // 10
_MAX_ATTEMPTS = 8
_MAX_PENDING = 4096


class Identities:
    """Epoch and sequence number of detached ids, at which a later session of the same id continues.

    Holds 65,536 ids; beyond that, the one that was detached first is forgotten and starts over.
    """

    def __init__(self) -> None:
        self._detached: dict[str, tuple[int, int]] = {}

    def allocate(self, session_id: str) -> tuple[int, int]:
        """The epoch and the first sequence number of a session that attaches now."""
        epoch, seq = self._detached.pop(session_id, (0, 0))
        return epoch + 1, seq

    def store(self, session_id: str, epoch: int, seq: int) -> None:
        """Remember the numbers of a session that is detached."""
        self._detached[session_id] = (epoch, seq)
        if len(self._detached) > _MAX_IDENTITIES:
            del self._detached[next(iter(self._detached))]

    def last_epoch(self, session_id: str) -> int:
        """The last epoch of an id that is not attached; 0 if it never was."""
        return self._detached.get(session_id, (0, 0))[0]


class _Retry(NamedTuple):
    attempts: int
    next_ns: int | None  # None: retried only when the id is attached or detached again


class PendingDetaches:
    """Sessions that are over for their client and whose ``detach`` has failed in the engine.

    A failed detach is retried after 0.1, 0.2, 0.4 ... seconds, eight attempts in all. Holds 4096 ids; beyond that, the
    oldest is forgotten.

    Args:
        detach: detaches a session in the engine; may raise anything.
        log: receives the failures.
    """

    def __init__(self, detach: Callable[[str], None], log: LogLimiter) -> None:
        self._detach = detach
        self._log = log
        self._pending: dict[str, _Retry] = {}

    def __bool__(self) -> bool:
        return bool(self._pending)

    @property
    def next_ns(self) -> int | None:
        """When to call :meth:`retry_due` next; ``None``: not before something changes."""
        return min((retry.next_ns for retry in self._pending.values() if retry.next_ns is not None), default=None)

    def detach(self, session_id: str, now_ns: int) -> BaseException | None:
        """Detach now; on failure schedule a retry and return the error."""
        error = self._try(session_id)
        self._pending.pop(session_id, None)
        if error is not None:
            self._pending[session_id] = _Retry(1, now_ns + _FIRST_RETRY_NS)
            if len(self._pending) > _MAX_PENDING:
                del self._pending[next(iter(self._pending))]
        return error

    def retry_now(self, session_id: str) -> bool:
        """Retry at once, because the id is needed; returns whether it is free now."""
        if session_id not in self._pending:
            return True
        if self._try(session_id) is not None:
            return False
        del self._pending[session_id]
        return True

    def retry_due(self, now_ns: int) -> None:
        """Retry the detaches that are due."""
        for session_id, (attempts, next_ns) in list(self._pending.items()):
            if next_ns is None or now_ns < next_ns:
                continue
            if self._try(session_id) is None:
                del self._pending[session_id]
            elif attempts + 1 < _MAX_ATTEMPTS:
                self._pending[session_id] = _Retry(attempts + 1, now_ns + (_FIRST_RETRY_NS << attempts))
            else:
                self._pending[session_id] = _Retry(attempts + 1, None)

    def _try(self, session_id: str) -> BaseException | None:
        try:
            self._detach(session_id)
        except BaseException as error:
            self._log.error("detach failed", error, session_id)
            return error
        return None


@dataclass(eq=False, slots=True)
class _PendingReply:
    event: SessionEvent
    steps: int


class PendingReplies:
    """Replies that wait until the chunks which precede them have left the pipeline, in order."""

    def __init__(self) -> None:
        self._replies: list[_PendingReply] = []

    def __bool__(self) -> bool:
        return bool(self._replies)

    def add(self, event: SessionEvent, steps: int) -> None:
        """Hold a reply back until :meth:`on_step` was called ``steps`` times for its session."""
        self._replies.append(_PendingReply(event, steps))

    def has(self, session_id: str) -> bool:
        """Whether a reply to this session is held back."""
        return any(reply.event.session_id == session_id for reply in self._replies)

    def steps_left(self, session_id: str) -> int:
        """Steps until the newest reply to this session may be sent; 0 when none is held back."""
        return max((reply.steps for reply in self._replies if reply.event.session_id == session_id), default=0)

    def on_step(self, session_id: str | None = None) -> list[SessionEvent]:
        """A step, of one session or of all, has sent its chunks: the replies that may be sent now."""
        for reply in self._replies:
            if session_id in (None, reply.event.session_id):
                reply.steps -= 1
        ready = [reply.event for reply in self._replies if reply.steps <= 0]
        self._replies = [reply for reply in self._replies if reply.steps > 0]
        return ready

    def pop(self, session_id: str | None = None) -> list[SessionEvent]:
        """Remove and return all replies, or those to one session, because no chunk will precede them any more."""
        popped = [reply.event for reply in self._replies if session_id in (None, reply.event.session_id)]
        self._replies = [reply for reply in self._replies if session_id not in (None, reply.event.session_id)]
        return popped
