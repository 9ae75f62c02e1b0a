"""One encode, however many watch.

A stream runs while somebody watches it: it reads the newest frame, encodes it on a worker thread and hands the packets
to each viewer. A viewer gets nothing before a keyframe that it can begin with.
"""

from __future__ import annotations

import asyncio
import contextlib
import fractions
import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import NamedTuple

import av

from ...core.clock import NS_PER_S, Clock
from ..encoding.base import VideoEncoder
from ..frame import Frame, FrameId
from ..publisher import FramePublisher, FrameSubscription, PublisherClosed, SubscriptionEnded
from .send_queue import EncodedFrame, Loss, StreamEnded, VideoViewer

logger = logging.getLogger(__name__)

VIDEO_CLOCK_HZ = 90_000
_TIME_BASE = fractions.Fraction(1, VIDEO_CLOCK_HZ)
_KEYFRAME_GAP_NS = NS_PER_S // 4
_BLIND_KEYFRAME_GAP_NS = 2 * NS_PER_S
_REST_S = 0.1  # a source that gives nothing for this long rests
_Packet = tuple["av.Packet[av.VideoStream]", list[bytes]]
_RATE_STEP = 0.05  # smaller changes of the rate are not worth a word to the encoder


class StampedFrame(NamedTuple):
    """A frame and its arrival time, in nanoseconds of the clock."""

    frame: Frame
    at_ns: int


class FrameReader:
    """Reads the newest frame of a publisher and stamps it with the time at which it arrived.

    Args:
        wake: set when a frame arrives and when the publisher closes.
    """

    def __init__(self, frames: FramePublisher, clock: Clock, wake: asyncio.Event) -> None:
        self._clock = clock
        self._wake = wake
        self._arrived_ns: int | None = None
        self._subscription: FrameSubscription | None = None
        with contextlib.suppress(PublisherClosed):
            self._subscription = frames.subscribe(self._on_update)

    def next_nowait(self) -> StampedFrame | None:
        """The newest frame that was not yet read; ``None`` if there is none, or no more."""
        try:
            frame = None if self._subscription is None else self._subscription.next_nowait()
        except SubscriptionEnded:
            return None
        if frame is None:
            return None
        arrived_ns, self._arrived_ns = self._arrived_ns, None
        return StampedFrame(frame, self._clock.now_ns() if arrived_ns is None else arrived_ns)

    def rewind(self) -> None:
        """Read the newest frame once more, stamped with the time of that read."""
        if self._subscription is not None:
            self._subscription.rewind()

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.close()

    def _on_update(self) -> None:
        self._arrived_ns = self._clock.now_ns()
        self._wake.set()


@dataclass
class StreamStats:
    """Counters of the streams of one tier, set by the stream that runs.

    Attributes:
        viewers: how many watch now, those that are about to go over to it included.
        bitrate: bits per second that its encoder aims at now; 0 while nobody watches.
        losses: how often a viewer had to be given a keyframe, by cause.
    """

    viewers: int = 0
    bitrate: int = 0
    frames_encoded: int = 0
    keyframes: int = 0
    frames_repeated: int = 0
    losses: Counter[Loss] = field(default_factory=Counter)


