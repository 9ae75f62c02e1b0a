"""Encoded streams like those of viewers, and the contents of the recorded files."""

from __future__ import annotations

import asyncio
import fractions
import io
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import av
import numpy as np

from realtime_engine.infra.encoding.h264 import H264Encoder
from realtime_engine.infra.frame import FrameId
from realtime_engine.infra.webrtc import EncodedFrame, StreamEnded

from ..webrtc.support import picture

FRAME = 3000  # ticks of 90 kHz at 30 frames a second
TIME_BASE = fractions.Fraction(1, 90_000)


def planes(number: int, width: int, height: int) -> np.ndarray:
    frame = av.VideoFrame.from_ndarray(picture(number, width, height), format="rgb24").reformat(format="yuv420p")
    return frame.to_ndarray()


def stream(
    count: int, *, width: int = 160, height: int = 96, gop: int = 10, start: int = 0, pts: Iterable[int] | None = None
) -> Iterator[EncodedFrame]:
    """Pictures ``start`` to ``start + count``, a keyframe every ``gop``."""
    encoder = H264Encoder(30, 1_000_000)
    times = iter(pts) if pts is not None else iter(range(90_000 + start * FRAME, 10**9, FRAME))
    for number in range(start, start + count):
        at_ns = number * 33_000_000
        for packet in encoder.encode(planes(number, width, height), number % gop == 0, at_ns=at_ns):
            packet.pts = packet.dts = next(times)
            packet.time_base = TIME_BASE
            yield EncodedFrame(packet, FrameId("session", 1, number, 0), at_ns, at_ns, ())


class FakeViewer:
    """Returns the frames that a test puts in."""

    def __init__(self, *frames: EncodedFrame) -> None:
        self.closed = False
        self._frames = deque(frames)
        self._ended: StreamEnded | None = None
        self._changed = asyncio.Event()

    @property
    def is_drained(self) -> bool:
        return not self._frames

    def put(self, frames: Iterable[EncodedFrame]) -> None:
        self._frames.extend(frames)
        self._changed.set()

    def end(self, error: Exception | None = None) -> None:
        self._ended = StreamEnded(error)
        self._changed.set()

    async def next(self) -> EncodedFrame:
        while not self._frames:
            if self._ended:
                raise self._ended
            self._changed.clear()
            await self._changed.wait()
        return self._frames.popleft()

    def close(self) -> None:
        self.closed = True
        self._ended = self._ended or StreamEnded()
        self._changed.set()


def play(source: Path | bytes) -> list[av.VideoFrame]:
    """All frames of a file."""
    with av.open(io.BytesIO(source) if isinstance(source, bytes) else str(source)) as container:
        return list(container.decode(video=0))


def shown(frame: av.VideoFrame) -> int:
    """Where the bar of :func:`picture` is, in columns."""
    row = frame.to_ndarray(format="rgb24").astype(int).sum(2).mean(0)
    width = len(row) // 16
    return int(np.convolve(row, np.ones(width), "valid").argmax())


def bar(number: int, width: int = 160) -> int:
    return (number * 7) % (width - width // 16)
