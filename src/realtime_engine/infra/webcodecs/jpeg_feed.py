"""The JPEGs for one viewer of the video WebSocket: the newest picture, whenever the link has room for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...core.clock import MONOTONIC, NS_PER_S, Clock
from ..frame import slot_zero
from ..jpeg import JpegFrame
from ..publisher import Subscription
from .feed import STUCK_NS, numeric_action
from .flow_control import InFlightWindow
from .protocol import Acknowledge, KeyframeRequest, VideoPacket

_CHECK_S = 1.0
_NS_PER_MS = NS_PER_S // 1000
_NS_PER_US = 1000


class JpegFeed:
    """Makes the messages for one viewer. Each picture is complete, so those that the link cannot carry are skipped.

    Args:
        pictures: the pictures; the caller closes the subscription.
        budget_ms: milliseconds of video that may be in flight above the delay of the link.
        slot: returns the slot of the viewer, as of :meth:`FrameId.seen_by`.
        clock: measures delays.

    Attributes:
        sent: pictures so far.
        is_stuck: whether the viewer has received nothing for 10 s.
    """

    def __init__(
        self,
        pictures: Subscription[JpegFrame],
        *,
        budget_ms: float = 100.0,
        slot: Callable[[], int] = slot_zero,
        clock: Clock = MONOTONIC,
    ) -> None:
        self.sent = 0
        self.is_stuck = False
        self._pictures = pictures
        self._slot = slot
        self._clock = clock
        self._window = InFlightWindow(round(budget_ms * _NS_PER_MS), clock.now_ns())
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Watch the viewer; returns when it is stuck."""
        while not self.is_stuck:
            await asyncio.sleep(_CHECK_S)
            self.is_stuck = self._window.age_ns(self._clock.now_ns()) > STUCK_NS

    async def next(self) -> bytes:
        """The next message, as soon as it may be sent. One task at a time may wait.

        Raises:
            PublisherClosed: the session has ended, and its last picture was sent.
        """
        while not self._window.is_open(self._clock.now_ns()):
            self._window.rate.on_full()
            self._changed.clear()
            await self._changed.wait()
        picture = await self._pictures.next()
        now_ns = self._clock.now_ns()
        message = self._pack(picture, now_ns)
        self._window.on_sent(self.sent, len(message), now_ns)
        self._window.rate.update(now_ns)
        self.sent += 1
        return message

    def on_message(self, message: Acknowledge | KeyframeRequest) -> None:
        """Handle a message of the viewer. Every picture is a keyframe, so there is none to request."""
        if isinstance(message, Acknowledge):
            self._window.on_acknowledged(message.number, self._clock.now_ns())
            self._changed.set()

    def _pack(self, picture: JpegFrame, now_ns: int) -> bytes:
        frame = picture.id.seen_by(self._slot())
        return VideoPacket(
            number=self.sent,
            keyframe=True,
            timestamp_us=now_ns // _NS_PER_US,
            epoch=frame.epoch,
            seq=frame.seq,
            index=frame.frame_index,
            action_seq=numeric_action(frame.action_id),
            data=picture.data,
        ).encode()
