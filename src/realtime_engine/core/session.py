"""What the serve loop remembers of one session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .clock import NS_PER_S
from .loglimit import LogLimiter
from .messages import SessionEvent

_MAX_EVENTS = 4096
_MAX_PROBATION = 256
_FORGIVEN_AFTER = 1024


class Applied(NamedTuple):
    """The newest Action of a session: its id and when it was received."""

    action_id: Any = None
    received_ns: int | None = None


NOTHING_APPLIED = Applied()


class Session:
    """One attached session, as the loop's thread sees it."""

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
        "trust",
    )

    def __init__(self, session_id: str, context: Mapping[str, Any], epoch: int, seq: int) -> None:
        self.session_id = session_id
        self.seq = seq  # of the next chunk
        self.active = True
        self.trust = FailureQuarantine()
        self.begin_epoch(context, epoch)

    def begin_epoch(self, context: Mapping[str, Any], epoch: int) -> None:
        """Everything but the pause, the trust and the count of chunks starts anew."""
        self.context = context
        self.epoch = epoch
        self.epoch_begin_seq = self.seq
        self.finished = False  # its last chunk of this epoch has left the pipeline
        self.conditioning: Mapping[str, Any] = {}
        self.events: list[Any] = []
        self.applied = NOTHING_APPLIED

    @property
    def steppable(self) -> bool:
        """Whether it takes part in the next step."""
        return self.active and not self.finished

    def apply(self, conditioning: Mapping[str, Any], events: tuple[Any, ...], applied: Applied) -> None:
        """Newest state wins; edges queue up (of a session that is not stepped for long, the newest 4096)."""
        self.conditioning = conditioning
        self.applied = applied
        if events:
            self.events.extend(events)
            del self.events[:-_MAX_EVENTS]

    def take_conditioning(self) -> dict[str, Any]:
        """A copy for one step, with the edges since the last one."""
        conditioning = dict(self.conditioning)
        if self.events:
            conditioning["events"] = tuple(self.events)
            self.events.clear()
        return conditioning


class FailureQuarantine:
    """Whether a session may be stepped together with the others.

    One that failed is stepped apart until it has made one clean step. Each relapse doubles that, up to 256, so that a
    session that fails every other time does not drag the batch into a search again and again.
    """

    __slots__ = ("failures_in_row", "_probation", "_relapses", "_last_failure_tick")

    def __init__(self) -> None:
        self.failures_in_row = 0
        self._probation = 0
        self._relapses = 0
        self._last_failure_tick: int | None = None

    @property
    def apart(self) -> bool:
        return self._probation > 0

    def failed(self, tick: int) -> None:
        last = self._last_failure_tick
        if last is not None and tick - last > _FORGIVEN_AFTER:
            self._relapses = 0
        elif last is not None and self.failures_in_row == 0:
            self._relapses += 1
        self._last_failure_tick = tick
        self.failures_in_row += 1
        self._probation = min(1 << min(self._relapses, 16), _MAX_PROBATION)

    def stepped_cleanly(self) -> None:
        self.failures_in_row = 0
        if self._probation:
            self._probation -= 1


_MAX_IDENTITIES = 65_536
_FIRST_RETRY_NS = NS_PER_S // 10
_MAX_ATTEMPTS = 8
_MAX_HELD = 4096


class Identities:
    """Epoch and sequence number of ids that have left, so that a later session of the same id carries on.

    Of more than 65,536 ids the one that left first is forgotten and would start over.
    """

    def __init__(self) -> None:
        self._left: dict[str, tuple[int, int]] = {}

    def begin(self, session_id: str) -> tuple[int, int]:
        """The epoch and the first sequence number of a session that attaches now."""
        epoch, seq = self._left.pop(session_id, (0, 0))
        return epoch + 1, seq

    def end(self, session_id: str, epoch: int, seq: int) -> None:
        self._left[session_id] = (epoch, seq)
        if len(self._left) > _MAX_IDENTITIES:
            del self._left[next(iter(self._left))]

    def epoch(self, session_id: str) -> int:
        """The last epoch of an id that is not attached; 0 if it never was."""
        return self._left.get(session_id, (0, 0))[0]


class PendingDetaches:
    """Sessions that are over for their caller and that the engine would not let go of yet.

    ``release`` is tried at once and then again after 0.1, 0.2, 0.4 ... seconds, eight times in all. Of more than 4096
    the oldest is forgotten.
    """

    def __init__(self, release: Callable[[str], None], log: LogLimiter) -> None:
        self._release = release
        self._log = log
        self._held: dict[str, tuple[int, int | None]] = {}  # id -> attempts made, time of the next

    @property
    def waiting(self) -> bool:
        return bool(self._held)

    @property
    def next_ns(self) -> int | None:
        """When to call :meth:`retry` next."""
        return min((when for _, when in self._held.values() if when is not None), default=None)

    def release(self, session_id: str, now_ns: int) -> BaseException | None:
        """Try now; on failure remember the id and return the error."""
        error = self._try(session_id)
        self._held.pop(session_id, None)
        if error is not None:
            self._held[session_id] = (1, now_ns + _FIRST_RETRY_NS)
            if len(self._held) > _MAX_HELD:
                del self._held[next(iter(self._held))]
        return error

    def settle(self, session_id: str) -> bool:
        """Try again out of turn, because the id is wanted; true when nothing is held under it."""
        if session_id not in self._held:
            return True
        if self._try(session_id) is not None:
            return False
        del self._held[session_id]
        return True

    def retry(self, now_ns: int) -> None:
        """Try those whose time has come."""
        for session_id, (attempts, when) in list(self._held.items()):
            if when is None or now_ns < when:
                continue
            if self._try(session_id) is None:
                del self._held[session_id]
            elif attempts + 1 < _MAX_ATTEMPTS:
                self._held[session_id] = (attempts + 1, now_ns + (_FIRST_RETRY_NS << attempts))
            else:
                self._held[session_id] = (
                    attempts + 1,
                    None,
                )  # its row stays taken until the id is attached again

    def _try(self, session_id: str) -> BaseException | None:
        try:
            self._release(session_id)
        except BaseException as error:
            self._log.error("detach failed", error, session_id)
            return error
        return None


@dataclass(eq=False, slots=True)
class _Held:
    event: SessionEvent
    steps: int


class PendingReplies:
    """Answers in the order in which they were given, each with the number of steps that it has to wait."""

    def __init__(self) -> None:
        self._held: list[_Held] = []

    def __bool__(self) -> bool:
        return bool(self._held)

    def hold(self, event: SessionEvent, steps: int) -> None:
        """Keep an answer until :meth:`step_passed` was called ``steps`` times."""
        self._held.append(_Held(event, steps))

    def holds(self, session_id: str) -> bool:
        """Whether an answer of this session waits."""
        return any(held.event.session_id == session_id for held in self._held)

    def step_passed(self) -> list[SessionEvent]:
        """A step has brought out its chunks: the answers whose time has come."""
        for held in self._held:
            held.steps -= 1
        ready = [held.event for held in self._held if held.steps <= 0]
        self._held = [held for held in self._held if held.steps > 0]
        return ready

    def take(self, session_id: str | None = None) -> list[SessionEvent]:
        """All answers, or those of one session, because no chunk will come before them any more."""
        taken = [held.event for held in self._held if session_id in (None, held.event.session_id)]
        self._held = [held for held in self._held if session_id not in (None, held.event.session_id)]
        return taken
