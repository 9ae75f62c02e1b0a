"""Small pictures of a session, for clients that do not watch it."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor

import numpy as np
from numpy.typing import NDArray

from ...core.clock import NS_PER_S, Clock
from ...infra.frame import Frame
from ...infra.jpeg import JpegEncoder
from ...infra.publisher import FramePublisher

_WIDTH = 320  # pixels, at most
_QUALITY = 70
_PERIOD_NS = NS_PER_S


class Thumbnails:
    """The newest frame as a small JPEG, encoded at most once a second and only on request.

    A request does not count as watching: a session that is paused for lack of viewers keeps its last picture.

    Args:
        frames: the frames of the session.
        pool: threads to encode on.
        clock: the current time.
    """

    def __init__(self, frames: FramePublisher, pool: Executor, clock: Clock) -> None:
        self._frames = frames
        self._pool = pool
        self._clock = clock
        self._encoder = JpegEncoder(_QUALITY)
        self._picture: bytes | None = None
        self._frame: Frame | None = None
        self._encoded_ns = 0
        self._lock = asyncio.Lock()

    async def get(self) -> bytes | None:
        """The picture; ``None`` before the first frame."""
        async with self._lock:
            frame = self._frames.latest
            if frame is None or frame is self._frame:
                return self._picture
            if self._picture is not None and self._clock.now_ns() - self._encoded_ns < _PERIOD_NS:
                return self._picture
            self._encoded_ns = self._clock.now_ns()
            loop = asyncio.get_running_loop()
            self._picture = await loop.run_in_executor(self._pool, self._encode, frame.pixels)
            self._frame = frame
            return self._picture

    def _encode(self, pixels: NDArray[np.uint8]) -> bytes:
        step = -(-pixels.shape[1] // _WIDTH)
        return self._encoder.encode(pixels[::step, ::step])
