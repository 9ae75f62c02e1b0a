"""One encoder shared by all viewers of a tier.

A stream runs while it has viewers: it reads the newest frame, encodes it on a worker thread and puts the packets into
the viewers' send queues. A viewer is sent nothing before a keyframe.
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
_KEYFRAME_INTERVAL_NS = NS_PER_S // 4
_BLIND_KEYFRAME_INTERVAL_NS = 2 * NS_PER_S
_IDLE_S = 0.1  # without a new frame for this long, the newest one is encoded again for those who need a keyframe
_MIN_RATE_CHANGE = 0.05  # smaller changes of the bitrate are not passed on to the encoder
_Packet = tuple["av.Packet[av.VideoStream]", list[bytes]]


@dataclass
class StreamStats:
    """Counters of the streams of one tier, set by the running stream.

    Attributes:
        viewers: viewers now, those about to switch to it included.
        bitrate: the encoder's target in bits per second; 0 without viewers.
        frames_encoded: frames encoded so far.
        keyframes: how many of them were keyframes.
        frames_repeated: how many of them were encoded again because a viewer needed a keyframe.
        losses: keyframe requests by cause.
    """

    viewers: int = 0
    bitrate: int = 0
    frames_encoded: int = 0
    keyframes: int = 0
    frames_repeated: int = 0
    losses: Counter[Loss] = field(default_factory=Counter)


@dataclass(frozen=True)
class StreamOptions:
    """What all streams of one codec have in common.

    Attributes:
        frames: the session's frames.
        new_encoder: makes an encoder for a bitrate in bits per second.
        packetize: splits an encoded picture into RTP payloads.
        epoch_ns: the time of presentation time 0.
        executor: threads to encode on.
        clock: stamps frames.
    """

    frames: FramePublisher
    new_encoder: Callable[[int], VideoEncoder]
    packetize: Callable[[bytes], list[bytes]]
    epoch_ns: int
    executor: Executor
    clock: Clock


class StampedFrame(NamedTuple):
    """A frame and its arrival time, in nanoseconds of the clock."""

    frame: Frame
    at_ns: int


class FrameReader:
    """Reads the newest frame of a publisher and stamps it with the time at which it arrived.

    Args:
        frames: the publisher.
        clock: stamps frames.
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
        """Stop reading."""
        if self._subscription is not None:
            self._subscription.close()

    def _on_update(self) -> None:
        self._arrived_ns = self._clock.now_ns()
        self._wake.set()


