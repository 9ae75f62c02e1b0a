"""Playback credit: pauses a session whose engine runs ahead of playback until playback has caught up."""

from __future__ import annotations

from ...core.clock import NS_PER_S


class PlaybackCredit:
    """Distinguishes an engine that runs ahead of playback from one whose chunks arrive unevenly.

    Media that arrives fills a bucket, which playback drains at its own rate (the leaky bucket of ITU-T I.371 as a
    meter). An engine in step with playback leaves at most two chunks in the bucket, when one was late and the next
    was not. Only what exceeds that, and half of the media-age budget, counts as surplus, so that an engine in step is
    never paused.

    Args:
        fps: frames per second of playback.
        budget_ms: the media-age budget in milliseconds.
    """

    def __init__(self, fps: float, budget_ms: float) -> None:
        self._frame_ns = NS_PER_S / fps
        self._surplus_ns = budget_ms * 1e6 / 2
        self._level_ns = 0.0
        self._updated_ns = 0
        self._exhausted = False

    @property
    def exhausted(self) -> bool:
        """Whether the session should be paused now."""
        return self._exhausted

    def on_chunk(self, frames: int, now_ns: int, *, wants_more: bool) -> None:
        """A chunk of ``frames`` frames arrived; ``wants_more`` is the pacer's answer after it."""
        chunk_ns = frames * self._frame_ns
        self._level_ns = max(self._level_ns - (now_ns - self._updated_ns), 0.0) + chunk_ns
        self._updated_ns = now_ns
        if not wants_more and self._level_ns > chunk_ns + max(chunk_ns, self._surplus_ns):
            self._exhausted = True

    def on_published(self, *, wants_more: bool) -> None:
        """A frame was published; ``wants_more`` is the pacer's answer after it."""
        self._exhausted = self._exhausted and not wants_more

    def clear(self) -> None:
        """The queued frames were discarded."""
        self._level_ns = 0.0
        self._exhausted = False
