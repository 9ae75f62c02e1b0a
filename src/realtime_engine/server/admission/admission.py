"""Admission: gives the places of an engine to the clients that ask for them, in order and in turns."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

from ...core.clock import MONOTONIC, NS_PER_S, Clock
from ..config import ServerConfig
from ..problems import TURN_IS_OVER, Problem
from ..sessions.registry import PreparedSession, Sessions
from ..sessions.session import DemoSession
from .clients import Client, exceeds_limit
from .deadlines import Deadlines
from .ticket_streams import TicketStreams
from .turns import TurnLengths, Turns, expected_waits_s
from .waiting_line import LineFullError, Ticket, TicketState, WaitingLine

__all__ = ["Admission", "TicketStatus"]

logger = logging.getLogger(__name__)

_RESERVATION_S = 10.0
_NOTICE_S = 10.0
_ABSENCE_S = 30.0
_REFUSED_S = 2.0  # after the engine refused a session for which it had declared room
_MAX_RETRY_AFTER_S = 60


@dataclass(frozen=True)
class TicketStatus:
    """What a client is shown of its ticket.

    Attributes:
        state: the state of the ticket.
        position: in the line, from 1 on; 0 if the ticket is not in it.
        estimated_wait_s: expected time until it gets a place, from measured lengths of sessions; 0 with a place.
        claim_within_s: time left to claim the place; ``None`` without one.
    """

    state: TicketState
    position: int = 0
    estimated_wait_s: float = 0.0
    claim_within_s: float | None = None


@dataclass(eq=False)
class _Place:
    """A place that was claimed with a ticket, until its session has ended."""

    client: Client
    session: DemoSession
    claim: asyncio.Task[DemoSession | Ticket]


class Admission:
    """Decides who gets a session. Belongs to one event loop.

    A place is free, reserved for a ticket, or claimed. Every client that asks for a session gets a ticket, and claims a
    place with it at once if the line is empty.

    Args:
        sessions: the sessions of the engine.
        config: the settings of the server.
        clock: the current time.
        deadlines: limits the places by the measured step times; ``None``: the capacity of the engine alone counts.
    """

    def __init__(
        self,
        sessions: Sessions,
        config: ServerConfig,
        clock: Clock = MONOTONIC,
        *,
        deadlines: Deadlines | None = None,
    ) -> None:
        turn_s = None if config.turn_minutes is None else config.turn_minutes * 60
        self._sessions = sessions
        self._max_per_client = config.max_per_client
        self._clock = clock
        self._deadlines = deadlines
        self._line = WaitingLine(clock, limit=config.queue_limit, reservation_s=_RESERVATION_S, absence_s=_ABSENCE_S)
        self._turns = Turns(clock, turn_s=turn_s, idle_s=config.idle_timeout_s, notice_s=_NOTICE_S)
        self._lengths = TurnLengths(turn_s)
        self._places: dict[str, _Place] = {}  # by ticket id
        self._refused_until_ns = 0
        self._timer: asyncio.TimerHandle | None = None
        self._streams = TicketStreams(lambda: self._line.tickets)
        self._closed = False
        sessions.on_ended = self._on_session_ended

    @property
    def waiting(self) -> int:
        """Number of tickets in the line, those with a reserved place included."""
        return len(self._line)

    async def enter(self, context: Mapping[str, Any], client: Client, ticket_id: str | None) -> DemoSession | Ticket:
        """A session, or a ticket if there is no place for the client yet.

        The ticket with which a place was claimed gives the same session again, so that a client may repeat a request
        whose response was lost.

        Raises:
            Problem: as :meth:`Sessions.prepare` and :meth:`Sessions.start`; the client has as many sessions as it may
                have (429); the line is full (503).
        """
        prepared = self._sessions.prepare(context)
        place = None if ticket_id is None else self._places.get(ticket_id)
        if place is None:
            self.review()
            ticket = self._ticket_for(client, ticket_id)
            if not self._line.claim(ticket):
                return ticket
            session = self._sessions.add(prepared)
            start = self._start(session, prepared, ticket, had_waited=ticket_id is not None)
            place = self._places[ticket.id] = _Place(client, session, asyncio.create_task(start, name="claim"))
        return await asyncio.shield(place.claim)

    def find(self, ticket_id: str) -> Ticket:
        """The ticket with this id, which its client has requested.

        Raises:
            Problem: there is none (404), or it is not in the line any more (410).
        """
        ticket = self._line.find(ticket_id)
        if ticket is not None:
            self._line.touch(ticket)
            return ticket
        state = self._line.ended_state(ticket_id)
        if state is None:
            raise Problem("no-ticket", "There is no such ticket.")
        raise Problem("ticket-over", f"The ticket is not in the line any more: {state.value}.")

    def find_if_waiting(self, ticket_id: str) -> Ticket | None:
        """The ticket with this id, if it is in the line."""
        return self._line.find(ticket_id)

    def leave(self, ticket: Ticket) -> None:
        """The client does not wait any more. Idempotent."""
        self._line.leave(ticket)
        self.review()

    def status(self, ticket: Ticket) -> TicketStatus:
        """What the client of a ticket is shown."""
        if ticket.deadline_ns is not None and ticket.state is TicketState.RESERVED:
            remaining_s = max(0.0, (ticket.deadline_ns - self._clock.now_ns()) / NS_PER_S)
            return TicketStatus(ticket.state, self._position(ticket), 0.0, remaining_s)
        if ticket.state is not TicketState.WAITING:
            return TicketStatus(ticket.state)
        position = self._position(ticket)
        return TicketStatus(ticket.state, position, self._expected_wait_s(position))

    async def updates(self, ticket: Ticket) -> AsyncGenerator[TicketStatus, None]:
        """The status of a ticket now and after each change of its state or position, until it leaves the line."""
        self._line.on_stream(ticket, opened=True)
        changed = self._streams.open(ticket)
        self.review()
        sent: tuple[TicketState, int] | None = None
        try:
            while True:
                changed.clear()
                status = self.status(ticket)
                if (status.state, status.position) != sent:
                    sent = status.state, status.position
                    yield status
                if not status.position:
                    return
                await changed.wait()
        finally:
            self._streams.close(ticket, changed)
            self._line.on_stream(ticket, opened=False)
            self.review()

    def review(self) -> None:
        """Apply what has changed: reserve free places, end turns that are over, and inform those who wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closed:
            return
        self._line.review(self._free)
        self._review_turns()
        self._streams.on_change()
        times_ns = [self._line.next_change_ns(), self._turns.next_change_ns(), self._refusal_end_ns()]
        if self._deadlines is not None and self._line.waiting:
            times_ns.append(self._deadlines.next_change_ns())
        next_ns = min((time_ns for time_ns in times_ns if time_ns is not None), default=None)
        if next_ns is not None:
            delay_s = max(0, next_ns - self._clock.now_ns()) / NS_PER_S
            self._timer = asyncio.get_running_loop().call_later(delay_s, self.review)

    def close(self) -> None:
        """Admit no more clients, and end all event streams."""
        self._closed = True
        for ticket in self._line.tickets:
            self._line.leave(ticket)
        self._streams.on_change()
        if self._timer is not None:
            self._timer.cancel()

    # -- places

    @property
    def _free(self) -> int:
        """Places that no session has, the reserved ones included."""
        if self._refusal_end_ns() is not None:
            return 0
        free = max(0, self._sessions.capacity - self._sessions.occupied)
        if self._deadlines is None or not free:
            return free
        return 1 if self._deadlines.allows(self._sessions.occupied) else 0

    def _refusal_end_ns(self) -> int | None:
        """Until when no place is given, because the engine has refused a session for which it had declared room."""
        return self._refused_until_ns if self._clock.now_ns() < self._refused_until_ns else None

    def _ticket_for(self, client: Client, ticket_id: str | None) -> Ticket:
        found = None if ticket_id is None else self._line.find(ticket_id)
        if found is not None:
            self._line.touch(found)
            return found
        others = [place.client for place in self._places.values()]
        others += [ticket.client for ticket in self._line.tickets if ticket.client.key != client.key]
        if exceeds_limit(client, others, self._max_per_client):
            raise Problem("too-many", f"Each client may have {self._max_per_client} of the sessions at a time.")
        try:
            ticket = self._line.join(client, self._free)
        except LineFullError:
            raise self._full() from None
        self.review()
        return ticket

    def _full(self) -> Problem:
        position = len(self._line) + 1
        delay_s = min(max(math.ceil(self._expected_wait_s(position)), 1), _MAX_RETRY_AFTER_S)
        capacity = self._sessions.capacity
        detail = f"All {capacity} sessions are in use" if capacity != 1 else "The only session is in use"
        waiting = f", and {len(self._line)} clients wait for one" if self._line else ""
        return Problem("full", f"{detail}{waiting}.", headers={"Retry-After": str(delay_s)})

    async def _start(
        self, session: DemoSession, prepared: PreparedSession, ticket: Ticket, *, had_waited: bool
    ) -> DemoSession | Ticket:
        """Start the session of a claimed place. If the engine has no room after all, the ticket is valid again."""
        try:
            await self._sessions.start(session, prepared)
        except Problem as problem:
            self._places.pop(ticket.id, None)
            is_full = problem.kind == "full"
            if is_full:
                self._refused_until_ns = self._clock.now_ns() + round(_REFUSED_S * NS_PER_S)
            if is_full or had_waited:
                self._line.restore(ticket)
            if not is_full:
                raise
            return ticket
        finally:
            self.review()
        return session

    def _on_session_ended(self, session: DemoSession) -> None:
        self._places = {key: place for key, place in self._places.items() if place.session is not session}
        if session.started_ns is not None:
            self._lengths.record(self._clock.now_ns() - session.started_ns)
        self.review()

    # -- turns

    def _review_turns(self) -> None:
        running = {each.id: each for each in self._sessions.all()}
        ending = self._sessions.occupied - len(running)
        started_ns = {each.id: each.started_ns for each in running.values() if each.started_ns is not None}
        input_ns = {each.id: each.last_input_ns for each in running.values() if each.last_input_ns is not None}
        over = self._turns.review(started_ns, self._line.waiting - ending, input_ns)
        for session_id, session in running.items():
            session.announce_turn_end(self._turns.deadlines.get(session_id), self.review)
        for session_id in over:
            logger.info("session %s ends, because its turn is over", session_id)
            running[session_id].end(TURN_IS_OVER)

    # -- the line

    def _position(self, ticket: Ticket) -> int:
        return self._line.tickets.index(ticket) + 1

    def _expected_wait_s(self, position: int) -> float:
        now_ns = self._clock.now_ns()
        ages_s = [(now_ns - each.started_ns) / NS_PER_S for each in self._sessions.all() if each.started_ns is not None]
        free = self._sessions.capacity - len(ages_s)
        waits_s = expected_waits_s(free, ages_s, self._lengths.expected_s)
        return next(itertools.islice(waits_s, position - 1, None), 0.0)
