from __future__ import annotations

import asyncio
import io
import logging
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from realtime_engine.infra.jpeg import JpegEncoder, JpegPublisher
from realtime_engine.infra.publisher import FramePublisher, PublisherClosed

from .pictures import make_frame


def picture(height: int = 48, width: int = 64) -> np.ndarray:
    """Smooth, so that JPEG keeps it well."""
    y, x = np.mgrid[:height, :width]
    return np.stack([4 * x % 256, 5 * y, np.full_like(x, 90)], axis=-1).clip(0, 255).astype(np.uint8)


def decode(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


HIDDEN = {"simplejpeg": [], "cv2": ["simplejpeg"], "PIL": ["simplejpeg", "cv2"]}


@pytest.mark.parametrize("backend", list(HIDDEN))
def test_each_backend_encodes_the_picture(
    backend: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in HIDDEN[backend]:
        monkeypatch.setitem(sys.modules, name, None)
    with caplog.at_level(logging.WARNING):
        encoder = JpegEncoder()
    assert encoder.backend == backend
    assert len(caplog.records) == (backend != "simplejpeg")
    pixels = picture()
    data = encoder.encode(pixels)
    assert np.abs(decode(data).astype(int) - pixels).mean() < 4
    with Image.open(io.BytesIO(data)) as image:
        assert image.layer[0][1:3] == (2, 2)  # type: ignore[attr-defined]  # chroma at half size both ways


def test_without_any_backend_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in HIDDEN:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="install simplejpeg"):
        JpegEncoder()


def test_quality_decides_the_size() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    assert len(JpegEncoder(20).encode(pixels)) < len(JpegEncoder(90).encode(pixels)) / 2
    assert repr(JpegEncoder(20)) == "JpegEncoder(quality=20, backend='simplejpeg')"


@pytest.mark.parametrize("quality", [0, 101, 80.0, True])
def test_a_quality_out_of_range_is_refused(quality: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 100"):
        JpegEncoder(quality)


def test_a_view_that_is_not_contiguous_is_encoded_correctly() -> None:
    pixels = picture()
    encoder = JpegEncoder()
    assert encoder.encode(pixels[:, ::-1]) == encoder.encode(pixels[:, ::-1].copy())


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((4, 4, 3), np.float32),
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((0, 4, 3), np.uint8),
    ],
)
def test_other_arrays_are_refused(pixels: np.ndarray) -> None:
    with pytest.raises(ValueError, match="shape .* dtype .* expected"):
        JpegEncoder().encode(pixels)


# -- one encode for all


class CountingEncoder(JpegEncoder):
    """Stands still while ``open`` is not set, and says that it ``began``."""

    def __init__(self) -> None:
        super().__init__()
        self.brightness: list[int] = []
        self.open = threading.Event()
        self.open.set()
        self.began = threading.Event()
        self.broken = False

    def encode(self, pixels: np.ndarray) -> bytes:
        self.brightness.append(int(pixels[0, 0, 0]))
        self.began.set()
        assert self.open.wait(10)
        if self.broken:
            raise OSError("no more ink")
        return super().encode(pixels)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.fixture
async def frames() -> AsyncIterator[FramePublisher]:
    publisher = FramePublisher()
    yield publisher
    publisher.close()


async def begin(encoder: CountingEncoder) -> None:
    """Wait until an encode has begun."""
    assert await asyncio.to_thread(encoder.began.wait, 10)
    encoder.began.clear()


async def test_fifty_viewers_share_one_encode_of_each_frame(frames: FramePublisher, pool: ThreadPoolExecutor) -> None:
    encoder = CountingEncoder()
    jpegs = JpegPublisher(frames, encoder, pool)
    viewers = [jpegs.subscribe() for _ in range(50)]
    for seq in range(5):
        frames.publish(make_frame(seq))
        pictures = await asyncio.wait_for(asyncio.gather(*(viewer.next() for viewer in viewers)), 10)
        assert all(got is pictures[0] for got in pictures)
        assert pictures[0].id.seq == seq
    assert encoder.brightness == [0, 1, 2, 3, 4]
    assert jpegs.encodes == 5
    assert frames.viewers == 1
    for viewer in viewers:
        viewer.close()


