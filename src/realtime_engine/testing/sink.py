"""Somewhere for a session's chunks and events to go."""

from __future__ import annotations

import asyncio

from ..core.errors import OutboxClosed
from ..core.messages import Chunk, SessionEvent
from ..core.outbox import Outbox, OutboxItem


class RecordingSink:
    """Claims one session of an outbox and keeps everything that it is sent, in order.

    Attributes:
        items: chunks and events as they came.
    """

    def __init__(self, outbox: Outbox, session_id: str) -> None:
        self._reader = outbox.session(session_id)
        self.items: list[OutboxItem] = []

    def drain(self) -> list[OutboxItem]:
        """Take what is there now, without waiting, and return it."""
        taken: list[OutboxItem] = []
        while True:
            try:
                taken.append(self._reader.get_nowait())
            except (asyncio.QueueEmpty, OutboxClosed):
                self.items.extend(taken)
                return taken

    async def run(self) -> None:
        """Record until the outbox is closed and read to its end."""
        async for item in self._reader:
            self.items.append(item)

    @property
    def chunks(self) -> list[Chunk]:
        return [item for item in self.items if isinstance(item, Chunk)]

    @property
    def events(self) -> list[SessionEvent]:
        return [item for item in self.items if isinstance(item, SessionEvent)]

    @property
    def dropped(self) -> int:
        """Chunks that were dropped because this sink was too slow."""
        return self._reader.dropped
