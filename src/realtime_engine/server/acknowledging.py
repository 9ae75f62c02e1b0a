"""What pages tell of the frames that they have shown."""

from __future__ import annotations

from typing import Any

from ..infra.controls import timing_message
from ..infra.controls.schema import PresentedMessage, ShownFrame
from ..infra.telemetry.frame_latency import FrameJoiner, PageClock, PresentedFrame


def acknowledge(joiner: FrameJoiner, message: PresentedMessage) -> list[dict[str, Any]]:
    """Join what a page tells with what is known of its frames; the reply is how long they take, if it asks."""
    clock = PageClock(message.clock.offset, message.clock.uncertainty)
    joiner.presented(message.viewer, map(_told, message.frames), clock)
    if not message.timing:
        return []
    transport = joiner.transport_of(message.viewer)
    return [timing_message(transport, {} if transport is None else joiner.times.snapshot(transport))]


def _told(frame: ShownFrame) -> PresentedFrame:
    key = (frame.epoch, frame.seq, frame.index)
    press = () if frame.press is None else (frame.press.seq, frame.press.t)
    return PresentedFrame(key, frame.received, frame.decoded, frame.presented, *press)
