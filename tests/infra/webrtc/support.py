"""Frames, sources and encoders for the tests of this package."""

from __future__ import annotations

import asyncio
import fractions
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import av
import numpy as np

from realtime_engine.infra.frame import Frame, FrameId
from realtime_engine.infra.publisher import FramePublisher
from realtime_engine.infra.webrtc import SharedVideo

TIME_BASE = fractions.Fraction(1, 30)


def picture(number: int, width: int = 320, height: int = 180) -> np.ndarray:
    """A smooth picture with a bar whose position shows the number."""
    x = np.linspace(60, 180, width, dtype=np.float32)[None, :, None]
    y = np.linspace(0, 40, height, dtype=np.float32)[:, None, None]
    pixels = np.repeat(x + y, 3, axis=2)
    bar = width // 16
    left = (number * 7) % (width - bar)
    pixels[:, left : left + bar] = (255, 255, 220)
    return pixels.astype(np.uint8)


def luma(pixels: np.ndarray) -> np.ndarray:
    """BT.601 limited range, from the definition."""
    r, g, b = (pixels[..., i].astype(np.float64) / 255 for i in range(3))
    return 16 + 219 * (0.299 * r + 0.587 * g + 0.114 * b)


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    error = np.mean((a.astype(np.float64) - b.astype(np.float64)) ** 2)
    return float("inf") if error == 0 else 10 * np.log10(255**2 / error)


def decoder(codec: str) -> av.VideoCodecContext:
    context = av.CodecContext.create({"H264": "h264", "VP8": "vp8"}[codec], "r")
    context.thread_count = 1
    return context


def frame(number: int, pixels: np.ndarray | None = None, *, epoch: int = 2) -> Frame:
    return Frame(picture(number) if pixels is None else pixels, FrameId("session", epoch, number, 0, f"a{number}"))


async def until(condition: Callable[[], bool], pause_s: float = 0) -> None:
    """Let other tasks run until ``condition``; the limit of the test run ends a hopeless wait."""
    while not condition():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(pause_s)


class Player:
    """Shows numbered pictures, one each ``period_s``, until it is left."""

    def __init__(self, source: FramePublisher, period_s: float = 0.02) -> None:
        self.source = source
        self.pictures: dict[int, np.ndarray] = {}
        self._period_s = period_s

    async def __aenter__(self) -> Player:
        self._task = asyncio.create_task(self._play())
        return self

    async def __aexit__(self, *_: Any) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _play(self) -> None:
        number = 0
        while True:
            self.pictures[number] = picture(number)
            self.source.publish(frame(number, self.pictures[number]))
            number += 1
            await asyncio.sleep(self._period_s)


class InlineExecutor(Executor):
    """Runs what it is given at once, on the calling thread."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class GatedExecutor(InlineExecutor):
    """Holds what it is given until it is opened."""

    def __init__(self) -> None:
        self._held: tuple[Future[Any], Callable[[], Future[Any]]] | None = None
        self._stays_open = False

    @property
    def waiting(self) -> bool:
        return self._held is not None

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        assert self._held is None
        run = super().submit
        if self._stays_open:
            return run(fn, *args, **kwargs)
        self._held = Future(), lambda: run(fn, *args, **kwargs)
        return self._held[0]

    def open(self) -> None:
        assert self._held is not None
        (future, run), self._held = self._held, None
        future.set_result(run().result())

    def open_for_good(self) -> None:
        self._stays_open = True
        if self._held is not None:
            self.open()


class FakeEncoder:
    """Makes packets of so many bytes and notes what it was asked for."""

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self.keyframes: list[bool] = []
        self.shapes: list[tuple[int, ...]] = []
        self.bitrates: list[int] = []
        self.closed = False
        self.error: Exception | None = None

    def encode(self, planes: np.ndarray, force_keyframe: bool = False, *, at_ns: int) -> list[av.Packet]:
        assert not self.closed
        if self.error:
            raise self.error
        self.shapes.append(planes.shape)
        key = force_keyframe or not self.keyframes
        self.keyframes.append(key)
        packet = av.Packet(bytes(self.size))
        packet.is_keyframe = key
        return [packet]

    def set_bitrate(self, bits_per_second: int) -> None:
        if self.bitrates[-1:] != [bits_per_second]:
            self.bitrates.append(bits_per_second)

    def close(self) -> None:
        self.closed = True


class CountingFactory:
    """An encoder factory that counts encodes over all the encoders that it made."""

    def __init__(self, make: Any) -> None:
        self.made: list[Any] = []
        self.encodes = 0
        self._make = make

    def __call__(self, *args: Any) -> Any:
        encoder = self._make(*args)
        encode = encoder.encode

        def count_and_encode(*call: Any, **named: Any) -> Any:
            self.encodes += 1
            return encode(*call, **named)

        encoder.encode = count_and_encode
        self.made.append(encoder)
        return encoder


def shared(source: FramePublisher, **options: Any) -> SharedVideo:
    return SharedVideo(source, fps=50.0, **options)
