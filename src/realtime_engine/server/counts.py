"""What a session is counted by."""

from __future__ import annotations

from typing import NamedTuple


class Counts(NamedTuple):
    """Totals of one session, or of several.

    Attributes:
        published: frames shown to whoever watched. dropped: frames given up by pacing.
        underruns: times that no frame was ready in time. jpeg_encodes: frames encoded as JPEG.
        video_received, video_dropped: frames that clients sent: shown to the model, and left out.
    """

    published: int = 0
    dropped: int = 0
    underruns: int = 0
    jpeg_encodes: int = 0
    video_received: int = 0
    video_dropped: int = 0

    def plus(self, other: Counts) -> Counts:
        return Counts(*(one + another for one, another in zip(self, other, strict=True)))
