from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

import av
import numpy as np
import pytest

from realtime_engine.infra.video_input import VideoInput
from realtime_engine.infra.webrtc import (
    BadCandidateError,
    BadOfferError,
    PeerClosedError,
    PeerOptions,
    PeerTimeouts,
    PublisherCloseReason,
    PublisherPeer,
    ReceivedPicture,
    publisher_peer,
)
from realtime_engine.infra.webrtc.publisher_peer import FrameConverter

from ...publisher import Paint, Publisher
from .support import GatedExecutor, InlineExecutor, picture, psnr, until

SIZE = (320, 180)
SMALL = "a=candidate:1 1 udp 2130706431 192.0.2.9 5000 typ host\r\n"


def paint(number: int) -> np.ndarray:
    return picture(number, *SIZE)


class Received:
    """What a peer reported about one publisher."""

    def __init__(self) -> None:
        self.pictures: list[ReceivedPicture] = []
        self.ends: list[PublisherCloseReason] = []

    async def at_least(self, count: int) -> None:
        await until(lambda: len(self.pictures) >= count, 0.005)


@asynccontextmanager
async def publishing(
    paint: Paint = paint, *, max_side: int = 640, timeouts: PeerTimeouts | None = None, **options: Any
) -> AsyncIterator[tuple[Publisher, PublisherPeer, Received]]:
    received = Received()
    async with Publisher(paint, **options) as publisher:
        peer = await PublisherPeer.from_offer(
            await publisher.offer(),
            VideoInput("ring", 64, max_side),
            on_picture=received.pictures.append,
            on_closed=received.ends.append,
            options=PeerOptions(timeouts=timeouts or PeerTimeouts()),
        )
        try:
            await publisher.set_answer(peer.answer)
            yield publisher, peer, received
        finally:
            await peer.close()


@pytest.mark.parametrize("codec", ["VP8", "H264"])
async def test_pictures_arrive_unchanged_and_in_order(codec: str) -> None:
    async with publishing(codec=codec) as (publisher, peer, received):
        await received.at_least(12)
        assert peer.is_connected
        steps = np.diff([each.media_ns for each in received.pictures])
        assert received.pictures[0].media_ns == 0 and np.abs(steps - 1e9 / 30).max() < 50_000, "one tick of 90 kHz"
        assert (np.diff([each.arrived_ns for each in received.pictures]) > 0).all()
        for number in (0, 11):
            assert psnr(received.pictures[number].pixels[..., 1], paint(number)[..., 1]) > 28, number


async def test_large_video_is_scaled_down_to_the_declared_size() -> None:
    async with publishing(max_side=160) as (_, _, received):
        await received.at_least(1)
        assert received.pictures[0].pixels.shape == (90, 160, 3)


async def test_the_last_picture_arrives_without_a_next_one() -> None:
    """A sender that stops at frame N shows frame N."""
    last = asyncio.Event()

    def three(number: int) -> np.ndarray:
        if number == 3:
            publisher.track.stop()
            last.set()
        return paint(number)

    async with publishing(three) as (publisher, _, received):
        await last.wait()
        await received.at_least(4)


async def test_audio_is_answered_as_inactive() -> None:
    async with publishing(audio=True) as (_, peer, received):
        audio, video = peer.answer.split("m=")[1:]
        assert audio.startswith("audio") and "a=inactive" in audio
        assert video.startswith("video") and "a=recvonly" in video
        await received.at_least(1)


async def test_a_goodbye_is_detected_at_once() -> None:
    async with publishing() as (publisher, peer, received):
        await received.at_least(1)
        await publisher.connection.close()
        await until(lambda: bool(received.ends), 0.005)
        assert received.ends == [PublisherCloseReason.PUBLISHER]
        with pytest.raises(PeerClosedError):
            await peer.add_candidate(SMALL)


async def test_a_vanished_publisher_is_disconnected() -> None:
    async with publishing(timeouts=PeerTimeouts(silence_s=0.4)) as (publisher, _, received):
        await received.at_least(1)
        await publisher.vanish()
        await until(lambda: bool(received.ends), 0.005)
        assert received.ends == [PublisherCloseReason.VANISHED]


async def test_a_publisher_that_never_connects_is_disconnected() -> None:
    received = Received()
    async with Publisher(paint) as publisher:
        peer = await PublisherPeer.from_offer(
            await publisher.offer(),
            VideoInput(),
            on_picture=received.pictures.append,
            on_closed=received.ends.append,
            options=PeerOptions(timeouts=PeerTimeouts(connect_s=0.2)),
        )
        await until(lambda: bool(received.ends), 0.005)
        assert received.ends == [PublisherCloseReason.NEVER_CONNECTED] and not peer.is_connected


