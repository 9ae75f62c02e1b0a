"""Which frame a viewer sees: a line of JSON for each frame, which names the RTP timestamp that it was sent with.

A browser reports the same number as ``rtpTimestamp`` in ``requestVideoFrameCallback``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

from ..frame import FrameId

_VERSION = 1
_TYPE = "frame"


@dataclass(frozen=True, slots=True)
class FrameInfo:
    """What a viewer is told of a frame.

    Attributes:
        epoch, seq, index: which frame of which chunk it is, as in :class:`~realtime_engine.infra.frame.FrameId`.
        action_seq: the newest action that shaped it.
        rtp: the RTP timestamp that it was sent with, in 90 kHz.
    """

    epoch: int
    seq: int
    index: int
    action_seq: Any
    rtp: int


def frame_message(rtp: int, frame_id: FrameId) -> str:
    """The message that tells a viewer of one frame."""
    return json.dumps(
        {
            "v": _VERSION,
            "type": _TYPE,
            "epoch": frame_id.epoch,
            "seq": frame_id.seq,
            "index": frame_id.frame_index,
            "action_seq": frame_id.action_id,
            "rtp": rtp,
        },
        separators=(",", ":"),
    )


def parse_frame_message(text: str) -> FrameInfo | None:
    """The other way round; ``None`` if ``text`` is another message."""
    try:
        message = json.loads(text)
        if message["v"] != _VERSION or message["type"] != _TYPE:
            return None
        return FrameInfo(*(message[field.name] for field in fields(FrameInfo)))
    except (ValueError, KeyError, TypeError):
        return None
