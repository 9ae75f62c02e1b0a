"""What the serve loop remembers of one session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

_MOST_EVENTS = 4096
_LONGEST_PROBATION = 256
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
        "conditioning",
        "events",
        "applied",
        "trust",
    )

    def __init__(self, session_id: str, context: Mapping[str, Any], epoch: int, seq: int) -> None:
        self.session_id = session_id
        self.seq = seq  # of the next chunk
        self.active = True
        self.trust = Trust()
        self.begin_epoch(context, epoch)

    def begin_epoch(self, context: Mapping[str, Any], epoch: int) -> None:
        """Everything but the pause, the trust and the count of chunks starts anew."""
        self.context = context
        self.epoch = epoch
        self.conditioning: Mapping[str, Any] = {}
        self.events: list[Any] = []
        self.applied = NOTHING_APPLIED

    def apply(self, conditioning: Mapping[str, Any], events: tuple[Any, ...], applied: Applied) -> None:
        """Newest state wins; edges queue up (of a session that is not stepped for long, the newest 4096)."""
        self.conditioning = conditioning
        self.applied = applied
        if events:
            self.events.extend(events)
            del self.events[:-_MOST_EVENTS]

    def take_conditioning(self) -> dict[str, Any]:
        """A copy for one step, with the edges since the last one."""
        conditioning = dict(self.conditioning)
        if self.events:
            conditioning["events"] = tuple(self.events)
            self.events.clear()
        return conditioning


class Trust:
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
        self._probation = min(1 << min(self._relapses, 16), _LONGEST_PROBATION)

    def stepped_cleanly(self) -> None:
        self.failures_in_row = 0
        if self._probation:
            self._probation -= 1
