"""The bounded queue of encoded frames for one viewer, and the viewer's reports."""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol, cast

import av

from ...core.clock import Clock
from ..frame import FrameId
from .bandwidth import RateMeter

_MAX_UNSENT = 4


class EncodedFrame(NamedTuple):
    """An encoded frame and its identity.

    Attributes:
        packet: its presentation time is in 90 kHz.
        id: the identity of the frame.
        paced_ns: when the frame arrived at the stream.
        encoded_ns: when it was encoded.
        payloads: the packet as RTP payloads.
    """

    packet: av.Packet[av.VideoStream]
    id: FrameId
    paced_ns: int
    encoded_ns: int
    payloads: Sequence[bytes]


class StreamEnded(Exception):
    """The stream has ended; ``error`` is what broke it, ``None`` when its source was closed."""

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__("the stream ended" if error is None else f"the stream broke: {error}")
        self.error = error


class Loss(enum.Enum):
    """Why a viewer cannot decode the next frame; the value is its name in metrics."""

    REPORTED = "report"
    """The viewer reports it."""
    UNSERVED = "nack"
    """It requests a packet that is not retransmitted."""
    OVERFLOW = "overflow"
    """Its queue was full."""


class ViewedStream(Protocol):
    """A stream that feeds send queues."""

    def request_keyframe(self, loss: Loss) -> None:
        """A viewer needs a keyframe."""

    def require_keyframe(self) -> None:
        """Make the next frame a keyframe: no viewer could decode any other."""

    def on_room(self) -> None:
        """A viewer's queue has room again."""

    def remove_viewer(self, viewer: VideoViewer) -> None:
        """Send no more to this viewer."""

    def is_stale(self, frame_id: FrameId) -> bool:
        """Whether the frame belongs to an epoch that has ended."""


class ViewerReports(Protocol):
    """Receives what viewers report, and decides what they are sent."""

    def on_estimate(self, viewer: VideoViewer, bits_per_second: int) -> None:
        """The viewer's receiver estimates that it can receive this much."""

    def on_loss(self, viewer: VideoViewer, share: float) -> None:
        """The viewer lost this share of packets since its last report, from 0 to 1."""

    def on_round_trip(self, viewer: VideoViewer, seconds: float) -> None:
        """A round trip to the viewer took this long."""

    def remove_viewer(self, viewer: VideoViewer) -> None:
        """The viewer was closed."""

    def limit(self, viewer: VideoViewer) -> int | None:
        """Bits per second that the viewer can receive; ``None`` if unknown."""


