"""The video packets for one viewer: packets that are late on a slow link are dropped."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ...core.clock import MONOTONIC, NS_PER_S, Clock
from ..frame import slot_zero
from ..webrtc import EncodedFrame, StreamEnded
from .flow_control import InFlightWindow
from .protocol import Acknowledge, KeyframeRequest, VideoPacket

_MIN_BUDGET_MS = 50.0  # at 30 frames per second, two frames may be that far apart
STUCK_NS = 10 * NS_PER_S
_NS_PER_MS = NS_PER_S // 1000
_TICKS_PER_MS = 90


class EncodedViewer(Protocol):
    """The send queue of one viewer, such as :class:`~realtime_engine.infra.webrtc.VideoViewer`."""

    async def next(self) -> EncodedFrame:
        """The next frame; raises ``StreamEnded`` when there are no more."""

    def report_loss(self) -> None:
        """Request a keyframe; nothing is sent before it."""

    def close(self) -> None:
        """Leave the stream."""


class PacketFeed:
    """Makes the messages for one viewer of a shared stream, and drops frames that its link cannot carry in time.

    Frames are queued here while the link is full (:class:`InFlightWindow`). When the oldest has waited longer than the
    budget, the queue is dropped; once everything in flight has arrived, a keyframe is requested, and the video
    continues with it. So the delay of a frame is at most twice the budget above the delay of the link.

    Args:
        viewer: the send queue to read; it is closed with this feed.
        epoch: returns the newest epoch; frames of older ones are not sent.
        budget_ms: milliseconds that a frame may wait here, and again in flight.
        slot: returns the slot of the viewer, as of :meth:`FrameId.seen_by`.
        on_rate: called every half second with the rate of the link in bits per second, once that is known.
        on_sent: called with each frame and the time when its message is passed on.
        clock: measures delays.

    Attributes:
        sent, dropped: frames so far.
        is_stuck: whether the viewer has received nothing for 10 s.
    """

    def __init__(
        self,
        viewer: EncodedViewer,
        *,
        epoch: Callable[[], int],
        budget_ms: float = 100.0,
        slot: Callable[[], int] = slot_zero,
        on_rate: Callable[[int], object] | None = None,
        on_sent: Callable[[EncodedFrame, int], object] | None = None,
        clock: Clock = MONOTONIC,
    ) -> None:
        self.sent = 0
        self.dropped = 0
        self.is_stuck = False
        self._viewer = viewer
        self._epoch = epoch
        self._budget_ns = round(max(budget_ms, _MIN_BUDGET_MS) * _NS_PER_MS)
        self._slot = slot
        self._on_rate = on_rate
        self._on_sent = on_sent
        self._clock = clock
        self._queue: deque[EncodedFrame] = deque()
        self._window = InFlightWindow(self._budget_ns, clock.now_ns())
        self._passed_ns: int | None = None  # when a message was passed on, until the next one is requested
        self._changed = asyncio.Event()
        self._skipping = True  # up to a keyframe
        self._keyframe_requested = True  # by adding the viewer

    @property
    def bits_per_s(self) -> float | None:
        """The rate of the viewer's link; ``None`` while it was never full."""
        return self._window.rate.bits_per_s

    async def run(self) -> None:
        """Read the stream; returns when it has ended or the viewer is stuck."""
        try:
            while not self.is_stuck:
                self.put(await self._viewer.next())
        except StreamEnded:
            return

    def put(self, encoded: EncodedFrame) -> None:
        """Queue a frame of the stream, or drop it."""
        now_ns = self._clock.now_ns()
        self._update_rate(now_ns)
        self.is_stuck = max(self._window.age_ns(now_ns), self._sending_ns(now_ns)) > STUCK_NS
        if encoded.packet.is_keyframe and (self._skipping or not self._window.is_open(now_ns)):
            self.dropped += len(self._queue)
            self._queue.clear()  # a keyframe replaces everything before it
            self._skipping = self._keyframe_requested = False
        if self._skipping:
            self.dropped += 1
            self._request_if_due()
            return
        self._queue.append(encoded)
        is_blocked = not self._window.is_open(now_ns) or self._sending_ns(now_ns) > self._budget_ns
        if now_ns - self._queue[0].paced_ns > self._budget_ns and is_blocked:
            self._drop_queue()
            self._window.drain()
        self._changed.set()

    async def next(self) -> bytes:
        """The next message, as soon as it may be sent. One task at a time may wait."""
        while (message := self.next_nowait()) is None:
            self._changed.clear()
            await self._changed.wait()
        return message

    def next_nowait(self) -> bytes | None:
        """The next message; ``None`` while there is none or the link is full."""
        now_ns = self._clock.now_ns()
        self._passed_ns = None
        self._drop_stale()
        self._request_if_due()
        if not self._queue:
            return None
        if not self._window.is_open(now_ns):
            self._window.rate.on_full()
            return None
        encoded = self._queue.popleft()
        message = self._pack(encoded)
        self._window.on_sent(self.sent, len(message), now_ns)
        self.sent += 1
        self._passed_ns = now_ns
        if self._on_sent is not None:
            self._on_sent(encoded, now_ns)
        return message

    def on_message(self, message: Acknowledge | KeyframeRequest) -> None:
        """Handle a message of the viewer."""
        if isinstance(message, Acknowledge):
            self._window.on_acknowledged(message.number, self._clock.now_ns())
            self._request_if_due()
            self._changed.set()
        else:
            self._drop_queue()
            self._request_if_due()

    def close(self) -> None:
        """Leave the stream. Idempotent."""
        self._viewer.close()

    def _sending_ns(self, now_ns: int) -> int:
        """How long the socket has been accepting a message, which acknowledgements do not show."""
        return 0 if self._passed_ns is None else now_ns - self._passed_ns

    def _update_rate(self, now_ns: int) -> None:
        if self._window.rate.update(now_ns) and self.bits_per_s is not None and self._on_rate is not None:
            self._on_rate(round(self.bits_per_s))

    def _drop_queue(self) -> None:
        self.dropped += len(self._queue)
        self._queue.clear()
        self._skipping = True
        self._keyframe_requested = False

    def _drop_stale(self) -> None:
        """Drop frames of an epoch that has ended, and those after them that refer to them."""
        epoch = self._epoch()
        if not any(encoded.id.epoch < epoch for encoded in self._queue):
            return
        while self._queue and (self._queue[0].id.epoch < epoch or not self._queue[0].packet.is_keyframe):
            self._queue.popleft()
            self.dropped += 1
        if not self._queue:
            self._drop_queue()
            self._request_if_due()

    def _request_if_due(self) -> None:
        """Request a keyframe once it can be sent."""
        if self._skipping and not self._keyframe_requested and self._window.is_empty and self._passed_ns is None:
            self._keyframe_requested = True
            self._viewer.report_loss()

    def _pack(self, encoded: EncodedFrame) -> bytes:
        packet, frame = encoded.packet, encoded.id.seen_by(self._slot())
        assert packet.pts is not None
        return VideoPacket(
            number=self.sent,
            keyframe=packet.is_keyframe,
            timestamp_us=packet.pts * 1000 // _TICKS_PER_MS,
            epoch=frame.epoch,
            seq=frame.seq,
            index=frame.frame_index,
            action_seq=numeric_action(frame.action_id),
            data=bytes(packet),
        ).encode()


def numeric_action(action_id: Any) -> int | None:
    """An action that did not arrive by the controls protocol may have any id."""
    return action_id if isinstance(action_id, int) else None