class SharedStream:
    """One encoder and its viewers. All methods belong to one event loop.

    Args:
        options: what all streams of the codec have in common.
        bitrate: called with each frame for the target bitrate in bits per second.
        scale: divisor of both sides of the picture.
        stats: where to count.
    """

    def __init__(
        self, options: StreamOptions, bitrate: Callable[[Frame], int], *, scale: int, stats: StreamStats
    ) -> None:
        self._frames = options.frames
        self._options = options
        self._clock = options.clock
        self._bitrate_for = bitrate
        self._scale = scale
        self._stats = stats
        self._last_pts = -1
        self._last_keyframe_ns: int | None = None
        self._viewers: list[VideoViewer] = []
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._ended: StreamEnded | None = None
        self._keyframe_required = False
        self._keyframe_requested = False

    @property
    def broken(self) -> bool:
        """Whether it was ended by an error."""
        return self._ended is not None and self._ended.error is not None

    def add_viewer(self, viewer: VideoViewer) -> None:
        """Feed ``viewer`` from the next keyframe on, which is requested here."""
        viewer.switch_to(self)
        if self._ended:
            viewer.end(self._ended)
            return
        if viewer not in self._viewers:
            self._viewers.append(viewer)
            self._stats.viewers = len(self._viewers)
        self._keyframe_requested = True
        self._wake.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="shared video stream")

    def remove_viewer(self, viewer: VideoViewer) -> None:
        """Send no more to ``viewer``."""
        if viewer in self._viewers:
            self._viewers.remove(viewer)
            self._stats.viewers = len(self._viewers)
        self._wake.set()

    def request_keyframe(self, loss: Loss) -> None:
        """A viewer needs a keyframe; at most one is sent every 250 ms."""
        self._stats.losses[loss] += 1
        self._keyframe_requested = True
        self._wake.set()

    def require_keyframe(self) -> None:
        """Make the next frame a keyframe: no viewer could decode any other."""
        self._keyframe_required = True
        self._wake.set()

    def on_room(self) -> None:
        """A viewer's queue has room again."""
        self._wake.set()

    def is_stale(self, frame_id: FrameId) -> bool:
        """Whether the frame belongs to an epoch that has ended."""
        return frame_id.epoch < self._frames.epoch

    async def close(self) -> None:
        """End the stream and its viewers' queues. Idempotent."""
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
        reader = FrameReader(self._frames, self._clock, self._wake)
        encoder: VideoEncoder | None = None
        try:
            while stamped := await self._next(reader):
                bitrate = self._bitrate(stamped.frame)
                encoder = encoder or self._options.new_encoder(bitrate)
                await self._encode_and_send(encoder, stamped, bitrate)
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
        """The next frame to encode: the newest one, or the same again when a viewer needs a keyframe and none arrives.

        Frames are skipped while no viewer has room: they would be encoded in vain, and then cost a keyframe.
        """
        repeats = False
        while self._viewers:
            self._wake.clear()
            has_room = not all(viewer.is_full for viewer in self._viewers)
            if has_room and (stamped := reader.next_nowait()):
                self._stats.frames_repeated += repeats
                return stamped
            if self._frames.closed:
                return None
            is_awaited = self._keyframe_required or self._keyframe_requested
            try:
                await asyncio.wait_for(self._wake.wait(), _IDLE_S if is_awaited and not repeats else None)
            except asyncio.TimeoutError:
                if self._is_keyframe_due():
                    reader.rewind()
                    repeats = True
        return None

    async def _encode_and_send(self, encoder: VideoEncoder, stamped: StampedFrame, bitrate: int) -> None:
        forced = self._is_keyframe_due()
        if forced:
            self._keyframe_required = self._keyframe_requested = False
        pts = self._pts(stamped.at_ns)
        loop = asyncio.get_running_loop()
        packets = await loop.run_in_executor(self._options.executor, self._encode, encoder, stamped, forced, bitrate)
        encoded_ns = self._clock.now_ns()
        self._stats.frames_encoded += 1
        if self.is_stale(stamped.frame.id):
            self.require_keyframe()  # these packets are not sent, so later ones must not refer to them
            return
        for packet, payloads in packets:
            packet.pts = packet.dts = pts
            packet.time_base = _TIME_BASE
            await self._send(EncodedFrame(packet, stamped.frame.id, stamped.at_ns, encoded_ns, payloads))

    def _encode(self, encoder: VideoEncoder, stamped: StampedFrame, forced: bool, bitrate: int) -> list[_Packet]:
        encoder.set_bitrate(bitrate)
        planes = stamped.frame.planes(1 / self._scale)
        packets = encoder.encode(planes, forced, at_ns=stamped.at_ns)
        return [(packet, self._options.packetize(bytes(packet))) for packet in packets]

    async def _send(self, encoded: EncodedFrame) -> None:
        """Put a frame into each viewer's queue, in a turn of the event loop each, since each sends it at once."""
        if encoded.packet.is_keyframe:
            self._stats.keyframes += 1
            self._last_keyframe_ns = self._clock.now_ns()
        for viewer in tuple(self._viewers):
            viewer.put(self, encoded)
            await asyncio.sleep(0)

    def _bitrate(self, frame: Frame) -> int:
        target, bitrate = self._bitrate_for(frame), self._stats.bitrate
        if abs(target - bitrate) > _MIN_RATE_CHANGE * bitrate:
            self._stats.bitrate = target
        return self._stats.bitrate

    def _pts(self, at_ns: int) -> int:
        """Presentation times grow, even when the clock does not."""
        real = (at_ns - self._options.epoch_ns) * VIDEO_CLOCK_HZ // NS_PER_S
        self._last_pts = max(real, self._last_pts + 1)
        return self._last_pts

    def _is_keyframe_due(self) -> bool:
        if self._keyframe_required or self._last_keyframe_ns is None:
            return True
        since_ns = self._clock.now_ns() - self._last_keyframe_ns
        return (self._keyframe_requested and since_ns >= _KEYFRAME_INTERVAL_NS) or (
            since_ns >= _BLIND_KEYFRAME_INTERVAL_NS and any(viewer.blind for viewer in self._viewers)
        )