class VideoViewer:
    """One viewer's send queue. Made by :meth:`SharedVideo.add_viewer`; all methods belong to one event loop.

    Attributes:
        blind: it cannot report losses.
        frame_s: seconds from frame to frame.
    """

    def __init__(self, reports: ViewerReports, clock: Clock, *, blind: bool, frame_s: float) -> None:
        self.blind = blind
        self.frame_s = frame_s
        self._reports = reports
        self._sent = RateMeter(clock)
        self._stream: ViewedStream | None = None
        self._next_stream: ViewedStream | None = None
        self._unsent: deque[EncodedFrame] = deque()
        self._last_pts = -1
        self._started = False
        self._overflowed = False
        self._ended: StreamEnded | None = None
        self._ready = asyncio.Event()

    async def next(self) -> EncodedFrame:
        """The next frame to send.

        Raises:
            StreamEnded: there are no more.
        """
        if self._overflowed and self._stream is not None:
            self._overflowed = False
            self._stream.request_keyframe(Loss.OVERFLOW)
        self._drop_stale()
        while not self._unsent:
            if self._ended:
                raise self._ended
            self._ready.clear()
            await self._ready.wait()
            self._drop_stale()
        encoded = self._unsent.popleft()
        if self._stream is not None:
            self._stream.on_room()
        self._sent.add(8 * encoded.packet.size)
        return encoded

    @property
    def sent_rate(self) -> int:
        """Bits per second sent over the last second."""
        return self._sent.rate

    @property
    def limit(self) -> int | None:
        """Bits per second that it can receive; ``None`` if unknown."""
        return self._reports.limit(self)

    @property
    def is_full(self) -> bool:
        """Whether one more frame would overflow the queue, which costs a keyframe."""
        return len(self._unsent) >= _MAX_UNSENT

    @property
    def needs_keyframe(self) -> bool:
        """Whether the next frame that it is sent must be a keyframe."""
        return not self._started

    def report_loss(self, loss: Loss = Loss.REPORTED) -> None:
        """The viewer cannot decode the next frame: send nothing before a keyframe, and request one."""
        unsent = self._unsent
        while unsent and not unsent[0].packet.is_keyframe:
            unsent.popleft()
        if unsent or self._stream is None or not self._started:
            return
        self._started = False
        self._stream.request_keyframe(loss)

    def report_rate(self, bits_per_second: int) -> None:
        """The viewer's receiver estimates that it can receive this much (REMB)."""
        self._reports.on_estimate(self, bits_per_second)

    def report_missing(self, share: float) -> None:
        """The viewer lost this share of the packets since its last report, from 0 to 1."""
        self._reports.on_loss(self, share)

    def report_round_trip(self, seconds: float) -> None:
        """A packet and its answer took this long."""
        self._reports.on_round_trip(self, seconds)

    def close(self) -> None:
        """Leave the stream. Idempotent."""
        self._reports.remove_viewer(self)
        for stream in (self._stream, self._next_stream):
            if stream is not None:
                stream.remove_viewer(self)
        self.end(StreamEnded())

    def switch_to(self, stream: ViewedStream) -> None:
        """Switch to ``stream`` at its next keyframe; until then, stay with the present one."""
        leaving, self._next_stream = self._next_stream, None
        if leaving is not None and leaving is not stream:
            leaving.remove_viewer(self)
        if self._stream is None:
            self._stream = stream
        elif self._stream is not stream:
            self._next_stream = stream

    def put(self, stream: ViewedStream, encoded: EncodedFrame) -> None:
        """Add a frame of ``stream``, or drop it.

        When the queue overflows, it is emptied and closed until a keyframe. That is requested when the viewer reads
        again, so that one that cannot keep up does not cost all others a keyframe several times a second.
        """
        if stream is self._next_stream and encoded.packet.is_keyframe:
            self._switch(stream)
        if stream is not self._stream or not (self._started or encoded.packet.is_keyframe):
            return
        if self.is_full:
            self._unsent.clear()
            self._started = False
            self._overflowed = True
            return
        self._started = True
        self._overflowed = False
        self._unsent.append(self._in_order(encoded))
        self._ready.set()

    def end(self, ended: StreamEnded) -> None:
        """End the queue; :meth:`next` raises ``ended``."""
        self._ended = self._ended or ended
        self._unsent.clear()
        self._ready.set()

    def _switch(self, stream: ViewedStream) -> None:
        if self._stream is not None:
            self._stream.remove_viewer(self)
        self._stream, self._next_stream = stream, None

    def _in_order(self, encoded: EncodedFrame) -> EncodedFrame:
        """Stamp a frame that was already sent in another encoding one tick later than that."""
        packet = encoded.packet
        assert packet.pts is not None
        if packet.pts <= self._last_pts:
            later = cast("av.Packet[av.VideoStream]", av.Packet(bytes(packet)))
            later.pts = later.dts = self._last_pts + 1
            later.time_base, later.is_keyframe = packet.time_base, packet.is_keyframe
            encoded = encoded._replace(packet=later)
        self._last_pts = encoded.packet.pts or 0
        return encoded

    def _drop_stale(self) -> None:
        """Drop frames of an epoch that has ended, and those after them up to a keyframe of the present one."""
        unsent, stream = self._unsent, self._stream
        if stream is None or not any(stream.is_stale(encoded.id) for encoded in unsent):
            return
        while unsent and (stream.is_stale(unsent[0].id) or not unsent[0].packet.is_keyframe):
            unsent.popleft()
        if not unsent:
            self._started = False
            stream.require_keyframe()
