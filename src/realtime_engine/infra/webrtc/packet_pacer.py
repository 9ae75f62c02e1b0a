"""When each packet of a frame is sent: a small frame at once, a large one spread, so that no buffer overflows."""

from __future__ import annotations

from ...core.clock import NS_PER_S, Clock

BURST = 12_000  # bytes that go out at once
_MAX_NS = NS_PER_S // 30
_SHARE = 0.8  # of the time from frame to frame
_OVER_RATE = 4  # times the rate that is sent anyway
_OVER_LIMIT = 1.25  # times the rate that the way to the viewer takes
_LIMITED_BURST_S = 1 / 30  # at that rate: its buffers may hold little more, and are not empty
_MAX_LIMITED_NS = NS_PER_S // 4


class PacketPacer:
    """The packets of one frame after another. Decides on times only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun_ns = 0
        self._sent = 0
        self._burst = BURST
        self._ns_per_byte = 0.0

    def begin(self, size: int, *, frame_s: float, rate: int, limit: int | None = None) -> None:
        """A frame of ``size`` bytes is next. They come every ``frame_s`` seconds, at ``rate`` bits per second.

        ``limit`` is how many bits per second the viewer can take; when that is known, a frame that is too large for it
        takes longer than the time to the next.
        """
        self._begun_ns = self._clock.now_ns()
        self._sent = 0
        self._burst = BURST
        if limit:
            self._burst = min(BURST, round(limit * _LIMITED_BURST_S / 8))
            late = max(size - self._burst, 0)
            ns_per_byte = 8 * NS_PER_S / (_OVER_LIMIT * limit)
            self._ns_per_byte = min(ns_per_byte, _MAX_LIMITED_NS / late) if late else 0.0
            return
        spread_ns = min(_SHARE * frame_s * NS_PER_S, _MAX_NS)
        late = max(size - BURST, 0)
        usual_ns_per_byte = 8 * NS_PER_S / (_OVER_RATE * rate) if rate else spread_ns
        self._ns_per_byte = min(spread_ns / late, usual_ns_per_byte) if late else 0.0

    def due_ns(self, size: int) -> int:
        """When the next packet, of ``size`` bytes, may be sent."""
        self._sent += size
        return self._begun_ns + round(max(self._sent - self._burst, 0) * self._ns_per_byte)
