"""The packets of one viewer: fresh ones only, however slow its link is."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ...core.clock import MONOTONIC, NS_PER_S, Clock
from ..webrtc import EncodedFrame, StreamEnded
from .flow_control import InFlightWindow
from .protocol import Acknowledge, KeyframeRequest, VideoPacket

_MIN_BUDGET_MS = 50.0  # two frames at 30 a second cannot always follow each other sooner
_TIMEOUT_NS = 10 * NS_PER_S
_NS_PER_MS = NS_PER_S // 1000
_TICKS_PER_MS = 90


class EncodedViewer(Protocol):
    """One viewer's end of a shared stream, such as :class:`~realtime_engine.infra.webrtc.stream.StreamViewer`."""

    async def next(self) -> EncodedFrame:
        """The next packet; ``StreamEnded`` when there is nothing more."""

    def report_loss(self) -> None:
        """This viewer cannot decode on; a keyframe comes, not more often than every 250 ms."""

    def close(self) -> None:
        """Watch no more."""


class PacketFeed:
    """Makes messages of a shared stream for one viewer, and drops what the viewer's link does not take in time.

    A frame waits here while the link is full (:class:`InFlightWindow`). When the oldest has waited for longer than
    the budget, everything that waits is dropped; once all that is on its way has arrived, a keyframe is asked for,
    and the picture goes on with it. So a frame is at most twice the budget older when it arrives than the link itself
    makes it.

    Args:
        viewer: where the packets come from; closed with this.
        epoch: the newest epoch, of which older frames are not sent any more.
        budget_ms: milliseconds that a frame may wait here, and again on its way.
        on_rate: told every half second what the link takes, in bits per second, once that is known.
        on_sent: told of each frame when its message is handed over.

    Attributes:
        sent, dropped: frames so far.
        is_stuck: the viewer took nothing for 10 s.
    """

    def __init__(
        self,
        viewer: EncodedViewer,
        *,
        epoch: Callable[[], int],
        budget_ms: float = 100.0,
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
        self._on_rate = on_rate
        self._on_sent = on_sent
        self._clock = clock
        self._waiting: deque[EncodedFrame] = deque()
        self._flight = InFlightWindow(self._budget_ns, clock.now_ns())
        self._handed_ns: int | None = None  # when a message was handed over, until the next one is asked for
        self._changed = asyncio.Event()
        self._skipping = True  # up to a keyframe
        self._keyframe_asked = True  # which joining does

    @property
    def bits_per_s(self) -> float | None:
        """How much the viewer's link takes; ``None`` while it has taken everything."""
        return self._flight.rate.bits_per_s

    async def run(self) -> None:
        """Take packets in; returns when the stream has ended or the viewer is stuck."""
        try:
            while not self.is_stuck:
                self.take(await self._viewer.next())
        except StreamEnded:
            return

    def take(self, encoded: EncodedFrame) -> None:
        """A frame comes from the stream: let it wait, or drop it."""
        now_ns = self._clock.now_ns()
        self._review_rate(now_ns)
        self.is_stuck = max(self._flight.age_ns(now_ns), self._sending_ns(now_ns)) > _TIMEOUT_NS
        if encoded.packet.is_keyframe and (self._skipping or not self._flight.is_open(now_ns)):
            self.dropped += len(self._waiting)
            self._waiting.clear()  # a keyframe makes up for all that waits before it
            self._skipping = self._keyframe_asked = False
        if self._skipping:
            self.dropped += 1
            self._ask_if_due()
            return
        self._waiting.append(encoded)
        is_held_up = not self._flight.is_open(now_ns) or self._sending_ns(now_ns) > self._budget_ns
        if now_ns - self._waiting[0].paced_ns > self._budget_ns and is_held_up:
            self._drop_waiting()
            self._flight.drain()
        self._changed.set()

    async def next(self) -> bytes:
        """The next message, as soon as it may be sent. One task at a time."""
        while (message := self.next_nowait()) is None:
            self._changed.clear()
            await self._changed.wait()
        return message

    def next_nowait(self) -> bytes | None:
        """The next message, ``None`` while there is none or the link is full."""
        now_ns = self._clock.now_ns()
        self._handed_ns = None
        self._drop_what_is_over()
        self._ask_if_due()
        if not self._waiting:
            return None
        if not self._flight.is_open(now_ns):
            self._flight.rate.hold_back()
            return None
        encoded = self._waiting.popleft()
        message = self._pack(encoded)
        self._flight.send(self.sent, len(message), now_ns)
        self.sent += 1
        self._handed_ns = now_ns
        if self._on_sent is not None:
            self._on_sent(encoded, now_ns)
        return message

    def on_message(self, message: Acknowledge | KeyframeRequest) -> None:
        """Take note of what the viewer says."""
        if isinstance(message, Acknowledge):
            self._flight.acknowledge(message.number, self._clock.now_ns())
            self._ask_if_due()
            self._changed.set()
        else:
            self._drop_waiting()
            self._ask_if_due()

    def close(self) -> None:
        """Watch no more. May be called again."""
        self._viewer.close()

    def _sending_ns(self, now_ns: int) -> int:
        """For how long the socket has been taking a message; acknowledgements do not show that it has."""
        return 0 if self._handed_ns is None else now_ns - self._handed_ns

    def _review_rate(self, now_ns: int) -> None:
        if self._flight.rate.review(now_ns) and self.bits_per_s is not None and self._on_rate is not None:
            self._on_rate(round(self.bits_per_s))

    def _drop_waiting(self) -> None:
        self.dropped += len(self._waiting)
        self._waiting.clear()
        self._skipping = True
        self._keyframe_asked = False

    def _drop_what_is_over(self) -> None:
        """Frames of an epoch that is over are not sent, and what follows refers to them."""
        epoch = self._epoch()
        if not any(encoded.id.epoch < epoch for encoded in self._waiting):
            return
        while self._waiting and (self._waiting[0].id.epoch < epoch or not self._waiting[0].packet.is_keyframe):
            self._waiting.popleft()
            self.dropped += 1
        if not self._waiting:
            self._drop_waiting()
            self._ask_if_due()

    def _ask_if_due(self) -> None:
        """Ask for a keyframe when one can be taken."""
        if self._skipping and not self._keyframe_asked and self._flight.is_empty and self._handed_ns is None:
            self._keyframe_asked = True
            self._viewer.report_loss()

    def _pack(self, encoded: EncodedFrame) -> bytes:
        packet, frame = encoded.packet, encoded.id
        assert packet.pts is not None
        return VideoPacket(
            number=self.sent,
            keyframe=packet.is_keyframe,
            timestamp_us=packet.pts * 1000 // _TICKS_PER_MS,
            epoch=frame.epoch,
            seq=frame.seq,
            index=frame.frame_index,
            action_seq=_number(frame.action_id),
            data=bytes(packet),
        ).encode()


def _number(action_id: Any) -> int | None:
    """Actions that did not come by the controls protocol may be named by anything."""
    return action_id if isinstance(action_id, int) else None
