"""From the engine's chunks to a session's viewers: frames, paced, published."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from ...core.clock import MONOTONIC, NS_PER_S
from ...core.contract import EngineManifest
from ...core.errors import describe
from ...core.loglimit import LogLimiter
from ...core.messages import ActiveChanged, Chunk, Failed, ResetDone, SessionEvent
from ...core.outbox import OutboxSession
from ...infra.conversion import Converter
from ...infra.copy_stats import CopyStats
from ...infra.demo import FrameFormat
from ...infra.frame import Frame, FrameId, Picture
from ...infra.pacing import PacedPlayer, Pacer, PacerStatistics
from ...infra.publisher import FramePublisher
from .playback_credit import PlaybackCredit

_REPEAT_NS = 5 * NS_PER_S

_log = LogLimiter(logging.getLogger(__name__), MONOTONIC)


class Pump:
    """Reads one session out of the outbox and shows it.

    Args:
        reader: the session's claim on the outbox.
        frames: how a chunk becomes pictures.
        publisher: where they go.
        on_event: told of each session event, in order with the chunks; false ends the pump.
        on_credit: told that the engine should hold (false) or may go on (true).
        pool: threads for conversions that are worth one.
        copies: where conversions are counted.
        on_shown: told of each frame when it is published.

    Attributes:
        heard_ns: when the engine was last heard of, on the monotonic clock.
    """

    def __init__(
        self,
        reader: OutboxSession,
        manifest: EngineManifest,
        frames: FrameFormat,
        publisher: FramePublisher,
        *,
        budget_ms: float,
        on_event: Callable[[SessionEvent], bool],
        on_credit: Callable[[bool], None],
        pool: Executor,
        copies: CopyStats | None = None,
        on_shown: Callable[[FrameId], None] = lambda _: None,
    ) -> None:
        fps = manifest.rate_hz * manifest.frames_per_chunk
        self._reader = reader
        self._convert = Converter(frames.layout, frames.value_range, copies)
        self._publisher = publisher
        self._on_event = on_event
        self._on_credit = on_credit
        self._pool = pool
        self._on_shown = on_shown
        self._player = PacedPlayer(Pacer(fps, budget_ms), self._publish)
        self._credit = PlaybackCredit(fps, budget_ms)
        self.heard_ns = MONOTONIC.now_ns()
        self._said_error = ""
        self._say_again_ns = 0

    async def run(self) -> None:
        """Show until ``on_event`` says that it is over, or the engine ends."""
        playing = asyncio.create_task(self._player.run(), name="play a session")
        try:
            async for item in self._reader:
                self.heard_ns = MONOTONIC.now_ns()
                if isinstance(item, Chunk):
                    await self._show(item)
                elif not self._hear(item):
                    return
        finally:
            self._player.close()
            await asyncio.wait({playing})
            self._reader.close()

    def statistics(self) -> PacerStatistics:
        """Counts of the frames that went through."""
        return self._player.statistics()

    def _hear(self, event: SessionEvent) -> bool:
        if isinstance(event, ResetDone):
            self._publisher.begin_epoch(event.epoch)
            self._player.begin_epoch(event.epoch)
            self._credit.clear()
            self._on_credit(True)
        elif isinstance(event, ActiveChanged) and event.active and not self._player.statistics().queued:
            self._player.clear()  # the gap that the pause has made is no underrun
        return self._on_event(event)

    async def _show(self, chunk: Chunk) -> None:
        try:
            pictures = await self._pictures(chunk.output)
        except Exception as error:  # the model's output may be anything
            self._complain(chunk, error)
            return
        self._said_error = ""
        self._player.push([Frame(picture, _identity(chunk, index)) for index, picture in enumerate(pictures)])
        if pictures:
            self._credit.arrived(len(pictures), MONOTONIC.now_ns(), wants_more=self._player.wants_more())
            if self._credit.held:
                self._on_credit(False)

    async def _pictures(self, output: Any) -> list[Picture]:
        if self._convert.is_free(output):
            return self._convert(output)
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._convert, output)

    def _complain(self, chunk: Chunk, error: Exception) -> None:
        """Once for each fault, and again while it lasts, for clients that came later."""
        _log.error("a chunk could not be shown", error, chunk.session_id)
        text, now = describe(error), MONOTONIC.now_ns()
        if text != self._said_error or now >= self._say_again_ns:
            self._said_error, self._say_again_ns = text, now + _REPEAT_NS
            self._on_event(Failed(chunk.session_id, text, epoch=chunk.epoch))

    def _publish(self, frame: Frame) -> None:
        self._on_shown(frame.id)
        self._publisher.publish(frame)
        if self._credit.held:
            self._credit.shown(wants_more=self._player.wants_more())
            if not self._credit.held:
                self._on_credit(True)


def _identity(chunk: Chunk, index: int) -> FrameId:
    return FrameId(chunk.session_id, chunk.epoch, chunk.seq, index, chunk.action_id, chunk.stamps)
