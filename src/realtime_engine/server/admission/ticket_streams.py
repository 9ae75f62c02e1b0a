"""Wakes the event streams of the tickets, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from .waiting_line import Ticket, TicketState

__all__ = ["TicketStreams"]

_SLICE = 16  # streams that are woken at once
_SLICE_PERIOD_S = 0.01


class TicketStreams:
    """The open event streams of all tickets. Belongs to one event loop.

    A change concerns every ticket behind it, so the streams of a long line are woken in slices, the head first: the
    event loop runs other tasks between two of them.

    Args:
        tickets: the tickets in the line, the head first.
    """

    def __init__(self, tickets: Callable[[], Iterable[Ticket]]) -> None:
        self._tickets = tickets
        self._events: dict[Ticket, set[asyncio.Event]] = {}
        self._dirty = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def open(self, ticket: Ticket) -> asyncio.Event:
        """An event that is set whenever the state of the ticket may have changed; the reader clears it."""
        event = asyncio.Event()
        self._events.setdefault(ticket, set()).add(event)
        if self._task is None:
            self._task = asyncio.create_task(self._wake_all(), name="ticket streams")
        return event

    def close(self, ticket: Ticket, event: asyncio.Event) -> None:
        """The stream has ended."""
        events = self._events[ticket]
        events.remove(event)
        if not events:
            del self._events[ticket]
        if not self._events and self._task is not None:
            self._task.cancel()
            self._task = None

    def on_change(self) -> None:
        """The line has changed. A ticket that has got a place or left the line is woken at once."""
        for ticket in self._events:
            if ticket.state is not TicketState.WAITING:
                self._wake(ticket)
        self._dirty.set()

    async def _wake_all(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            tickets = tuple(self._tickets())
            for start in range(0, len(tickets), _SLICE):
                for ticket in tickets[start : start + _SLICE]:
                    self._wake(ticket)
                await asyncio.sleep(_SLICE_PERIOD_S)

    def _wake(self, ticket: Ticket) -> None:
        for event in self._events.get(ticket, ()):
            event.set()
