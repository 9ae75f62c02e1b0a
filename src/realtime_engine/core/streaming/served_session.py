"""One session as the serving loop sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ..clock import MONOTONIC, NS_PER_S
from ..deadlines import Deadlines
from ..messages import ActiveChanged, Chunk, SessionEvent
from ..queues import OutboxItem
from .life import Life
from .orchestrator import StreamingPipelineOrchestrator
from .outputs import StreamingOutput


class ServedSession:
    """Feeds and reads one session, as two tasks that live as long as its epoch.

    Attributes:
        context: what its last epoch began with.
        epoch, seq: of the next chunk.
        active: whether new chunks are asked for.
    """

    def __init__(
        self,
        pipeline: StreamingPipelineOrchestrator,
        session_id: str,
        identity: tuple[int, int],
        rate_hz: float,
        put: Callable[[OutboxItem], None],
        broken: Callable[[ServedSession, BaseException], None],
    ) -> None:
        self.session_id = session_id
        self.context: Mapping[str, Any] = {}
        self.epoch, self.seq = identity
        self.active = True
        self.life: Life | None = None
        self._pipeline = pipeline
        self._interval_ns = round(NS_PER_S / rate_hz)
        self._put = put
        self._broken = broken
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._held: list[SessionEvent] = []  # a pause, and answers after it, that wait for the chunks in flight
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    def begin(self, life: Life, context: Mapping[str, Any]) -> None:
        """Feed and read this life from now on."""
        self.life, self.context = life, context
        self._tasks = (asyncio.create_task(self._feed(life)), asyncio.create_task(self._read(life)))

    async def end(self) -> None:
        """No more chunks; answers that waited for some are given."""
        tasks, self._tasks = self._tasks, ()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.life = None
        self._let_out()

    def set_active(self, active: bool) -> None:
        """Pause, answered when the chunks in flight are out, or resume."""
        self.active = active
        if active:
            self._let_out()
            self._resumed.set()
        else:
            self._resumed.clear()
        answer = ActiveChanged(self.session_id, active, epoch=self.epoch)
        if not active and (self._held or (self.life is not None and self.life.in_flight)):
            self._held.append(answer)
        else:
            self._put(answer)

    def answer(self, event: SessionEvent) -> None:
        """Send an answer, never before an older one."""
        if self._held:
            self._held.append(event)
        else:
            self._put(event)

    def _let_out(self) -> None:
        held, self._held = self._held, []
        for event in held:
            self._put(event)

    async def _feed(self, life: Life) -> None:
        deadlines = Deadlines(self._interval_ns, MONOTONIC.now_ns())
        try:
            while True:
                if not self.active:
                    await self._resumed.wait()
                    deadlines.resume(MONOTONIC.now_ns())
                await self._sleep_until(deadlines.next_ns)
                if not self.active:
                    continue
                await self._pipeline.push_inputs(self.session_id, *life.next_request())
                deadlines.tick_ended(MONOTONIC.now_ns())
        except Exception as error:  # the session is over; if a stage failed it, the reader says so
            if self._pipeline.error(self.session_id) is None:
                self._broken(self, error)

    async def _sleep_until(self, moment_ns: int) -> None:
        await asyncio.sleep((moment_ns - MONOTONIC.now_ns()) / NS_PER_S)

    async def _read(self, life: Life) -> None:
        try:
            async for output in self._pipeline.outputs(self.session_id):
                self._take(life, output)
        except Exception as error:
            self._broken(self, error)
        else:
            self._broken(self, RuntimeError("its pipeline has ended it"))

    def _take(self, life: Life, output: StreamingOutput) -> None:
        made = life.take(output)
        if made is None:
            return
        stamps = made.stamps._replace(emitted=MONOTONIC.now_ns())
        self._put(
            Chunk(self.session_id, made.output, seq=self.seq, epoch=self.epoch, action_id=made.action_id, stamps=stamps)
        )
        self.seq += 1
        if self._held and not life.in_flight:
            self._let_out()