async def test_a_keyframe_is_requested_when_nothing_can_be_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder gets nothing that it can begin with until the publisher is asked."""
    monkeypatch.setattr(publisher_peer, "_KEYFRAME_WAIT_NS", 100_000_000)
    async with publishing(timeouts=PeerTimeouts(silence_s=0.8)) as (publisher, peer, received):
        await received.at_least(1)
        converter: Any = peer._converter
        take, converter.put = converter.put, lambda *_: None
        asked = asyncio.Event()
        publisher.sender._send_keyframe = asked.set
        await asked.wait()
        converter.put = take
        before = len(received.pictures)
        await received.at_least(before + 1)


async def test_candidates_are_checked() -> None:
    async with publishing() as (_, peer, _):
        await peer.add_candidate(SMALL)
        for fragment in ("nonsense", "a=ice-ufrag:other\r\n"):
            with pytest.raises(BadCandidateError):
                await peer.add_candidate(fragment)
        with pytest.raises(BadCandidateError, match="at most 128"):
            for _ in range(130):
                await peer.add_candidate(SMALL)


async def test_a_refused_offer_leaves_nothing_behind() -> None:
    async with Publisher(paint, audio=True) as publisher:
        offer = (await publisher.offer()).replace("opus/48000", "strange/1").replace("PCM", "PCX").replace("G722", "G7")
        ends: list[PublisherCloseReason] = []
        with pytest.raises(BadOfferError, match="cannot be used"):
            await PublisherPeer.from_offer(offer, VideoInput(), on_picture=print, on_closed=ends.append)
        assert ends == []


def image(value: int) -> av.VideoFrame:
    frame = av.VideoFrame.from_ndarray(np.full((16, 16, 3), value, np.uint8), format="rgb24")
    frame.pts, frame.time_base = value * 900, Fraction(1, 90_000)
    return frame


class Running:
    def __init__(self, waiting: int, pool: InlineExecutor | GatedExecutor) -> None:
        self.pictures: list[ReceivedPicture] = []
        self.drops = 0
        self.converter = FrameConverter(waiting, 640, pool, self.pictures.append, self._drop)

    def _drop(self) -> None:
        self.drops += 1

    def put(self, *values: int) -> None:
        for value in values:
            self.converter.put(image(value), value * 7)

    @property
    def values(self) -> list[int]:
        return [int(picture.pixels[0, 0, 0]) for picture in self.pictures]


@asynccontextmanager
async def running(waiting: int, pool: InlineExecutor | GatedExecutor) -> AsyncIterator[Running]:
    run = Running(waiting, pool)
    task = asyncio.create_task(run.converter.run())
    yield run
    task.cancel()
    await asyncio.wait({task})


async def test_pictures_are_converted_in_order_with_both_times() -> None:
    async with running(4, InlineExecutor()) as run:
        run.put(10, 20, 30)
        await until(lambda: len(run.pictures) == 3)
        assert run.values == [10, 20, 30] and run.drops == 0
        assert run.pictures[1][1:] == (200_000_000, 140), "900 ticks of 90 kHz are 10 ms"


@pytest.mark.parametrize(("waiting", "kept"), [(1, [10, 50]), (2, [10, 40, 50])])
async def test_a_slow_conversion_drops_the_oldest_frames(waiting: int, kept: list[int]) -> None:
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
        assert run.values == kept and run.converter.received == 5


async def test_a_frame_that_cannot_be_converted_is_dropped() -> None:
    async with running(4, InlineExecutor()) as run:
        run.converter.put(av.VideoFrame(16384, 8192, "gray"), 0)
        run.put(10)
        await until(lambda: run.pictures != [])
        assert run.values == [10] and run.drops == 1


async def test_a_frame_without_a_timestamp_counts_from_the_beginning() -> None:
    async with running(1, InlineExecutor()) as run:
        bare = image(10)
        bare.pts = None
        run.converter.put(bare, 5)
        await until(lambda: run.pictures != [])
        assert run.pictures[0].media_ns == 0


async def test_large_frames_do_not_fill_the_memory_while_they_wait() -> None:
    run = Running(256, GatedExecutor())
    for _ in range(20):
        run.converter.put(av.VideoFrame(4096, 2048, "gray"), 0)
    assert run.drops == 16
    run.put(*range(100))
    assert run.drops == 17, "the small ones all have room beside three of them"
