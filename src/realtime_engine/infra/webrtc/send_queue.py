"""One viewer's end of a shared video: packets that wait to be sent, and what the viewer reports back."""

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
    """A packet, its presentation time in 90 kHz set, and the identity of its frame.

    Attributes:
        paced_ns: when the frame was shown to the stream. encoded_ns: when its packet was there.
        payloads: the packet for RTP.
    """

    packet: av.Packet[av.VideoStream]
    id: FrameId
    paced_ns: int
    encoded_ns: int
    payloads: Sequence[bytes]


class StreamEnded(Exception):
    """There is nothing more to watch. ``error`` is what broke the stream, ``None`` when its source closed."""

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__("the stream ended" if error is None else f"the stream broke: {error}")
        self.error = error


class Loss(enum.Enum):
    """Why a viewer cannot decode on; the value is its name in metrics."""

    REPORTED = "report"  # it says so
    UNSERVED = "nack"  # it asks for a packet that is not sent again
    OVERFLOW = "overflow"  # it was too slow for what was there to send


class Feed(Protocol):
    """A stream that a viewer watches."""

    def want_keyframe(self, loss: Loss) -> None:
        """Somebody cannot go on without a keyframe."""

    def owe_keyframe(self) -> None:
        """Nobody can go on without a keyframe."""

    def go_on(self) -> None:
        """A viewer has room for more."""

    def leave(self, viewer: VideoViewer) -> None:
        """Give it nothing more."""

    def is_over(self, frame_id: FrameId) -> bool:
        """Whether its frame belongs to an epoch that is over."""


class Reports(Protocol):
    """Who decides what a viewer gets."""

    def hear_rate(self, viewer: VideoViewer, bits_per_second: int) -> None: ...
    def hear_missing(self, viewer: VideoViewer, share: float) -> None: ...
    def hear_round_trip(self, viewer: VideoViewer, seconds: float) -> None: ...
    def leave(self, viewer: VideoViewer) -> None: ...

    def limit(self, viewer: VideoViewer) -> int | None:
        """Bits per second that it can take, ``None`` if that is not known."""


class VideoViewer:
    """One viewer. Made by :meth:`SharedVideo.join`; all methods belong to one event loop.

    Attributes:
        blind: it cannot report losses.
        frame_s: seconds from frame to frame.
    """

    def __init__(self, reports: Reports, clock: Clock, *, blind: bool, frame_s: float) -> None:
        self.blind = blind
        self.frame_s = frame_s
        self._reports = reports
        self._sent = RateMeter(clock)
        self._feed: Feed | None = None
        self._next_feed: Feed | None = None
        self._unsent: deque[EncodedFrame] = deque()
        self._last_pts = -1
        self._started = False
        self._overflowed = False
        self._ended: StreamEnded | None = None
        self._ready = asyncio.Event()

    async def next(self) -> EncodedFrame:
        """The next packet to send; ``StreamEnded`` when there is nothing more."""
        if self._overflowed and self._feed is not None:
            self._overflowed = False
            self._feed.want_keyframe(Loss.OVERFLOW)
        self._drop_what_is_over()
        while not self._unsent:
            if self._ended:
                raise self._ended
            self._ready.clear()
            await self._ready.wait()
            self._drop_what_is_over()
        encoded = self._unsent.popleft()
        if self._feed is not None:
            self._feed.go_on()
        self._sent.add(8 * encoded.packet.size)
        return encoded

    @property
    def sent_rate(self) -> int:
        """Bits per second that it was sent lately."""
        return self._sent.rate

    @property
    def limit(self) -> int | None:
        """Bits per second that it can take, ``None`` if that is not known."""
        return self._reports.limit(self)

    @property
    def is_full(self) -> bool:
        """So much waits to be sent that one more frame would cost it a keyframe."""
        return len(self._unsent) >= _MAX_UNSENT

    @property
    def waits(self) -> bool:
        """It gets nothing before the next keyframe."""
        return not self._started

    def report_loss(self, loss: Loss = Loss.REPORTED) -> None:
        """It cannot decode on: it gets nothing before the next keyframe, which is asked for here."""
        unsent = self._unsent
        while unsent and not unsent[0].packet.is_keyframe:
            unsent.popleft()
        if unsent or self._feed is None or not self._started:
            return
        self._started = False
        self._feed.want_keyframe(loss)

    def report_rate(self, bits_per_second: int) -> None:
        """Its receiver estimates that it can take this much (REMB)."""
        self._reports.hear_rate(self, bits_per_second)

    def report_missing(self, share: float) -> None:
        """Of the packets since the last report it lost this share, from 0 to 1."""
        self._reports.hear_missing(self, share)

    def report_round_trip(self, seconds: float) -> None:
        """A packet and its answer took so long."""
        self._reports.hear_round_trip(self, seconds)

    def close(self) -> None:
        """Watch no more. May be called again."""
        self._reports.leave(self)
        for feed in (self._feed, self._next_feed):
            if feed is not None:
                feed.leave(self)
        self.end(StreamEnded())

    def watch(self, feed: Feed) -> None:
        """Go over to ``feed`` at its next keyframe; until then, go on with what it watches."""
        leaving, self._next_feed = self._next_feed, None
        if leaving is not None and leaving is not feed:
            leaving.leave(self)
        if self._feed is None:
            self._feed = feed
        elif self._feed is not feed:
            self._next_feed = feed

    def offer(self, feed: Feed, encoded: EncodedFrame) -> None:
        """Take a packet to send.

        When the sender is very late, it gets nothing before a keyframe, which is asked for when it takes packets again:
        one that never keeps up shall not cost all the others a keyframe several times a second.
        """
        if feed is self._next_feed and encoded.packet.is_keyframe:
            self._go_over(feed)
        if feed is not self._feed or not (self._started or encoded.packet.is_keyframe):
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
        """Nothing more comes."""
        self._ended = self._ended or ended
        self._unsent.clear()
        self._ready.set()

    def _go_over(self, feed: Feed) -> None:
        if self._feed is not None:
            self._feed.leave(self)
        self._feed, self._next_feed = feed, None

    def _in_order(self, encoded: EncodedFrame) -> EncodedFrame:
        """A frame that came in another encode already is made a moment later than that."""
        packet = encoded.packet
        assert packet.pts is not None
        if packet.pts <= self._last_pts:
            later = cast("av.Packet[av.VideoStream]", av.Packet(bytes(packet)))
            later.pts = later.dts = self._last_pts + 1
            later.time_base, later.is_keyframe = packet.time_base, packet.is_keyframe
            encoded = encoded._replace(packet=later)
        self._last_pts = encoded.packet.pts or 0
        return encoded

    def _drop_what_is_over(self) -> None:
        """Drop packets of an epoch that is over, and those after them up to a keyframe of this one."""
        unsent, feed = self._unsent, self._feed
        if feed is None or not any(feed.is_over(encoded.id) for encoded in unsent):
            return
        while unsent and (feed.is_over(unsent[0].id) or not unsent[0].packet.is_keyframe):
            unsent.popleft()
        if not unsent:
            self._started = False
            feed.owe_keyframe()
