"""A sink that records the chunks and events of a session."""

from __future__ import annotations

import asyncio

from ..core.errors import OutboxClosed
from ..core.messages import Chunk, SessionEvent
from ..core.outbox import Outbox, OutboxItem


class RecordingSink:
    """Reads one session of an outbox and records its items.

    Args:
        outbox: the outbox.
        session_id: id of the session.

    Attributes:
        items: chunks and events in order of arrival.
    """

    def __init__(self, outbox: Outbox, session_id: str) -> None:
        self._reader = outbox.session(session_id)
        self.items: list[OutboxItem] = []

    def drain(self) -> list[OutboxItem]:
        """Record and return all items available now, without waiting."""
        taken: list[OutboxItem] = []
        while True:
            try:
                taken.append(self._reader.get_nowait())
            except (asyncio.QueueEmpty, OutboxClosed):
                self.items.extend(taken)
                return taken

    async def run(self) -> None:
        """Record until the outbox is closed and empty."""
        async for item in self._reader:
            self.items.append(item)

    @property
    def chunks(self) -> list[Chunk]:
        """Recorded chunks."""
        return [item for item in self.items if isinstance(item, Chunk)]

    @property
    def events(self) -> list[SessionEvent]:
        """Recorded events."""
        return [item for item in self.items if isinstance(item, SessionEvent)]

    @property
    def dropped(self) -> int:
        """Number of chunks dropped because the sink was too slow."""
        return self._reader.dropped