class SharedStream:
    """One encoder and its viewers. All methods belong to one event loop.

    Args:
        new_encoder: makes an encoder for so many bits per second.
        packetize: makes RTP payloads of an encoded picture.
        bitrate: called with each frame for the bits per second to aim at.
        scale: what both sides of the picture are divided by.
        epoch_ns: when presentation time 0 was.
        stats: where to count.
    """

    def __init__(
        self,
        source: FramePublisher,
        new_encoder: Callable[[int], VideoEncoder],
        packetize: Callable[[bytes], list[bytes]],
        bitrate: Callable[[Frame], int],
        *,
        scale: int,
        epoch_ns: int,
        stats: StreamStats,
        executor: Executor,
        clock: Clock,
    ) -> None:
        self._source = source
        self._new_encoder = new_encoder
        self._packetise = packetize
        self._bitrate_for = bitrate
        self._scale = scale
        self._epoch_ns = epoch_ns
        self._stats = stats
        self._executor = executor
        self._clock = clock
        self._last_pts = -1
        self._last_keyframe_ns: int | None = None
        self._viewers: list[VideoViewer] = []
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._ended: StreamEnded | None = None
        self._keyframe_owed = False
        self._keyframe_wanted = False

    @property
    def broken(self) -> bool:
        """An error ended it."""
        return self._ended is not None and self._ended.error is not None

    def join(self, viewer: VideoViewer) -> None:
        """Let it watch from the next keyframe on, which is asked for here."""
        viewer.watch(self)
        if self._ended:
            viewer.end(self._ended)
            return
        if viewer not in self._viewers:
            self._viewers.append(viewer)
            self._stats.viewers = len(self._viewers)
        self._keyframe_wanted = True
        self._wake.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="shared video stream")

    def leave(self, viewer: VideoViewer) -> None:
        if viewer in self._viewers:
            self._viewers.remove(viewer)
            self._stats.viewers = len(self._viewers)
        self._wake.set()

    def want_keyframe(self, loss: Loss) -> None:
        """A viewer cannot decode on: send a keyframe, at most one every 250 ms."""
        self._stats.losses[loss] += 1
        self._keyframe_wanted = True
        self._wake.set()

    def owe_keyframe(self) -> None:
        """Nobody could decode the next frame unless it is a keyframe."""
        self._keyframe_owed = True
        self._wake.set()

    def go_on(self) -> None:
        """A viewer has room for more."""
        self._wake.set()

    def is_over(self, frame_id: FrameId) -> bool:
        return frame_id.epoch < self._source.epoch

    async def close(self) -> None:
        """End it; its viewers are told. May be called again."""
        self._finish(StreamEnded())
        if self._task is not None:
            await asyncio.wait({self._task})

    def _finish(self, ended: StreamEnded) -> None:
        self._ended = self._ended or ended
        for viewer in self._viewers:
            viewer.end(self._ended)
        self._viewers.clear()
        self._stats.viewers = 0
        self._wake.set()

    async def _run(self) -> None:
        reader = FrameReader(self._source, self._clock, self._wake)
        encoder: VideoEncoder | None = None
        try:
            while stamped := await self._next(reader):
                bitrate = self._bitrate(stamped.frame)
                encoder = encoder or self._new_encoder(bitrate)
                await self._show(encoder, stamped, bitrate)
            if self._viewers:
                self._finish(StreamEnded())
        except Exception as error:
            logger.exception("a shared video stream broke; it had %d viewers", len(self._viewers))
            self._finish(StreamEnded(error))
        finally:
            reader.close()
            if encoder is not None:
                encoder.close()
            self._stats.bitrate = 0
            self._last_keyframe_ns = None
            self._task = None

    async def _next(self, reader: FrameReader) -> StampedFrame | None:
        """What to show next. When a viewer needs a keyframe and the source rests, its newest frame again.

        While no viewer has room, frames are left out: encoded, they would be thrown away, and a keyframe be needed.
        """
        repeats = False
        while self._viewers:
            self._wake.clear()
            has_room = not all(viewer.is_full for viewer in self._viewers)
            if has_room and (stamped := reader.next_nowait()):
                self._stats.frames_repeated += repeats
                return stamped
            if self._source.closed:
                return None
            is_awaited = self._keyframe_owed or self._keyframe_wanted
            try:
                await asyncio.wait_for(self._wake.wait(), _REST_S if is_awaited and not repeats else None)
            except asyncio.TimeoutError:
                if self._keyframe_due():
                    reader.rewind()
                    repeats = True
        return None

    async def _show(self, encoder: VideoEncoder, stamped: StampedFrame, bitrate: int) -> None:
        forced = self._keyframe_due()
        if forced:
            self._keyframe_owed = self._keyframe_wanted = False
        pts = self._pts(stamped.at_ns)
        loop = asyncio.get_running_loop()
        packets = await loop.run_in_executor(self._executor, self._encode, encoder, stamped, forced, bitrate)
        encoded_ns = self._clock.now_ns()
        self._stats.frames_encoded += 1
        if self.is_over(stamped.frame.id):
            self.owe_keyframe()  # nobody gets these packets, so nothing may refer to them
            return
        for packet, payloads in packets:
            packet.pts = packet.dts = pts
            packet.time_base = _TIME_BASE
            await self._deliver(EncodedFrame(packet, stamped.frame.id, stamped.at_ns, encoded_ns, payloads))

    def _encode(self, encoder: VideoEncoder, stamped: StampedFrame, forced: bool, bitrate: int) -> list[_Packet]:
        encoder.set_bitrate(bitrate)
        planes = stamped.frame.planes(1 / self._scale)
        packets = encoder.encode(planes, forced, at_ns=stamped.at_ns)
        return [(packet, self._packetise(bytes(packet))) for packet in packets]

    def _bitrate(self, frame: Frame) -> int:
        wanted, bitrate = self._bitrate_for(frame), self._stats.bitrate
        if abs(wanted - bitrate) > _RATE_STEP * bitrate:
            self._stats.bitrate = wanted
        return self._stats.bitrate

    def _pts(self, at_ns: int) -> int:
        real = (at_ns - self._epoch_ns) * VIDEO_CLOCK_HZ // NS_PER_S
        self._last_pts = max(real, self._last_pts + 1)
        return self._last_pts

    async def _deliver(self, encoded: EncodedFrame) -> None:
        """Give a packet to each viewer, in a turn of the loop for each, since each sends it at once."""
        if encoded.packet.is_keyframe:
            self._stats.keyframes += 1
            self._last_keyframe_ns = self._clock.now_ns()
        for viewer in tuple(self._viewers):
            viewer.offer(self, encoded)
            await asyncio.sleep(0)

    def _keyframe_due(self) -> bool:
        if self._keyframe_owed or self._last_keyframe_ns is None:
            return True
        since_ns = self._clock.now_ns() - self._last_keyframe_ns
        return (self._keyframe_wanted and since_ns >= _KEYFRAME_GAP_NS) or (
            since_ns >= _BLIND_KEYFRAME_GAP_NS and any(viewer.blind for viewer in self._viewers)
        )
