from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from realtime_engine.infra.frame import Frame, FrameId
from realtime_engine.infra.publisher import FramePublisher
from realtime_engine.infra.webrtc import Codec
from realtime_engine.server.freshness import EpochSource


class FakeEncoder:
    """Notes what it was told; ``meanwhile`` runs in the middle of an encode."""

    def __init__(self) -> None:
        self.keyframes: list[bool] = []
        self.meanwhile: Callable[[], Any] = lambda: None
        self.closed = False
        self.bitrate: int | None = None

    def encode(self, pixels: np.ndarray, force_keyframe: bool = False) -> list[Any]:
        self.keyframes.append(force_keyframe)
        self.meanwhile()
        return ["packet"]

    def set_bitrate(self, bits_per_second: int) -> None:
        self.bitrate = bits_per_second

    def close(self) -> None:
        self.closed = True


def frame(epoch: int, seq: int) -> Frame:
    return Frame(np.zeros((2, 2, 3), np.uint8), FrameId("s", epoch, seq, 0))


async def test_a_frame_that_is_over_before_its_encode_costs_nothing() -> None:
    publisher, inner = FramePublisher(), FakeEncoder()
    source = EpochSource(publisher, lambda codec, fps, bitrate: inner)
    encoder = source.encoder(Codec.VP8, 30.0, None)
    viewer = source.subscribe()
    publisher.publish(frame(1, 0))
    old = await anext(viewer)
    assert encoder.encode(old.pixels) == ["packet"]
    publisher.begin_epoch(2)
    assert encoder.encode(old.pixels, True) == [] and inner.keyframes == [False]
    publisher.publish(frame(2, 1))
    new = await anext(viewer)
    assert encoder.encode(new.pixels) == ["packet"] and inner.keyframes == [False, True]
    assert encoder.encode(new.pixels) == ["packet"] and inner.keyframes[-1] is False
    viewer.close()
    assert publisher.viewers == 0


async def test_what_was_encoded_in_vain_is_followed_by_a_keyframe() -> None:
    publisher, inner = FramePublisher(), FakeEncoder()
    source = EpochSource(publisher, lambda codec, fps, bitrate: inner)
    encoder = source.encoder(Codec.VP8, 30.0, None)
    viewer = source.subscribe()
    publisher.publish(frame(1, 0))
    old = await anext(viewer)
    inner.meanwhile = lambda: publisher.begin_epoch(2)
    assert encoder.encode(old.pixels) == []
    publisher.publish(frame(2, 1))
    new = await anext(viewer)
    assert encoder.encode(new.pixels) == ["packet"]
    assert inner.keyframes == [False, True]


async def test_the_rest_is_passed_on() -> None:
    inner = FakeEncoder()
    encoder = EpochSource(FramePublisher(), lambda codec, fps, bitrate: inner).encoder(Codec.VP8, 30.0, None)
    encoder.set_bitrate(5)
    encoder.close()
    assert (inner.bitrate, inner.closed) == (5, True)


async def test_frames_long_gone_are_not_kept() -> None:
    publisher = FramePublisher()
    source = EpochSource(publisher)
    viewer = source.subscribe()
    for seq in range(20):
        publisher.publish(frame(1, seq))
        await anext(viewer)
    assert len(source._noted) == 4
