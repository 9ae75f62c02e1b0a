"""A session without an engine: the test reads its messages from the inbox, and replies through the outbox."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import numpy as np

from realtime_engine import (
    ActiveChanged,
    Attached,
    Chunk,
    Detach,
    Detached,
    EngineManifest,
    Inbox,
    InboxMsg,
    Outbox,
    SessionEvent,
    SetActive,
)
from realtime_engine.core.monitor import ServeMonitor
from realtime_engine.infra.controls import ControlGroup
from realtime_engine.infra.copy_stats import CopyStats
from realtime_engine.infra.encoding import choose_encoders
from realtime_engine.infra.jpeg import JpegEncoder
from realtime_engine.infra.telemetry.frame_latency import FrameTotals
from realtime_engine.server import ServerConfig
from realtime_engine.server.resources import ServerResources
from realtime_engine.server.sessions.controls import make_context
from realtime_engine.server.sessions.session import DemoSession

from ..support import HEIGHT, WIDTH, paint_demo, until

Message = TypeVar("Message", bound=InboxMsg)


class RecordingInbox(Inbox):
    """An inbox that records its messages."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[InboxMsg] = []

    def put_nowait(self, msg: InboxMsg) -> None:
        super().put_nowait(msg)
        self.messages.append(msg)

    def of(self, kind: type[Message]) -> list[Message]:
        return [message for message in self.messages if isinstance(message, kind)]


class SessionBench:
    """A session between an inbox and an outbox.

    Attributes:
        received: what a client of the session was sent.
        ended: whether the session has reported its end.
    """

    def __init__(self, pool: ThreadPoolExecutor, config: Mapping[str, Any], demo: Mapping[str, Any]) -> None:
        self.inbox = RecordingInbox()
        self.outbox = Outbox()
        self.received: list[dict[str, Any]] = []
        self.ended = False
        copies = CopyStats()
        self.resources = ServerResources(
            demo=paint_demo(**demo),
            config=ServerConfig(**config),
            manifest=EngineManifest(1, rate_hz=1000.0),
            inbox=self.inbox,
            outbox=self.outbox,
            monitor=ServeMonitor(),
            jpeg=JpegEncoder(),
            pool=pool,
            encoders=choose_encoders("software", copies),
            copies=copies,
            totals=FrameTotals(),
        )
        self.session = DemoSession(self.resources, ControlGroup(self.resources.demo.controls), self._on_ended)
        owner = self.session.access.owner
        self.session.connections.add(self, lambda text: self.received.append(json.loads(text)), owner)

    def attach(self) -> asyncio.Task[None]:
        """Ask for admission; the test sends the reply."""
        context = make_context(self.resources.demo, self.session.controls.state.window().fields)
        return asyncio.create_task(self.session.attach(context))

    async def attached(self) -> None:
        """Attach the session, with the reply."""
        attaching = self.attach()
        self.send(Attached(self.session.id, epoch=1))
        await attaching

    def send(self, *events: SessionEvent) -> None:
        """Send events of the engine, which the session handles in its task."""
        self.outbox.put_many(events)

    def chunk(self, seq: int, value: int = 0, *, epoch: int = 1, frames: int = 1) -> None:
        """Send a chunk whose frames have this value everywhere."""
        output = np.full((frames, HEIGHT, WIDTH, 3), value, np.uint8)
        self.outbox.put_nowait(Chunk(self.session.id, output, seq=seq, epoch=epoch))

    async def confirm_active(self) -> None:
        """Wait for a request to pause or resume, and reply to it."""
        await until(lambda: not self.session.run_state.is_settled)
        active = self.inbox.of(SetActive)[-1].active
        self.send(ActiveChanged(self.session.id, active, epoch=self.session.epoch))
        await self.session.run_state.wait_settled()

    def events(self) -> list[str]:
        """The events that the client was sent."""
        return [message["event"] for message in self.received if message["type"] == "event"]

    def _on_ended(self, session: DemoSession) -> None:
        self.ended = True


@asynccontextmanager
async def session_bench(config: Mapping[str, Any] | None = None, **demo: Any) -> AsyncIterator[SessionBench]:
    """A session that is ended on exit."""
    with ThreadPoolExecutor(1) as pool:
        bench = SessionBench(pool, config or {}, demo)
        try:
            yield bench
        finally:
            bench.session.end()
            if bench.inbox.of(Detach):
                bench.outbox.put_nowait(Detached(bench.session.id, epoch=bench.session.epoch))
            await bench.session.wait_ended(10)
