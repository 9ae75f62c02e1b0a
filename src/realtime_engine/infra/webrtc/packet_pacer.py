"""Packet pacing: a small frame is sent at once, a large one is spread over time, so that no buffer overflows."""

from __future__ import annotations

from ...core.clock import NS_PER_S, Clock

BURST = 12_000  # bytes sent at once
_MAX_SPREAD_NS = NS_PER_S // 30
_SPREAD = 0.8  # of the time from frame to frame
_RATE_FACTOR = 4  # times the present rate
_LIMIT_FACTOR = 1.25  # times what the viewer can receive
_LIMITED_BURST_S = 1 / 30  # at that rate: buffers of a slow link may hold little more, and are not empty
_MAX_LIMITED_NS = NS_PER_S // 4


class PacketPacer:
    """Determines the send time of each packet of one frame after another. Pure policy: it sends nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start_ns = 0
        self._sent = 0
        self._burst = BURST
        self._ns_per_byte = 0.0

    def start_frame(self, size: int, *, frame_s: float, rate: int, limit: int | None = None) -> None:
        """A frame is next.

        Args:
            size: its size in bytes.
            frame_s: seconds from frame to frame.
            rate: the present rate in bits per second.
            limit: bits per second that the viewer can receive, if known. A frame that is too large for it takes longer
                than the time to the next.
        """
        self._start_ns = self._clock.now_ns()
        self._sent = 0
        self._burst = BURST
        if limit:
            self._burst = min(BURST, round(limit * _LIMITED_BURST_S / 8))
            late = max(size - self._burst, 0)
            ns_per_byte = 8 * NS_PER_S / (_LIMIT_FACTOR * limit)
            self._ns_per_byte = min(ns_per_byte, _MAX_LIMITED_NS / late) if late else 0.0
            return
        spread_ns = min(_SPREAD * frame_s * NS_PER_S, _MAX_SPREAD_NS)
        late = max(size - BURST, 0)
        usual_ns_per_byte = 8 * NS_PER_S / (_RATE_FACTOR * rate) if rate else spread_ns
        self._ns_per_byte = min(spread_ns / late, usual_ns_per_byte) if late else 0.0

    def due_ns(self, size: int) -> int:
        """The send time of the next packet, of ``size`` bytes."""
        self._sent += size
        return self._start_ns + round(max(self._sent - self._burst, 0) * self._ns_per_byte)
