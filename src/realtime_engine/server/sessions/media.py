"""The output of one session: its newest frames, and every way of watching them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace

from ...core.clock import MONOTONIC
from ...infra.frame import FrameId
from ...infra.jpeg import JpegEncoder, JpegFrame, JpegPublisher
from ...infra.mjpeg import MjpegStream
from ...infra.publisher import FramePublisher
from ...infra.telemetry.frame_latency import FrameLatencyTracker
from ...infra.webcodecs import JpegFeed
from ...infra.webrtc import SharedVideo, StreamStats, Tier
from ..counters import Counts
from ..resources import ServerResources
from .access import Member
from .idle_timeout import IdleTimer
from .packet_feeds import PacketFeeds
from .peers import ControlConnections, WebRtcViewers
from .recordings import Recordings
from .thumbnails import Thumbnails


class Snapshots:
    """The newest frame as JPEG, encoded once however often it is requested.

    Args:
        frames: the session's frames.
        jpeg: the encoder.
        pool: threads to encode on.
    """

    def __init__(self, frames: FramePublisher, jpeg: JpegEncoder, pool: Executor) -> None:
        self._frames = frames
        self._jpeg = jpeg
        self._pool = pool
        self._cached: JpegFrame | None = None

    async def newest(self) -> JpegFrame | None:
        """The newest frame; ``None`` before the first."""
        while (frame := self._frames.latest) is not None:
            cached = self._cached
            if cached is None or cached.id != frame.id:
                data = await asyncio.get_running_loop().run_in_executor(self._pool, self._jpeg.encode, frame.pixels)
                cached = self._cached = JpegFrame(data, frame.id)
            if cached.id.epoch >= self._frames.epoch:  # a reset may have happened during the encode
                return cached
        return None


class SessionMedia:
    """The frames of one session and their viewers, over all transports.

    Args:
        resources: what all sessions of the server share.
        session_id: the session.
        idle: informed of viewers.
        connections: each WebRTC viewer is one of the session's control connections.

    Attributes:
        frames: publishes the session's frames.
        latency: the times of the frames, as viewers report them.
        jpegs: publishes the frames as JPEG while there are MJPEG viewers.
        mjpeg: the MJPEG streams.
        thumbnails: small pictures for the lobby.
        video: the encoded video, shared by WebRTC and WebCodecs viewers and recordings.
        viewers: the WebRTC viewers.
        feeds: the WebCodecs viewers.
        recordings: the session's recordings; ``None`` if recording is disabled.
    """

    def __init__(
        self,
        resources: ServerResources,
        session_id: str,
        idle: IdleTimer,
        connections: ControlConnections,
    ) -> None:
        config, pool = resources.config, resources.pool
        self._idle = idle
        self._budget_ms = config.media_age_budget_ms
        self.latency = FrameLatencyTracker(resources.totals)
        self.frames = FramePublisher(idle.on_watched)
        self.jpegs = JpegPublisher(self.frames, resources.jpeg, pool, self._on_jpeg)
        self.mjpeg = MjpegStream(self.jpegs, config.heartbeat_s)
        self.thumbnails = Thumbnails(self.frames, pool, MONOTONIC)
        self._snapshots = Snapshots(self.frames, resources.jpeg, pool)
        self.video = SharedVideo(self.frames, fps=resources.fps, bitrate=config.bitrate, factory=resources.encoders)
        self.viewers = WebRtcViewers(self.video, connections, config.ice, self.latency)
        self.feeds = PacketFeeds(self.video, self.frames, self.latency, config.media_age_budget_ms)
        self.recordings: Recordings | None = None
        if resources.recordings is not None:
            self.recordings = Recordings(
                resources.recordings,
                session_id,
                self.video,
                pool,
                attended_ns=self._attended_ns,
                idle_timeout_s=config.idle_timeout_s,
            )

    @property
    def watching(self) -> int:
        """Viewers now, over all transports. A recording is none."""
        return self.jpegs.viewers + self.viewers.connected + self.feeds.connected

    def tiers(self) -> list[tuple[Tier, StreamStats]]:
        """The statistics of each video tier, one codec after another."""
        return [(tier, stats) for (_, tier), stats in self.video.stats.items()]

    def counts(self) -> Counts:
        """Totals of what was published, encoded and recorded."""
        counts = Counts(published=self.frames.statistics().published, jpeg_encodes=self.jpegs.encodes)
        if self.recordings is not None:
            counts = replace(counts, recordings=self.recordings.started, recorded_bytes=self.recordings.bytes)
        return counts.with_video(self.tiers())

    @contextmanager
    def open_jpeg_feed(self, member: Member) -> Iterator[JpegFeed]:
        """A feed of JPEGs for one viewer of the video WebSocket, closed on exit."""
        with self.jpegs.subscribe() as pictures:
            yield JpegFeed(pictures, budget_ms=self._budget_ms, slot=lambda: member.frame_slot)

    async def snapshot(self) -> JpegFrame | None:
        """The newest frame as JPEG; ``None`` before the first. Counts as watching for a moment."""
        self._idle.on_snapshot()
        return await self._snapshots.newest()

    def on_published(self, frame: FrameId) -> None:
        """A frame is about to be published."""
        if self.jpegs.viewers:
            self.latency.shown(frame.seen_by(0))

    def close_streams(self) -> None:
        """Publish no more frames, which ends all streams."""
        self.frames.close()

    async def close(self) -> None:
        """Disconnect all viewers and complete the recording."""
        self.close_streams()
        await self.viewers.close()
        await self.video.close()
        if self.recordings is not None:
            await self.recordings.close()

    def _attended_ns(self) -> int:
        """When a client last watched or sent controls; a recording does not count as a viewer."""
        return MONOTONIC.now_ns() if self.watching else self._idle.last_activity_ns

    def _on_jpeg(self, frame: FrameId) -> None:
        self.latency.encoded(frame.seen_by(0), "mjpeg")
