from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fractions import Fraction

import av
import numpy as np
import pytest

from realtime_engine.infra.webrtc.intake import Intake, Picture

from .support import GatedExecutor, InlineExecutor, until


def image(value: int) -> av.VideoFrame:
    frame = av.VideoFrame.from_ndarray(np.full((16, 16, 3), value, np.uint8), format="rgb24")
    frame.pts, frame.time_base = value * 900, Fraction(1, 90_000)
    return frame


class Running:
    def __init__(self, waiting: int, pool: InlineExecutor | GatedExecutor) -> None:
        self.pictures: list[Picture] = []
        self.drops = 0
        self.intake = Intake(waiting, 640, pool, self.pictures.append, self._drop)

    def _drop(self) -> None:
        self.drops += 1

    def put(self, *values: int) -> None:
        for value in values:
            self.intake.put(image(value), value * 7)

    @property
    def values(self) -> list[int]:
        return [int(picture.pixels[0, 0, 0]) for picture in self.pictures]


@asynccontextmanager
async def running(waiting: int, pool: InlineExecutor | GatedExecutor) -> AsyncIterator[Running]:
    run = Running(waiting, pool)
    task = asyncio.create_task(run.intake.run())
    yield run
    task.cancel()
    await asyncio.wait({task})


async def test_pictures_come_in_order_with_both_times() -> None:
    async with running(4, InlineExecutor()) as run:
        run.put(10, 20, 30)
        await until(lambda: len(run.pictures) == 3)
        assert run.values == [10, 20, 30] and run.drops == 0
        assert run.pictures[1][1:] == (200_000_000, 140), "900 ticks of 90 kHz are 10 ms"


@pytest.mark.parametrize(("waiting", "kept"), [(1, [10, 50]), (2, [10, 40, 50])])
async def test_what_a_conversion_cannot_keep_up_with_is_dropped_oldest_first(waiting: int, kept: list[int]) -> None:
    pool = GatedExecutor()
    async with running(waiting, pool) as run:
        run.put(10)
        await until(lambda: pool.waiting)
        run.put(20, 30, 40, 50)
        assert run.drops == 4 - waiting
        for _ in kept:
            await until(lambda: pool.waiting)
            pool.open()
        await until(lambda: len(run.pictures) == len(kept))
        assert run.values == kept and run.intake.received == 5


async def test_a_frame_that_cannot_be_converted_is_dropped_and_the_next_one_comes() -> None:
    async with running(4, InlineExecutor()) as run:
        run.intake.put(av.VideoFrame(16384, 8192, "gray"), 0)
        run.put(10)
        await until(lambda: run.pictures != [])
        assert run.values == [10] and run.drops == 1


async def test_a_frame_without_a_timestamp_counts_from_the_beginning() -> None:
    async with running(1, InlineExecutor()) as run:
        bare = image(10)
        bare.pts = None
        run.intake.put(bare, 5)
        await until(lambda: run.pictures != [])
        assert run.pictures[0].media_ns == 0


async def test_large_frames_do_not_fill_the_memory_while_they_wait() -> None:
    run = Running(256, GatedExecutor())
    for _ in range(20):
        run.intake.put(av.VideoFrame(4096, 2048, "gray"), 0)
    assert run.drops == 16
    run.put(*range(100))
    assert run.drops == 17, "the small ones all have room beside three of them"
