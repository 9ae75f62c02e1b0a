"""Fair queueing of sessions by the time that their chunks take."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

SMOOTHING = 1 / 16
QUANTUM_SHARE = 0.25  # of the mean cost: a member with cheaper chunks gets less than its share, one turn a round
MAX_DEBT = 32  # quanta: limits how long one expensive chunk keeps a member from being served
MIN_QUANTUM = 1.0


class Account(Protocol):
    """A member of the queue. ``balance``: nanoseconds that it may still use, kept by :class:`DeficitRoundRobin`."""

    balance: float


A = TypeVar("A", bound=Account)


class DeficitRoundRobin(Generic[A]):
    """Serves members whose chunks take different times so that each gets the same share of the time.

    Deficit round-robin (Shreedhar and Varghese, 1995), charged after the service, since the cost of a chunk is not
    known before. A member is served while its balance is positive; each visit while it is not adds a quantum, a
    fraction of the mean cost. With chunks of equal cost this is plain round-robin. A service takes constant time on
    average, since it causes at most ``MAX_DEBT`` visits.
    """

    __slots__ = ("_queue", "quantum")

    def __init__(self) -> None:
        self._queue: OrderedDict[A, None] = OrderedDict()
        self.quantum = MIN_QUANTUM

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, member: A) -> None:
        """Queue a member."""
        self._queue[member] = None

    def discard(self, member: A) -> None:
        """Remove a member, if it is queued."""
        self._queue.pop(member, None)

    def pop(self) -> A:
        """Remove and return the member to serve next.

        Raises:
            KeyError: the queue is empty.
        """
        queue, quantum = self._queue, self.quantum
        while True:
            member, _ = queue.popitem(last=False)
            if member.balance <= 0:
                member.balance = max(member.balance, -MAX_DEBT * quantum) + quantum
                if member.balance <= 0 and queue:
                    queue[member] = None
                    continue
            return member

    def charge(self, member: A, cost_ns: float) -> None:
        """Charge a member for its service."""
        self.quantum = max(self.quantum + (cost_ns * QUANTUM_SHARE - self.quantum) * SMOOTHING, MIN_QUANTUM)
        member.balance = min(member.balance - cost_ns, self.quantum)
