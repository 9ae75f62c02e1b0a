"""The newest frame of a source, with the moment at which it came."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ...core.clock import Clock
from ..frame import Frame
from .source import FrameSource


class TimedFrame(NamedTuple):
    """A frame and when it came, in nanoseconds of the clock."""

    frame: Frame
    at_ns: int


class NewestFrame:
    """Reads a source all the time and keeps only what came last.

    Attributes:
        last: what came last, taken or not.
        skipped: frames that a newer one replaced before anybody took them.
    """

    def __init__(self, source: FrameSource, clock: Clock, wake: asyncio.Event) -> None:
        self.last: TimedFrame | None = None
        self.skipped = 0
        self._clock = clock
        self._wake = wake
        self._fresh = False
        self._subscription = source.subscribe()
        self._reading = asyncio.create_task(self._read(), name="video source reader")
        self._reading.add_done_callback(lambda _: wake.set())

    @property
    def closed(self) -> bool:
        """The source has ended. Raises what the source raised, if it broke."""
        if self._reading.done():
            self._reading.result()
            return True
        return False

    def take(self) -> TimedFrame | None:
        """What came since the last call, ``None`` if nothing did."""
        if not self._fresh:
            return None
        self._fresh = False
        return self.last

    def close(self) -> None:
        """Read no more."""
        self._reading.cancel()
        self._subscription.close()

    async def _read(self) -> None:
        while (frame := await self._subscription.next()) is not None:
            self.skipped += self._fresh
            self.last = TimedFrame(frame, self._clock.now_ns())
            self._fresh = True
            self._wake.set()
