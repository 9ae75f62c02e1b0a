"""Totals of sessions, for the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace

from ..infra.webrtc import Loss, StreamStats, Tier


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Totals of one session, or of several.

    Attributes:
        published: frames published, with or without viewers.
        dropped: frames dropped by pacing.
        underruns: times that no frame was ready when the next one was due.
        jpeg_encodes: frames encoded as JPEG.
        encodes: frames encoded as video, by tier.
        keyframes: keyframes among them, by tier.
        losses: pictures lost by WebRTC viewers, by tier and cause.
        recordings: recordings started.
        recorded_bytes: bytes written by recordings.
        video_received: input frames that the model could see.
        video_dropped: input frames that were dropped.
    """

    published: int = 0
    dropped: int = 0
    underruns: int = 0
    jpeg_encodes: int = 0
    encodes: Counter[Tier] = field(default_factory=Counter)
    keyframes: Counter[Tier] = field(default_factory=Counter)
    losses: Counter[tuple[Tier, Loss]] = field(default_factory=Counter)
    recordings: int = 0
    recorded_bytes: int = 0
    video_received: int = 0
    video_dropped: int = 0

    def plus(self, other: Counts) -> Counts:
        """The sum, field by field."""
        return Counts(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})

    def with_video(self, tiers: Iterable[tuple[Tier, StreamStats]]) -> Counts:
        """Add the totals of a session's video tiers."""
        encodes, keyframes, losses = self.encodes.copy(), self.keyframes.copy(), self.losses.copy()
        for tier, stats in tiers:
            encodes[tier] += stats.frames_encoded
            keyframes[tier] += stats.keyframes
            for loss, count in stats.losses.items():
                losses[tier, loss] += count
        return replace(self, encodes=encodes, keyframes=keyframes, losses=losses)
