"""One encode, however many watch.

A stream runs while somebody watches it: it reads the newest frame, encodes it on a worker thread and hands the packets
to each viewer. A viewer gets nothing before a keyframe that it can begin with.
"""

from __future__ import annotations

import asyncio
import fractions
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import av

from ...core.clock import NS_PER_S, Clock
from ..colour import to_i420
from ..frame import FrameId
from .encoder import VideoEncoder
from .newest import NewestFrame, TimedFrame
from .source import FrameSource
from .viewer import EncodedFrame, StreamEnded, VideoViewer

logger = logging.getLogger(__name__)

VIDEO_CLOCK_HZ = 90_000
_TIME_BASE = fractions.Fraction(1, VIDEO_CLOCK_HZ)
_LOSS_KEYFRAME_GAP_NS = NS_PER_S // 4
_BLIND_KEYFRAME_GAP_NS = 2 * NS_PER_S
_REST_S = 0.1  # a source that gives nothing for this long rests


@dataclass
class StreamStats:
    """Counters of one shared stream, set by the stream. ``viewers`` watch now."""

    viewers: int = 0
    frames_encoded: int = 0
    keyframes: int = 0
    frames_repeated: int = 0
    viewer_overflows: int = 0


class SharedStream:
    """One encoder and its viewers. All methods belong to one event loop."""

    def __init__(
        self, source: FrameSource, new_encoder: Callable[[], VideoEncoder], *, executor: Executor, clock: Clock
    ) -> None:
        self.stats = StreamStats()
        self._source = source
        self._new_encoder = new_encoder
        self._executor = executor
        self._clock = clock
        self._epoch_ns = clock.now_ns()
        self._last_pts = -1
        self._last_keyframe_ns = self._epoch_ns
        self._viewers: set[VideoViewer] = set()
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._ended: StreamEnded | None = None
        self._keyframe_owed = False
        self._loss_reported = False

    @property
    def broken(self) -> bool:
        """An error ended it."""
        return self._ended is not None and self._ended.error is not None

    def join(self, *, blind: bool = False) -> VideoViewer:
        """Watch from the next keyframe on, which is asked for here.

        Args:
            blind: this viewer cannot report losses; keyframes then come by themselves every other second.
        """
        viewer = VideoViewer(self, blind)
        if self._ended:
            viewer.end(self._ended)
            return viewer
        self._viewers.add(viewer)
        self.stats.viewers = len(self._viewers)
        self.owe_keyframe()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="shared video stream")
        return viewer

    def report_loss(self) -> None:
        """A viewer cannot decode on: send a keyframe, at most one every 250 ms."""
        self._loss_reported = True
        self._wake.set()

    async def close(self) -> None:
        """End it; its viewers are told. May be called again."""
        self._finish(StreamEnded())
        if self._task is not None:
            await asyncio.wait({self._task})

    def leave(self, viewer: VideoViewer) -> None:
        self._viewers.discard(viewer)
        self.stats.viewers = len(self._viewers)
        self._wake.set()

    def _finish(self, ended: StreamEnded) -> None:
        self._ended = self._ended or ended
        for viewer in self._viewers:
            viewer.end(self._ended)
        self._viewers.clear()
        self.stats.viewers = 0
        self._wake.set()

    async def _run(self) -> None:
        newest = NewestFrame(self._source, self._clock, self._wake)
        encoder: VideoEncoder | None = None
        try:
            encoder = self._new_encoder()
            while timed := await self._next(newest):
                await self._show(encoder, timed)
            if self._viewers:
                self._finish(StreamEnded())
        except Exception as error:
            logger.exception("a shared video stream broke; it had %d viewers", len(self._viewers))
            self._finish(StreamEnded(error))
        finally:
            newest.close()
            if encoder is not None:
                encoder.close()
            self._task = None

    async def _next(self, newest: NewestFrame) -> TimedFrame | None:
        """What to show next. When a viewer needs a keyframe and the source rests, its newest frame again."""
        reread = False
        while self._viewers:
            self._wake.clear()
            if timed := newest.take():
                self.stats.frames_repeated += reread
                return timed
            if newest.ended:
                return None
            try:
                await asyncio.wait_for(self._wake.wait(), None if reread or not self._keyframe_wanted else _REST_S)
            except asyncio.TimeoutError:
                if self._keyframe_due():
                    newest.reread()
                    reread = True
        return None

    async def _show(self, encoder: VideoEncoder, timed: TimedFrame) -> None:
        forced = self._keyframe_due()
        if forced:
            self._keyframe_owed = self._loss_reported = False
        pts = self._pts(timed.at_ns)
        loop = asyncio.get_running_loop()
        packets = await loop.run_in_executor(self._executor, _encode, encoder, timed, forced)
        encoded_ns = self._clock.now_ns()
        self.stats.frames_encoded += 1
        if self.is_over(timed.frame.id):
            self.owe_keyframe()  # nobody gets these packets, so nothing may refer to them
            return
        for packet in packets:
            packet.pts = packet.dts = pts
            packet.time_base = _TIME_BASE
            self._deliver(EncodedFrame(packet, timed.frame.id, timed.at_ns, encoded_ns))

    def is_over(self, frame_id: FrameId) -> bool:
        return frame_id.epoch < self._source.epoch

    def owe_keyframe(self) -> None:
        self._keyframe_owed = True
        self._wake.set()

    def _pts(self, at_ns: int) -> int:
        real = (at_ns - self._epoch_ns) * VIDEO_CLOCK_HZ // NS_PER_S
        self._last_pts = max(real, self._last_pts + 1)
        return self._last_pts

    def _deliver(self, encoded: EncodedFrame) -> None:
        if encoded.packet.is_keyframe:
            self.stats.keyframes += 1
            self._last_keyframe_ns = self._clock.now_ns()
        for viewer in self._viewers:
            if not viewer.offer(encoded):
                self.stats.viewer_overflows += 1
                self._loss_reported = True

    @property
    def _keyframe_wanted(self) -> bool:
        return self._keyframe_owed or self._loss_reported

    def _keyframe_due(self) -> bool:
        since_ns = self._clock.now_ns() - self._last_keyframe_ns
        return (
            self._keyframe_owed
            or (self._loss_reported and since_ns >= _LOSS_KEYFRAME_GAP_NS)
            or (since_ns >= _BLIND_KEYFRAME_GAP_NS and any(viewer.blind for viewer in self._viewers))
        )


def _encode(encoder: VideoEncoder, timed: TimedFrame, forced: bool) -> list[av.Packet[av.VideoStream]]:
    return encoder.encode(to_i420(timed.frame.pixels), forced, at_ns=timed.at_ns)
