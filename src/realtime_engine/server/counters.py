"""What a session is counted by."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ..infra.webrtc import Loss, StreamStats, Tier


class Counts(NamedTuple):
    """Totals of one session, or of several.

    Attributes:
        published: frames shown to whoever watched. dropped: frames given up by pacing.
        underruns: times that no frame was ready in time. jpeg_encodes: frames encoded as JPEG.
        encodes, keyframes: frames encoded as video, by tier. losses: of WebRTC viewers, by tier and cause.
        recordings: begun. recorded_bytes: written by them.
        video_received, video_dropped: frames that clients sent: shown to the model, and left out.
    """

    published: int = 0
    dropped: int = 0
    underruns: int = 0
    jpeg_encodes: int = 0
    encodes: Counter[Tier] = Counter()
    keyframes: Counter[Tier] = Counter()
    losses: Counter[tuple[Tier, Loss]] = Counter()
    recordings: int = 0
    recorded_bytes: int = 0
    video_received: int = 0
    video_dropped: int = 0

    def plus(self, other: Counts) -> Counts:
        return Counts(*map(operator.add, self, other))

    def with_video(self, tiers: Iterable[tuple[Tier, StreamStats]]) -> Counts:
        """Add what the tiers of a session's video have counted."""
        encodes, keyframes, losses = self.encodes.copy(), self.keyframes.copy(), self.losses.copy()
        for tier, stats in tiers:
            encodes[tier] += stats.frames_encoded
            keyframes[tier] += stats.keyframes
            for loss, count in stats.losses.items():
                losses[tier, loss] += count
        return self._replace(encodes=encodes, keyframes=keyframes, losses=losses)
