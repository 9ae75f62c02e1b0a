"""Between a decoder that sets the pace and a conversion that may not keep up: a bounded queue of decoded frames."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple

import av
import numpy as np
from numpy.typing import NDArray

from ...core.clock import MONOTONIC, NS_PER_S
from ...core.loglimit import LogLimiter
from .picture import to_rgb

_log = LogLimiter(logging.getLogger(__name__), MONOTONIC)


_MOST_WAITING_PIXELS = 8192 * 4096


class Picture(NamedTuple):
    """A received frame.

    Attributes:
        pixels: (height, width, 3) uint8 RGB.
        media_ns: by the sender's clock, since its first frame, in nanoseconds.
        arrived_ns: when it was decoded, in monotonic nanoseconds.
    """

    pixels: NDArray[np.uint8]
    media_ns: int
    arrived_ns: int


class _Decoded(NamedTuple):
    image: av.VideoFrame
    media_ns: int
    arrived_ns: int


class Intake:
    """Converts decoded frames off the event loop, one after the other, the oldest of those that wait first.

    Args:
        waiting: frames that may wait; when there are more, or more than 32 million pixels, the oldest is dropped.
        max_side: longer side of a picture in pixels at most.
        pool: threads to convert on.
        on_picture: called on the event loop with each picture.
        on_drop: called on the event loop for each frame that was dropped.
    """

    def __init__(
        self,
        waiting: int,
        max_side: int,
        pool: Executor | None,
        on_picture: Callable[[Picture], None],
        on_drop: Callable[[], None],
    ) -> None:
        self._waiting: deque[_Decoded] = deque()
        self._most = waiting
        self._max_side = max_side
        self._pool = pool
        self._on_picture = on_picture
        self._on_drop = on_drop
        self._arrived = asyncio.Event()
        self._pixels = 0  # of what waits
        self.received = 0

    def put(self, image: av.VideoFrame, arrived_ns: int) -> None:
        """Take a decoded frame; does not block."""
        self._pixels += image.width * image.height
        while self._waiting and (len(self._waiting) >= self._most or self._pixels > _MOST_WAITING_PIXELS):
            self._take()
            self._on_drop()
        self.received += 1
        self._waiting.append(_Decoded(image, _media_ns(image), arrived_ns))
        self._arrived.set()

    def _take(self) -> _Decoded:
        decoded = self._waiting.popleft()
        self._pixels -= decoded.image.width * decoded.image.height
        return decoded

    async def run(self) -> None:
        """Convert until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            image, media_ns, arrived_ns = self._take()
            try:
                pixels = await loop.run_in_executor(self._pool, to_rgb, image, self._max_side)
            except Exception as error:  # a stranger's video may be anything
                self._on_drop()
                _log.error("a received frame could not be converted", error)
            else:
                self._on_picture(Picture(pixels, media_ns, arrived_ns))


def _media_ns(image: av.VideoFrame) -> int:
    if image.pts is None or image.time_base is None:
        return 0
    return round(image.pts * image.time_base * NS_PER_S)
