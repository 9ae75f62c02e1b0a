"""The waiting line: tickets in order, and places reserved for the first of them. No timers, no I/O."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from ...core.clock import NS_PER_S, Clock
from .clients import Client

__all__ = ["LineFullError", "Ticket", "TicketState", "WaitingLine"]

_MAX_ENDED = 1024


class LineFullError(Exception):
    """The waiting line has its maximum of tickets."""


class TicketState(str, Enum):
    """State of a ticket; the last four are final."""

    WAITING = "waiting"
    RESERVED = "reserved"
    CLAIMED = "claimed"
    LEFT = "left"
    EXPIRED = "expired"
    ABSENT = "absent"


@dataclass(eq=False)
class Ticket:
    """A client's place in the waiting line. Times are monotonic nanoseconds.

    Attributes:
        client: the client that it was issued to.
        seen_ns: when the client last requested it, or its last event stream ended.
        id: the secret that identifies the ticket.
        state: ``WAITING`` until a place is reserved for it.
        streams: the client's open event streams; with one, the client is present.
        deadline_ns: the end of the reservation; ``None`` while it waits.
    """

    client: Client
    seen_ns: int
    id: str = field(default_factory=lambda: secrets.token_urlsafe(18), repr=False)
    state: TicketState = TicketState.WAITING
    streams: int = 0
    deadline_ns: int | None = None


class WaitingLine:
    """Tickets in the order of issue. The head gets the next free place.

    Reserved tickets stand before waiting ones. The owner calls :meth:`review` whenever the number of free places or the
    presence of a client changes, and at :meth:`next_change_ns`.

    Args:
        clock: the current time.
        limit: maximum number of tickets without a place.
        reservation_s: how long a place is reserved for a ticket, in seconds.
        absence_s: how long a ticket is kept whose client neither requests it nor has an event stream, in seconds.
    """

    def __init__(self, clock: Clock, *, limit: int, reservation_s: float, absence_s: float) -> None:
        self._clock = clock
        self._limit = limit
        self._reservation_ns = round(reservation_s * NS_PER_S)
        self._absence_ns = round(absence_s * NS_PER_S)
        self._tickets: dict[str, Ticket] = {}  # by id, in order
        self._by_client: dict[str, Ticket] = {}
        self._reserved = 0
        self._ended: dict[str, TicketState] = {}  # by id, oldest first

    def __len__(self) -> int:
        return len(self._tickets)

    @property
    def tickets(self) -> Sequence[Ticket]:
        """All tickets, the head first."""
        return tuple(self._tickets.values())

    @property
    def reserved(self) -> int:
        """Number of reserved places."""
        return self._reserved

    @property
    def waiting(self) -> int:
        """Number of tickets without a place."""
        return len(self._tickets) - self._reserved

    def find(self, ticket_id: str) -> Ticket | None:
        """The ticket with this id, if it is in the line."""
        return self._tickets.get(ticket_id)

    def ended_state(self, ticket_id: str) -> TicketState | None:
        """The state of a ticket that has left the line; the newest 1024 are remembered."""
        return self._ended.get(ticket_id)

    def join(self, client: Client, free: int) -> Ticket:
        """The ticket of a client, issued at the end of the line if it has none.

        Args:
            client: the client.
            free: as of :meth:`review`.

        Raises:
            LineFullError: ``limit`` tickets wait, and no place is left.
        """
        ticket = self._by_client.get(client.key)
        if ticket is not None:
            self.touch(ticket)
            return ticket
        if self.waiting >= self._limit and free <= self._reserved:
            raise LineFullError
        ticket = Ticket(client, self._clock.now_ns())
        self._tickets[ticket.id] = self._by_client[client.key] = ticket
        return ticket

    def touch(self, ticket: Ticket) -> None:
        """The client has requested the ticket."""
        ticket.seen_ns = self._clock.now_ns()

    def on_stream(self, ticket: Ticket, opened: bool) -> None:
        """An event stream of the client has begun or ended."""
        ticket.streams += 1 if opened else -1
        self.touch(ticket)

    def claim(self, ticket: Ticket) -> bool:
        """Use the reserved place, which then belongs to the caller; false if none is reserved."""
        if ticket.state is not TicketState.RESERVED:
            return False
        self._remove(ticket, TicketState.CLAIMED)
        return True

    def restore(self, ticket: Ticket) -> None:
        """Put a claimed ticket back to the head, because its place could not be used.

        A ticket that its client has got since then is dropped.
        """
        newer = self._by_client.get(ticket.client.key)
        if newer is not None:
            self._remove(newer, TicketState.LEFT)
        ticket.state, ticket.deadline_ns = TicketState.WAITING, None
        ticket.seen_ns = self._clock.now_ns()
        reserved = self.tickets[: self._reserved]
        rest = self.tickets[self._reserved :]
        self._ended.pop(ticket.id, None)
        self._tickets = {each.id: each for each in (*reserved, ticket, *rest)}
        self._by_client[ticket.client.key] = ticket

    def leave(self, ticket: Ticket) -> None:
        """The client does not wait any more. Idempotent."""
        if ticket.id in self._tickets:
            self._remove(ticket, TicketState.LEFT)

    def review(self, free: int) -> None:
        """Drop the tickets of absent clients and expired reservations, and reserve places for the first tickets.

        Args:
            free: places that no session has, the reserved ones included.
        """
        now_ns = self._clock.now_ns()
        for ticket in self.tickets:
            if ticket.deadline_ns is not None and now_ns >= ticket.deadline_ns:
                self._remove(ticket, TicketState.EXPIRED)
            elif not ticket.streams and now_ns - ticket.seen_ns >= self._absence_ns:
                self._remove(ticket, TicketState.ABSENT)
        for ticket in self.tickets[self._reserved : max(free, self._reserved)]:
            ticket.state = TicketState.RESERVED
            ticket.deadline_ns = now_ns + self._reservation_ns
            self._reserved += 1

    def next_change_ns(self) -> int | None:
        """When :meth:`review` may drop a ticket without another event; ``None`` if the line is empty or all stay."""
        times_ns = [ticket.deadline_ns for ticket in self._tickets.values() if ticket.deadline_ns is not None]
        times_ns += [t.seen_ns + self._absence_ns for t in self._tickets.values() if not t.streams]
        return min(times_ns, default=None)

    def _remove(self, ticket: Ticket, state: TicketState) -> None:
        if ticket.deadline_ns is not None:
            self._reserved -= 1
        ticket.state = state
        self._ended[ticket.id] = state
        if len(self._ended) > _MAX_ENDED:
            del self._ended[next(iter(self._ended))]
        del self._tickets[ticket.id]
        del self._by_client[ticket.client.key]
