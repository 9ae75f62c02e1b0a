from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from realtime_engine.infra.frame import Frame, FrameId
from realtime_engine.infra.jpeg import JpegEncoder
from realtime_engine.infra.publisher import FramePublisher
from realtime_engine.server.sessions.media import Snapshots

from ..support import until
from .support import session_bench


class CountingEncoder(JpegEncoder):
    """A JPEG encoder that counts its encodes and calls something before each."""

    def __init__(self) -> None:
        super().__init__()
        self.encodes = 0
        self.on_encode: Callable[[], None] = lambda: None

    def encode(self, pixels: np.ndarray) -> bytes:
        self.encodes += 1
        self.on_encode()
        return super().encode(pixels)


class Scene:
    """A publisher of frames and its snapshots."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.encoder = CountingEncoder()
        self.frames = FramePublisher()
        self.snapshots = Snapshots(self.frames, self.encoder, pool)

    def publish(self, seq: int, epoch: int = 1) -> None:
        self.frames.publish(Frame(np.zeros((8, 8, 3), np.uint8), FrameId("s", epoch, seq, 0)))


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    with ThreadPoolExecutor(1) as pool:
        yield Scene(pool)


async def test_a_frame_is_encoded_once_for_all_snapshots(scene: Scene) -> None:
    scene.publish(4)
    first, second = await scene.snapshots.newest(), await scene.snapshots.newest()
    assert first is second and first is not None and first.id.seq == 4
    scene.publish(5)
    third = await scene.snapshots.newest()
    assert third is not None and third.id.seq == 5 and scene.encoder.encodes == 2


async def test_there_is_no_snapshot_before_the_first_frame(scene: Scene) -> None:
    assert await scene.snapshots.newest() is None


async def test_a_snapshot_whose_epoch_ends_during_its_encode_is_discarded(scene: Scene) -> None:
    scene.publish(4)
    scene.encoder.on_encode = lambda: scene.frames.begin_epoch(2)
    assert await scene.snapshots.newest() is None
    scene.encoder.on_encode = lambda: None
    scene.publish(5, epoch=2)
    newest = await scene.snapshots.newest()
    assert newest is not None and newest.id.epoch == 2


async def test_a_snapshot_counts_as_watching_and_resumes_the_session() -> None:
    async with session_bench({"viewer_grace_s": 0.01}) as bench:
        session = bench.session
        await bench.attached()
        await bench.confirm_active()
        assert not session.run_state.active
        assert await session.media.snapshot() is None
        assert session.run_state.active and session.idle.idle_s < 60


async def test_mjpeg_viewers_and_their_frames_are_counted() -> None:
    async with session_bench() as bench:
        await bench.attached()
        media = bench.session.media
        with media.jpegs.subscribe() as viewer:
            bench.chunk(0, 7)
            await viewer.next()
            assert media.watching == 1 and media.counts().jpeg_encodes == 1
        await until(lambda: media.watching == 0)
