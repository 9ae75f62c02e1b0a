"""One viewer's end of a shared stream: packets that wait to be sent, and what the viewer reports back."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple, Protocol

import av

from ..frame import FrameId

_MOST_UNSENT = 4


class EncodedFrame(NamedTuple):
    """A packet, its presentation time in 90 kHz set, and the identity of its frame.

    Attributes:
        paced_ns: when the frame was shown to the stream. encoded_ns: when its packet was there.
    """

    packet: av.Packet[av.VideoStream]
    id: FrameId
    paced_ns: int
    encoded_ns: int


class StreamEnded(Exception):
    """There is nothing more to watch. ``error`` is what broke the stream, ``None`` when its source closed."""

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__("the stream ended" if error is None else f"the stream broke: {error}")
        self.error = error


class Feed(Protocol):
    """What a viewer needs of the stream that it watches."""

    def report_loss(self) -> None: ...
    def leave(self, viewer: VideoViewer) -> None: ...
    def is_over(self, frame_id: FrameId) -> bool: ...
    def owe_keyframe(self) -> None: ...


class VideoViewer:
    """One viewer. Made by :meth:`SharedVideo.join`; all methods belong to one event loop."""

    def __init__(self, stream: Feed, blind: bool) -> None:
        self.blind = blind
        self.rate: int | None = None
        self._stream = stream
        self._unsent: deque[EncodedFrame] = deque()
        self._started = False
        self._ended: StreamEnded | None = None
        self._ready = asyncio.Event()

    async def next(self) -> EncodedFrame:
        """The next packet to send; ``StreamEnded`` when there is nothing more."""
        self._drop_whatis_over()
        while not self._unsent:
            if self._ended:
                raise self._ended
            self._ready.clear()
            await self._ready.wait()
            self._drop_whatis_over()
        return self._unsent.popleft()

    def report_loss(self) -> None:
        """This viewer cannot decode on: see :meth:`SharedStream.report_loss`."""
        self._stream.report_loss()

    def report_rate(self, bits_per_second: int) -> None:
        """This viewer can take about as much as this."""
        self.rate = bits_per_second

    def close(self) -> None:
        """Watch no more. May be called again."""
        self._stream.leave(self)
        self.end(StreamEnded())

    def offer(self, encoded: EncodedFrame) -> bool:
        """Take a packet to send. False when the sender is so late that the rest must wait for a new keyframe."""
        if not self._started and not encoded.packet.is_keyframe:
            return True
        if len(self._unsent) >= _MOST_UNSENT:
            self._unsent.clear()
            self._started = False
            return False
        self._started = True
        self._unsent.append(encoded)
        self._ready.set()
        return True

    def _drop_whatis_over(self) -> None:
        """Drop packets of an epoch that is over, and those after them up to a keyframe of this one."""
        unsent, stream = self._unsent, self._stream
        if not any(stream.is_over(encoded.id) for encoded in unsent):
            return
        while unsent and (stream.is_over(unsent[0].id) or not unsent[0].packet.is_keyframe):
            unsent.popleft()
        if not unsent:
            self._started = False
            stream.owe_keyframe()

    def end(self, ended: StreamEnded) -> None:
        self._ended = self._ended or ended
        self._unsent.clear()
        self._ready.set()