async def test_nothing_is_encoded_without_viewers(frames: FramePublisher, pool: ThreadPoolExecutor) -> None:
    encoder = CountingEncoder()
    jpegs = JpegPublisher(frames, encoder, pool)
    frames.publish(make_frame(0))
    with jpegs.subscribe() as viewer:
        assert (await asyncio.wait_for(viewer.next(), 10)).id.seq == 0
    await asyncio.sleep(0)
    assert frames.viewers == 0
    frames.publish(make_frame(1))
    frames.publish(make_frame(2))
    with jpegs.subscribe() as viewer:
        assert viewer.next_nowait() is None, "an old picture"
        assert (await asyncio.wait_for(viewer.next(), 10)).id.seq == 2
    assert encoder.brightness == [0, 2]


async def test_a_frame_superseded_before_its_encode_is_not_encoded(
    frames: FramePublisher, pool: ThreadPoolExecutor
) -> None:
    encoder = CountingEncoder()
    jpegs = JpegPublisher(frames, encoder, pool)
    busy = threading.Event()
    pool.submit(busy.wait, 10)  # another session has the only thread
    with jpegs.subscribe() as viewer:
        for seq in range(4):
            frames.publish(make_frame(seq))
            await asyncio.sleep(0)
        busy.set()
        assert (await asyncio.wait_for(viewer.next(), 10)).id.seq == 3
        frames.publish(make_frame(4))
        assert (await asyncio.wait_for(viewer.next(), 10)).id.seq == 4
    assert encoder.brightness == [3, 4]


async def test_a_picture_whose_epoch_ends_during_its_encode_is_not_delivered(
    frames: FramePublisher, pool: ThreadPoolExecutor
) -> None:
    encoder = CountingEncoder()
    jpegs = JpegPublisher(frames, encoder, pool)
    with jpegs.subscribe() as viewer:
        encoder.open.clear()
        frames.publish(make_frame(1, epoch=1))
        await begin(encoder)
        frames.begin_epoch(2)
        frames.publish(make_frame(2, epoch=2))
        encoder.open.set()
        got = await asyncio.wait_for(viewer.next(), 10)
        assert (got.id.epoch, got.id.seq) == (2, 2)
    assert jpegs.statistics().refused == 1


async def test_a_reset_withdraws_an_unfetched_picture(frames: FramePublisher, pool: ThreadPoolExecutor) -> None:
    jpegs = JpegPublisher(frames, CountingEncoder(), pool)
    with jpegs.subscribe() as fetches, jpegs.subscribe() as sleeps:
        frames.publish(make_frame(1, epoch=1))
        await asyncio.wait_for(fetches.next(), 10)
        assert jpegs.latest is not None
        frames.begin_epoch(2)
        assert jpegs.latest is None
        assert sleeps.next_nowait() is None


async def test_the_end_of_the_frames_ends_the_pictures(frames: FramePublisher, pool: ThreadPoolExecutor) -> None:
    jpegs = JpegPublisher(frames, CountingEncoder(), pool)
    with jpegs.subscribe() as viewer:
        frames.publish(make_frame(8))
        frames.close()
        assert (await asyncio.wait_for(viewer.next(), 10)).id.seq == 8
        with pytest.raises(PublisherClosed):
            await asyncio.wait_for(viewer.next(), 10)


async def test_subscribing_after_the_end_raises(frames: FramePublisher, pool: ThreadPoolExecutor) -> None:
    jpegs = JpegPublisher(frames, CountingEncoder(), pool)
    frames.close()
    with jpegs.subscribe() as viewer, pytest.raises(PublisherClosed):
        await asyncio.wait_for(viewer.next(), 10)


async def test_a_frame_that_cannot_be_encoded_is_logged_and_skipped(
    frames: FramePublisher, pool: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = CountingEncoder()
    jpegs = JpegPublisher(frames, encoder, pool)
    with jpegs.subscribe() as viewer, caplog.at_level(logging.ERROR):
        encoder.broken = True
        encoder.open.clear()
        frames.publish(make_frame(0))
        await begin(encoder)
        encoder.open.set()
        await asyncio.to_thread(pool.submit(lambda: None).result)
        encoder.broken = False
        frames.publish(make_frame(1))
        assert (await asyncio.wait_for(viewer.next(), 10)).id.seq == 1
    assert "no more ink" in caplog.text
