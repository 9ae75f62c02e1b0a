"""How far a stage is with a session."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from .graph import StageTable
from .metrics import StageRecord, WaitReason
from .specs import StageOrdering
from .types import ControlStamp

if TYPE_CHECKING:
    from .session import StreamingSession


Controls: TypeAlias = dict[str, ControlStamp]


class Slot:
    """One value of an artifact, kept until its last use."""

    __slots__ = ("value", "references", "controls")

    def __init__(self, value: object, references: int, controls: Controls | None = None) -> None:
        self.value = value
        self.references = references
        self.controls = controls


def merged(stamps: Iterable[Controls | None], sampled: Controls) -> Controls:
    """The oldest version of every control that had a part in something."""
    found = dict(sampled)
    for controls in stamps:
        for artifact, stamp in (controls or {}).items():
            if artifact not in found or stamp < found[artifact]:
                found[artifact] = stamp
    return found


class StageProgress:
    """How far a stage is with a session.

    Attributes:
        base: lowest sequence that the stage has not taken.
        arrived: sequence -> mask of the inputs that wait here.
        completed: how many sequences it has answered.
        queued: whether the session waits for a turn here.
        wait_reason, missing: what keeps the next chunk, for the idle intervals.
    """

    __slots__ = (
        "session",
        "table",
        "strict",
        "base",
        "ahead",
        "arrived",
        "ready",
        "in_flight",
        "completed",
        "queued",
        "wait_reason",
        "missing",
        "balance",
        "record",
    )

    def __init__(self, session: StreamingSession, table: StageTable, window: int) -> None:
        self.session = session
        self.table = table
        self.strict = table.spec.ordering is StageOrdering.PER_SESSION_STRICT
        self.base = 0
        self.ahead: set[int] = set()
        self.arrived: dict[int, int] = {}
        self.ready: list[int] = []
        self.in_flight = 0
        self.completed = 0
        self.queued = False
        self.wait_reason = int(WaitReason.SCHEDULER_ADMISSION)
        self.missing = 0
        self.balance = 0.0
        self.record = StageRecord(window)

    def arrive(self, artifact: str, sequence_id: int, now_ns: int) -> bool:
        """Whether this was the last that the sequence lacked."""
        mask = self.arrived.get(sequence_id, 0) | self.table.bits[artifact]
        self.arrived[sequence_id] = mask
        if mask != self.table.full_mask:
            return False
        heapq.heappush(self.ready, sequence_id)
        self.record.ready(sequence_id, now_ns)
        return True

    @property
    def taken(self) -> int:
        """How many sequences the stage has taken."""
        return self.base + len(self.ahead)

    def next_ready(self) -> int | None:
        """The sequence that the stage may take next."""
        if not self.ready or (self.strict and self.ready[0] != self.base):
            return None
        return self.ready[0]

    def take(self) -> int:
        """Take what :meth:`next_ready` says."""
        sequence_id = heapq.heappop(self.ready)
        del self.arrived[sequence_id]
        if sequence_id != self.base:
            self.ahead.add(sequence_id)
            return sequence_id
        self.base += 1
        while self.base in self.ahead:
            self.ahead.remove(self.base)
            self.base += 1
        return sequence_id

    def has_room(self, sequence_id: int, output_capacity: int) -> bool:
        """Whether all that the stage makes of a sequence has a place."""
        session, table = self.session, self.table
        for target, capacity in table.room:
            if sequence_id >= session.stages[target].base + capacity:
                return False
        for number in table.outputs.values():
            if sequence_id >= session.polled[number] + output_capacity:
                return False
        return True

    def drop(self, start: int) -> list[Slot]:
        """Take away what waits, from sequence ``start`` on."""
        dropped: list[Slot] = []
        for sequence_id in [waiting for waiting in self.arrived if waiting >= start]:
            mask = self.arrived.pop(sequence_id)
            arrived = (artifact for artifact in self.table.queued if mask & self.table.bits[artifact])
            dropped += [self.session.release(artifact, sequence_id) for artifact in arrived]
        self.ready = sorted(waiting for waiting in self.ready if waiting < start)
        return dropped
