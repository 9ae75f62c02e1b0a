"""The WebCodecs viewers of one session, and the reports of presented frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...infra.controls import timing_message
from ...infra.controls.schema import PresentedMessage, ShownFrame
from ...infra.encoding import Codec
from ...infra.publisher import FramePublisher
from ...infra.telemetry.frame_latency import FrameLatencyTracker, PageClock, PresentedFrame
from ...infra.webcodecs import PacketFeed
from ...infra.webrtc import EncodedFrame, SharedVideo
from .access import Member

TRANSPORT = "webcodecs"


class PacketFeeds:
    """Opens feeds of a session's H.264 packets, and counts them.

    Args:
        video: the session's video.
        frames: the session's frames, whose epoch the feeds follow.
        latency: informed of each frame sent to a viewer that has a name.
        budget_ms: how long a frame may wait for a slow viewer, in milliseconds.

    Attributes:
        connected: feeds that are open.
    """

    def __init__(
        self, video: SharedVideo, frames: FramePublisher, latency: FrameLatencyTracker, budget_ms: float
    ) -> None:
        self.connected = 0
        self._video = video
        self._frames = frames
        self._latency = latency
        self._budget_ms = budget_ms

    @contextmanager
    def open(self, member: Member, name: str | None = None) -> Iterator[PacketFeed]:
        """A feed for one viewer, closed on exit. ``name`` is what the viewer calls itself in ``presented``."""
        viewer = self._video.add_viewer(Codec.H264)

        def on_sent(encoded: EncodedFrame, sent_ns: int) -> None:
            paced_ns, encoded_ns = encoded.paced_ns, encoded.encoded_ns
            identity = encoded.id.seen_by(member.frame_slot)
            self._latency.sent(name, TRANSPORT, identity, paced_ns=paced_ns, encoded_ns=encoded_ns, sent_ns=sent_ns)

        feed = PacketFeed(
            viewer,
            epoch=lambda: self._frames.epoch,
            budget_ms=self._budget_ms,
            slot=lambda: member.frame_slot,
            on_rate=viewer.report_rate,
            on_sent=None if name is None else on_sent,
        )
        self.connected += 1
        try:
            yield feed
        finally:
            self.connected -= 1
            feed.close()
            if name is not None:
                self._latency.left(name)


def record_presented(
    latency: FrameLatencyTracker, stages: Callable[[], list[dict[str, Any]]], message: PresentedMessage
) -> list[dict[str, Any]]:
    """Record the frames that a client has presented; the reply is the session's timing, if requested.

    ``stages`` returns the statistics of the model's stages.
    """
    clock = PageClock(message.clock.offset, message.clock.uncertainty)
    latency.presented(message.viewer, map(_presented_frame, message.frames), clock)
    if not message.timing:
        return []
    transport = latency.transport_of(message.viewer)
    frames = {} if transport is None else latency.times.snapshot(transport)
    return [timing_message(transport, frames, stages())]


def _presented_frame(frame: ShownFrame) -> PresentedFrame:
    key = (frame.epoch, frame.seq, frame.index)
    press = () if frame.press is None else (frame.press.seq, frame.press.t)
    return PresentedFrame(key, frame.received, frame.decoded, frame.presented, *press)
