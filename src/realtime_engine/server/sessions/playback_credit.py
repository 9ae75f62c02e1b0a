"""Playback credit: a session whose engine runs ahead of its playback is held until playback has caught up."""

from __future__ import annotations

from ...core.clock import NS_PER_S


class PlaybackCredit:
    """Tells an engine that runs ahead from one whose chunks only come unevenly.

    Media that arrives fills a bucket, which playback empties at its own rate (the leaky bucket of ITU-T I.371 as a
    meter). An engine in step with playback leaves two chunks in it at most, when one was late and the next was not. So
    only what is beyond that, and beyond half the media-age budget, is a surplus, and a session is never held for
    nothing.

    Args:
        fps: frames per second of playback.
        budget_ms: the media-age budget in milliseconds.
    """

    def __init__(self, fps: float, budget_ms: float) -> None:
        self._frame_ns = NS_PER_S / fps
        self._surplus_ns = budget_ms * 1e6 / 2
        self._level_ns = 0.0
        self._at_ns = 0
        self._held = False

    @property
    def held(self) -> bool:
        """Whether the session should not be stepped now."""
        return self._held

    def arrived(self, frames: int, now_ns: int, *, wants_more: bool) -> None:
        """A chunk came; ``wants_more`` is what the pacer says after it."""
        chunk_ns = frames * self._frame_ns
        self._level_ns = max(self._level_ns - (now_ns - self._at_ns), 0.0) + chunk_ns
        self._at_ns = now_ns
        if not wants_more and self._level_ns > chunk_ns + max(chunk_ns, self._surplus_ns):
            self._held = True

    def shown(self, *, wants_more: bool) -> None:
        """A frame was shown."""
        self._held = self._held and not wants_more

    def clear(self) -> None:
        """What waited was thrown away."""
        self._level_ns = 0.0
        self._held = False
