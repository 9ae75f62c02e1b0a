"""Progress of one session at one stage, and the values of its artifacts."""

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
    """The value of an artifact, kept until its last reference is dropped."""

    __slots__ = ("value", "references", "controls")

    def __init__(self, value: object, references: int, controls: Controls | None = None) -> None:
        self.value = value
        self.references = references
        self.controls = controls


def merged(stamps: Iterable[Controls | None], sampled: Controls) -> Controls:
    """The oldest version of each control in ``sampled`` and ``stamps``."""
    found = dict(sampled)
    for controls in stamps:
        for artifact, stamp in (controls or {}).items():
            if artifact not in found or stamp < found[artifact]:
                found[artifact] = stamp
    return found


class StageProgress:
    """Progress of one session at one stage.

    Attributes:
        base: lowest sequence that the stage has not taken; ``ahead``: those above it that it has.
        arrived: sequence -> mask of the inputs that wait here.
        ready: heap of the sequences whose inputs are complete.
        in_flight, completed: number of sequences at the actor, and completed.
        queued: whether the session is in the queue of the stage.
        wait_reason, missing: what keeps the next chunk, for the idle intervals.
        balance: kept by the fair queue.
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
        """Add an input; returns whether the sequence is complete now."""
        mask = self.arrived.get(sequence_id, 0) | self.table.bits[artifact]
        self.arrived[sequence_id] = mask
        if mask != self.table.full_mask:
            return False
        heapq.heappush(self.ready, sequence_id)
        self.record.ready(sequence_id, now_ns)
        return True

    @property
    def taken(self) -> int:
        """Number of sequences that the stage has taken."""
        return self.base + len(self.ahead)

    def next_ready(self) -> int | None:
        """The sequence that the stage may take next, if there is one."""
        if not self.ready or (self.strict and self.ready[0] != self.base):
            return None
        return self.ready[0]

    def take_next(self) -> int:
        """Take the sequence of :meth:`next_ready`."""
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
        """Whether there is room for all outputs of a sequence."""
        session, table = self.session, self.table
        for target, capacity in table.room:
            if sequence_id >= session.stages[target].base + capacity:
                return False
        return not table.outputs or all(
            sequence_id < session.polled[number] + output_capacity for number in table.outputs.values()
        )

    def drop(self, start: int) -> list[Slot]:
        """Remove what waits, from sequence ``start`` on; returns the values."""
        dropped: list[Slot] = []
        for sequence_id in [waiting for waiting in self.arrived if waiting >= start]:
            mask = self.arrived.pop(sequence_id)
            arrived = (artifact for artifact in self.table.queued if mask & self.table.bits[artifact])
            dropped += [self.session.drop_reference(artifact, sequence_id) for artifact in arrived]
        self.ready = sorted(waiting for waiting in self.ready if waiting < start)
        return dropped
