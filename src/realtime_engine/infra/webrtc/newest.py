"""The newest frame of a source, with the moment at which it came."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ...core.clock import Clock
from ...core.errors import RealtimeEngineError
from ..frame import Frame
from .source import FrameSource, FrameSubscription


class TimedFrame(NamedTuple):
    """A frame and when it came, in nanoseconds of the clock."""

    frame: Frame
    at_ns: int


class NewestFrame:
    """Reads a source all the time and keeps only what came last.

    Args:
        wake: set when there is something to take, and when the source has ended.
    """

    def __init__(self, source: FrameSource, clock: Clock, wake: asyncio.Event) -> None:
        self._source = source
        self._clock = clock
        self._wake = wake
        self._fresh: TimedFrame | None = None
        self._subscription: FrameSubscription | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ended = False
        self.reread()

    @property
    def ended(self) -> bool:
        """No frame will come any more. Raises what the source raised, if it broke."""
        if self._reading is not None and self._reading.done():
            self._reading.result()
            return True
        return self._ended

    def take(self) -> TimedFrame | None:
        """What came last, unless it was taken or its epoch is over."""
        fresh, self._fresh = self._fresh, None
        return fresh if fresh is not None and fresh.frame.id.epoch >= self._source.epoch else None

    def reread(self) -> None:
        """Read the newest frame again, if the source still has one; it may have forgotten it since."""
        try:
            subscription = self._source.subscribe()
        except RealtimeEngineError:
            self._ended = True
            return
        self.close()
        self._subscription = subscription
        self._reading = asyncio.create_task(self._read(subscription), name="video source reader")
        self._reading.add_done_callback(lambda _: self._wake.set())

    def close(self) -> None:
        """Read no more."""
        if self._reading is not None:
            self._reading.cancel()
        if self._subscription is not None:
            self._subscription.close()

    async def _read(self, subscription: FrameSubscription) -> None:
        async for frame in subscription:
            self._fresh = TimedFrame(frame, self._clock.now_ns())
            self._wake.set()
