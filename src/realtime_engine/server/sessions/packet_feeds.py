"""The viewers of one session who are sent packets by WebSocket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...infra.controls import timing_message
from ...infra.controls.schema import PresentedMessage, ShownFrame
from ...infra.encoding import Codec
from ...infra.publisher import FramePublisher
from ...infra.telemetry.frame_latency import FrameLatencyTracker, PageClock, PresentedFrame
from ...infra.webcodecs import PacketFeed
from ...infra.webrtc import EncodedFrame, SharedVideo

TRANSPORT = "webcodecs"


class PacketFeeds:
    """Opens feeds of the session's H.264, and counts them.

    Args:
        video: what they watch.
        frames: where it comes from.
        joiner: told of what the viewers that have a name are sent.
        budget_ms: milliseconds for which a frame may wait for a slow viewer.
    """

    def __init__(
        self, video: SharedVideo, frames: FramePublisher, joiner: FrameLatencyTracker, budget_ms: float
    ) -> None:
        self._video = video
        self._frames = frames
        self._joiner = joiner
        self._budget_ms = budget_ms
        self.connected = 0

    @contextmanager
    def open(self, name: str | None = None) -> Iterator[PacketFeed]:
        """A viewer for as long as this is entered, by the name that it goes by when it tells what it has shown."""
        viewer = self._video.add_viewer(Codec.H264)

        def note_sent(encoded: EncodedFrame, sent_ns: int) -> None:
            paced_ns, encoded_ns = encoded.paced_ns, encoded.encoded_ns
            self._joiner.sent(name, TRANSPORT, encoded.id, paced_ns=paced_ns, encoded_ns=encoded_ns, sent_ns=sent_ns)

        feed = PacketFeed(
            viewer,
            epoch=lambda: self._frames.epoch,
            budget_ms=self._budget_ms,
            on_rate=viewer.report_rate,
            on_sent=None if name is None else note_sent,
        )
        self.connected += 1
        try:
            yield feed
        finally:
            self.connected -= 1
            feed.close()
            if name is not None:
                self._joiner.left(name)


def acknowledge(joiner: FrameLatencyTracker, message: PresentedMessage) -> list[dict[str, Any]]:
    """Join what a page tells with what is known of its frames; the reply is how long they take, if it asks."""
    clock = PageClock(message.clock.offset, message.clock.uncertainty)
    joiner.presented(message.viewer, map(_told, message.frames), clock)
    if not message.timing:
        return []
    transport = joiner.transport_of(message.viewer)
    return [timing_message(transport, {} if transport is None else joiner.times.snapshot(transport))]


def _told(frame: ShownFrame) -> PresentedFrame:
    key = (frame.epoch, frame.seq, frame.index)
    press = () if frame.press is None else (frame.press.seq, frame.press.t)
    return PresentedFrame(key, frame.received, frame.decoded, frame.presented, *press)
