"""The viewers of one session who are sent packets by WebSocket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..infra.publisher import FramePublisher
from ..infra.webcodecs import PacketFeed
from ..infra.webrtc import Codec, SharedVideo


class PacketFeeds:
    """Opens feeds of the session's H.264, and counts them.

    Args:
        video: what they watch.
        frames: where it comes from.
        budget_ms: milliseconds for which a frame may wait for a slow viewer.
    """

    def __init__(self, video: SharedVideo, frames: FramePublisher, budget_ms: float) -> None:
        self._video = video
        self._frames = frames
        self._budget_ms = budget_ms
        self.connected = 0

    @contextmanager
    def open(self) -> Iterator[PacketFeed]:
        """A viewer for as long as this is entered."""
        viewer = self._video.join(Codec.H264)
        feed = PacketFeed(viewer, epoch=lambda: self._frames.epoch, budget_ms=self._budget_ms)
        self.connected += 1
        try:
            yield feed
        finally:
            self.connected -= 1
            feed.close()
