"""No encoded frame of an epoch that is over, not even one that is being encoded while it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..infra.frame import Frame
from ..infra.publisher import FramePublisher, FrameSubscription
from ..infra.webrtc import Codec, VideoEncoder, create_encoder

_REMEMBERED = 4  # frames between a source and the end of their encode: one read, one waiting, one at work

EncoderFactory = Callable[[Codec, float, "int | None"], VideoEncoder]


class EpochSource:
    """The frames of a publisher for a video that knows nothing of epochs; :meth:`encoder` goes with it.

    Args:
        make: makes the encoder that does the work.
    """

    def __init__(self, publisher: FramePublisher, make: EncoderFactory = create_encoder) -> None:
        self._publisher = publisher
        self._make = make
        self._noted: tuple[Frame, ...] = ()  # replaced as a whole: threads that encode read it

    @property
    def epoch(self) -> int:
        return self._publisher.epoch

    def subscribe(self) -> NotedSubscription:
        return NotedSubscription(self._publisher.subscribe(), self._note)

    def encoder(self, codec: Codec, fps: float, bitrate: int | None) -> VideoEncoder:
        """An encoder for frames of this source, which gives nothing for those whose epoch is over."""
        return FreshEncoder(self._make(codec, fps, bitrate), self.is_over)

    def is_over(self, pixels: NDArray[np.uint8]) -> bool:
        """Whether the epoch of the frame with these very ``pixels`` is over."""
        return any(frame.pixels is pixels and frame.id.epoch < self._publisher.epoch for frame in self._noted)

    def _note(self, frame: Frame) -> None:
        self._noted = (*self._noted[1 - _REMEMBERED :], frame)


class NotedSubscription:
    """A subscription that reports what it hands out."""

    def __init__(self, subscription: FrameSubscription, note: Callable[[Frame], None]) -> None:
        self._subscription = subscription
        self._note = note

    def __aiter__(self) -> NotedSubscription:
        return self

    async def __anext__(self) -> Frame:
        frame = await anext(self._subscription)
        self._note(frame)
        return frame

    def close(self) -> None:
        self._subscription.close()


class FreshEncoder:
    """Gives no packets for a frame that is over before its encode begins, or when it ends.

    What a viewer was not given cannot be referred to, so the frame after one that was encoded in vain is a keyframe.
    """

    def __init__(self, encoder: VideoEncoder, is_over: Callable[[NDArray[np.uint8]], bool]) -> None:
        self._encoder = encoder
        self._is_over = is_over
        self._keyframe_owed = False

    def encode(self, pixels: NDArray[np.uint8], force_keyframe: bool = False) -> list[Any]:
        self._keyframe_owed = self._keyframe_owed or force_keyframe
        if self._is_over(pixels):
            return []
        packets = self._encoder.encode(pixels, self._keyframe_owed)
        self._keyframe_owed = self._is_over(pixels)
        return [] if self._keyframe_owed else packets

    def set_bitrate(self, bits_per_second: int) -> None:
        self._encoder.set_bitrate(bits_per_second)

    def close(self) -> None:
        self._encoder.close()
