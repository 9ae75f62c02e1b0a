"""From the engine's chunks to a session's viewers: converts chunks to frames, paces and publishes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from ...core.clock import MONOTONIC, NS_PER_S
from ...core.errors import describe
from ...core.loglimit import LogLimiter
from ...core.messages import ActiveChanged, Chunk, Failed, Finished, ResetDone, SessionEvent
from ...core.outbox import OutboxSession
from ...infra.conversion import Converter
from ...infra.frame import Frame, FrameId, Picture
from ...infra.pacing import PacedPlayer, Pacer
from ...infra.publisher import FramePublisher
from ..counters import Counts
from .playback_credit import PlaybackCredit

_REPEAT_NS = 5 * NS_PER_S

logger = logging.getLogger(__name__)
_log = LogLimiter(logger, MONOTONIC)


@dataclass(frozen=True, kw_only=True)
class PumpHooks:
    """What a pump reports.

    Attributes:
        on_event: called with each session event, in order with the chunks; returns false for the last one.
            :class:`Finished` is reported once the last frame of the rollout is published.
        on_credit: called with false when the engine should pause, and with true when it may continue.
        on_publish: called with each frame that is about to be published.
        on_stats: called with the values of each chunk.
    """

    on_event: Callable[[SessionEvent], bool]
    on_credit: Callable[[bool], None]
    on_publish: Callable[[FrameId], None] = lambda _: None
    on_stats: Callable[[Mapping[str, float]], None] = lambda _: None


class Pump:
    """Reads the chunks and events of one session.

    Args:
        reader: the session's stream of the outbox.
        publisher: publishes the frames.
        convert: converts a chunk's output to pictures.
        pool: threads for conversions that are expensive.
        fps: frames per second of playback.
        budget_ms: the media-age budget in milliseconds.
        hooks: what is called.
        chunk_shape: the shape that the engine declares for an output; ``()`` if it declares none.

    Attributes:
        last_message_ns: when the engine last sent something, in monotonic nanoseconds.
    """

    def __init__(
        self,
        reader: OutboxSession,
        publisher: FramePublisher,
        convert: Converter,
        pool: Executor,
        *,
        fps: float,
        budget_ms: float,
        hooks: PumpHooks,
        chunk_shape: tuple[int, ...] = (),
    ) -> None:
        self.last_message_ns = MONOTONIC.now_ns()
        self._reader = reader
        self._publisher = publisher
        self._convert = convert
        self._pool = pool
        self._hooks = hooks
        self._player = PacedPlayer(Pacer(fps, budget_ms), self._publish)
        self._credit = PlaybackCredit(fps, budget_ms)
        self._chunk_shape = chunk_shape
        self._finished: Finished | None = None  # until its last frame is published
        self._reported_error = ""
        self._report_again_ns = 0

    async def run(self) -> bool:
        """Publish frames until the session or the engine ends.

        Returns:
            Whether the session's last event was read; false if the engine ended before it.
        """
        playing = asyncio.create_task(self._player.run(), name="play a session")
        try:
            async for item in self._reader:
                self.last_message_ns = MONOTONIC.now_ns()
                if isinstance(item, Chunk):
                    await self._on_chunk(item)
                elif not self._on_event(item):
                    return True
        finally:
            self._player.close()
            await asyncio.wait({playing})
            self._reader.close()
        return False

    def counts(self) -> Counts:
        """Totals of the frames that were paced."""
        statistics = self._player.statistics()
        return Counts(dropped=statistics.dropped, underruns=statistics.underruns)

    def _on_event(self, event: SessionEvent) -> bool:
        if isinstance(event, Finished):
            self._finished = event
            self._report_finished()
            return True
        if isinstance(event, ResetDone):
            self._finished = None
            self._publisher.begin_epoch(event.epoch)
            self._player.begin_epoch(event.epoch)
            self._credit.clear()
            self._hooks.on_credit(True)
        elif isinstance(event, ActiveChanged) and event.active and not self._player.statistics().queued:
            self._player.clear()  # the gap left by the pause is no underrun
        return self._hooks.on_event(event)

    async def _on_chunk(self, chunk: Chunk) -> None:
        self._check_shape(chunk)
        try:
            pictures = await self._pictures(chunk.output)
        except Exception as error:  # the model's output may be anything
            self._report(chunk, error)
            return
        self._reported_error = ""
        self._hooks.on_stats(chunk.stats)
        self._player.push([Frame(picture, _frame_id(chunk, index)) for index, picture in enumerate(pictures)])
        if pictures:
            self._credit.on_chunk(len(pictures), MONOTONIC.now_ns(), wants_more=self._player.wants_more())
            if self._credit.exhausted:
                self._hooks.on_credit(False)

    def _check_shape(self, chunk: Chunk) -> None:
        """Warn once of an output of another shape than declared: it may still be a picture."""
        shape = tuple(getattr(chunk.output, "shape", self._chunk_shape))
        if self._chunk_shape and shape != self._chunk_shape:
            text = "session %s: an output has the shape %s; manifest() declares chunk_shape=%s"
            logger.warning(text, chunk.session_id, shape, self._chunk_shape)
            self._chunk_shape = ()

    async def _pictures(self, output: Any) -> list[Picture]:
        if self._convert.is_free(output):
            return self._convert(output)
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._convert, output)

    def _report(self, chunk: Chunk, error: Exception) -> None:
        """Report an error once, and again every five seconds while it lasts, for clients that joined later."""
        _log.error("a chunk could not be converted", error, chunk.session_id)
        text, now_ns = describe(error), MONOTONIC.now_ns()
        if text != self._reported_error or now_ns >= self._report_again_ns:
            self._reported_error, self._report_again_ns = text, now_ns + _REPEAT_NS
            self._hooks.on_event(Failed(chunk.session_id, text, epoch=chunk.epoch))

    def _publish(self, frame: Frame) -> None:
        self._hooks.on_publish(frame.id)
        self._publisher.publish(frame)
        if self._credit.exhausted:
            self._credit.on_published(wants_more=self._player.wants_more())
            if not self._credit.exhausted:
                self._hooks.on_credit(True)
        self._report_finished()

    def _report_finished(self) -> None:
        if self._finished is not None and not self._player.statistics().queued:
            event, self._finished = self._finished, None
            self._hooks.on_event(event)


def _frame_id(chunk: Chunk, index: int) -> FrameId:
    return FrameId(chunk.session_id, chunk.epoch, chunk.seq, index, chunk.action_id, chunk.stamps)
