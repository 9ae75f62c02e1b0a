"""Records what an outbox sends to a session."""

from __future__ import annotations

import asyncio

from ..core.errors import OutboxClosed
from ..core.messages import Chunk, SessionEvent
from ..core.outbox import Outbox, OutboxItem


class RecordingSink:
    """Claims one session of an outbox and records its chunks and events.

    Attributes:
        items: chunks and events, in order.
    """

    def __init__(self, outbox: Outbox, session_id: str) -> None:
        self._reader = outbox.session(session_id)
        self.items: list[OutboxItem] = []

    def drain(self) -> list[OutboxItem]:
        """Record and return what is queued, without waiting."""
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
        """The chunks among the items."""
        return [item for item in self.items if isinstance(item, Chunk)]

    @property
    def events(self) -> list[SessionEvent]:
        """The events among the items."""
        return [item for item in self.items if isinstance(item, SessionEvent)]

    @property
    def dropped(self) -> int:
        """Chunks that the outbox dropped before they were read."""
        return self._reader.dropped
