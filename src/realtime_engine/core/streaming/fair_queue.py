"""Whose turn it is."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

SMOOTHING = 1 / 16
QUANTUM_SHARE = 0.25  # of the mean cost: what costs less than a quantum falls behind, as it has one turn a round
MAX_DEBT = 32  # quanta: one long chunk must not lock a session out
MIN_QUANTUM = 1.0


class Account(Protocol):
    """A member of the queue. ``balance``: nanoseconds that it may still use, kept by :class:`DeficitRoundRobin`."""

    balance: float


A = TypeVar("A", bound=Account)


class DeficitRoundRobin(Generic[A]):
    """Turns of members whose chunks cost different times, each to the same share of the time.

    Deficit round-robin (Shreedhar and Varghese, 1995) in the form that charges after the service, since a chunk's cost
    is only known then: a member is served while its balance is positive, and every visit while it is not adds a
    quantum, which is a part of the mean cost. Chunks of equal cost make it a plain round-robin. A turn takes constant
    time on average: a service causes at most ``MAX_DEBT`` visits.
    """

    __slots__ = ("_line", "quantum")

    def __init__(self) -> None:
        self._line: OrderedDict[A, None] = OrderedDict()
        self.quantum = MIN_QUANTUM

    def __len__(self) -> int:
        return len(self._line)

    def add(self, member: A) -> None:
        """Let it wait for a turn."""
        self._line[member] = None

    def discard(self, member: A) -> None:
        """It does not wait any longer; nothing when it did not."""
        self._line.pop(member, None)

    def take(self) -> A:
        """The member whose turn it is, which waits no longer. ``KeyError`` when nobody waits."""
        line, quantum = self._line, self.quantum
        while True:
            member, _ = line.popitem(last=False)
            if member.balance <= 0:
                member.balance = max(member.balance, -MAX_DEBT * quantum) + quantum
                if member.balance <= 0 and line:
                    line[member] = None
                    continue
            return member

    def charge(self, member: A, cost_ns: float) -> None:
        """Charge the cost of a turn."""
        self.quantum = max(self.quantum + (cost_ns * QUANTUM_SHARE - self.quantum) * SMOOTHING, MIN_QUANTUM)
        member.balance = min(member.balance - cost_ns, self.quantum)
