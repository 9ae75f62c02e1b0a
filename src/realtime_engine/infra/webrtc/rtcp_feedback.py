"""What a viewer's RTCP packets mean for what it is sent."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from aiortc.rtp import (
    RTCP_PSFB_APP,
    RTCP_PSFB_FIR,
    RTCP_PSFB_PLI,
    RTCP_RTPFB_NACK,
    RtcpPsfbPacket,
    RtcpReceiverInfo,
    RtcpRrPacket,
    RtcpRtpfbPacket,
    RtcpSrPacket,
    unpack_remb_fci,
)

from ...core.clock import NS_PER_S, Clock
from .send_queue import Loss, VideoViewer

KEPT = 128  # how many packets the sender can send again
_STALE_NS = NS_PER_S // 2
_MAX_AGAIN = 4
_MIN_ROUND_TRIP_NS = NS_PER_S // 25  # with what may have queued up since it was measured
_HALF = 0x8000


class NackDecision(NamedTuple):
    """What a request (generic NACK, RFC 4585) comes to.

    Attributes:
        again: sequence numbers to send again. lost: it asks for a packet that is needed and not sent again.
    """

    again: list[int]
    lost: bool


class RetransmissionHistory:
    """Remembers the packets of one viewer by their sequence number.

    A packet is not sent again when the sender has forgotten it, when it is older than half a second, which would only
    replay what has passed, or when a keyframe has been sent since; nor when it may be on its way: a receiver that asks
    for all that it misses each time that it misses more would fill a bottleneck with repetitions. And at most four
    times, whatever is asked for: a request of one datagram can name thousands.

    Attributes:
        round_trip_s: how long a packet and its answer take, in seconds.
    """

    def __init__(self, clock: Clock, kept: int = KEPT) -> None:
        self._clock = clock
        self._times: deque[int] = deque(maxlen=kept)
        self._again: deque[list[int]] = deque(maxlen=kept)  # when each of them was sent again
        self._newest: int | None = None
        self._keyframe: int | None = None
        self.round_trip_s = 0.0

    def note(self, sequence_number: int, *, begins_keyframe: bool = False) -> bool:
        """A packet is sent. False when it is one that was sent before."""
        if self._newest is not None and not _is_after(sequence_number, self._newest):
            return False
        self._newest = sequence_number
        self._times.append(self._clock.now_ns())
        self._again.append([])
        if begins_keyframe:
            self._keyframe = sequence_number
        elif self._keyframe is not None and _distance(self._keyframe, sequence_number) >= _HALF // 2:
            self._keyframe = None  # before the numbers wrap
        return True

    def judge(self, wanted: Iterable[int]) -> NackDecision:
        """Decide on sequence numbers that the viewer misses. When one is lost, none is worth sending again.

        What is to be sent again counts as sent.
        """
        again = []
        for number in dict.fromkeys(wanted):
            if self._newest is None or _is_after(number, self._newest) or self._is_superseded(number):
                continue
            if self._is_lost(number, self._newest):
                return NackDecision([], True)
            again.append(number)
        return NackDecision([number for number in again if self._note_again(number)], False)

    def _note_again(self, number: int) -> bool:
        """Count a packet that is sent again; false when that was done just now, or too often."""
        assert self._newest is not None
        times, now_ns = self._again[-1 - _distance(number, self._newest)], self._clock.now_ns()
        way_ns = max(round(self.round_trip_s * NS_PER_S), _MIN_ROUND_TRIP_NS)
        if len(times) >= _MAX_AGAIN or (times and now_ns - times[-1] < way_ns):
            return False
        times.append(now_ns)
        return True

    def _is_superseded(self, number: int) -> bool:
        return self._keyframe is not None and number != self._keyframe and not _is_after(number, self._keyframe)

    def _is_lost(self, number: int, newest: int) -> bool:
        behind = _distance(number, newest)
        return behind >= len(self._times) or self._clock.now_ns() - self._times[-1 - behind] > _STALE_NS


def _distance(earlier: int, later: int) -> int:
    return (later - earlier) & 0xFFFF


def _is_after(number: int, other: int) -> bool:
    return 0 < _distance(other, number) < _HALF


class Feedback:
    """Tells ``viewer`` what its receiver reports about the stream ``ssrc``.

    Args:
        sent: what the viewer was sent; ``None`` when that is not known, and each request is passed on.
        round_trip: seconds of the round trip that ends with a receiver's report, ``None`` if it cannot be known.
    """

    def __init__(
        self,
        viewer: VideoViewer,
        ssrc: int,
        sent: RetransmissionHistory | None,
        round_trip: Callable[[RtcpReceiverInfo], float | None],
    ) -> None:
        self._viewer = viewer
        self._ssrc = ssrc
        self._sent = sent
        self._round_trip = round_trip

    def hear(self, packet: Any) -> Any | None:
        """Take one packet; returns what the sender shall do with it itself, ``None`` for nothing."""
        if isinstance(packet, RtcpRtpfbPacket) and packet.fmt == RTCP_RTPFB_NACK:
            return self._hear_request(packet)
        if isinstance(packet, (RtcpRrPacket, RtcpSrPacket)):
            for report in packet.reports:
                if report.ssrc == self._ssrc:
                    self._hear_report(report)
        elif isinstance(packet, RtcpPsfbPacket):
            self._hear_picture(packet)
        return packet

    def _hear_report(self, report: RtcpReceiverInfo) -> None:
        self._viewer.report_missing(report.fraction_lost / 256)
        seconds = self._round_trip(report)
        if seconds is not None:
            self._viewer.report_round_trip(seconds)
            if self._sent is not None:
                self._sent.round_trip_s = seconds

    def _hear_request(self, packet: RtcpRtpfbPacket) -> RtcpRtpfbPacket | None:
        """A generic NACK (RFC 4585). One that cannot be served is as good as the picture loss that would follow."""
        if self._sent is None:
            return packet
        verdict = self._sent.judge(number & 0xFFFF for number in packet.lost)
        if verdict.lost:
            self._viewer.report_loss(Loss.UNSERVED)
        if not verdict.again or self._viewer.waits:
            return None
        return RtcpRtpfbPacket(packet.fmt, packet.ssrc, packet.media_ssrc, verdict.again)

    def _hear_picture(self, packet: RtcpPsfbPacket) -> None:
        if packet.fmt == RTCP_PSFB_PLI or is_intra_request(packet, self._ssrc):
            self._viewer.report_loss()
        elif packet.fmt == RTCP_PSFB_APP:
            try:
                rate, ssrcs = unpack_remb_fci(packet.fci)
            except (ValueError, struct.error):
                return  # other application layer feedback
            if self._ssrc in ssrcs:
                self._viewer.report_rate(rate)


def is_intra_request(packet: Any, ssrc: int) -> bool:
    """Whether it is a full intra request (RFC 5104) for ``ssrc``, which its entries name, not its header."""
    if not isinstance(packet, RtcpPsfbPacket) or packet.fmt != RTCP_PSFB_FIR:
        return False
    entries = [packet.fci[begin : begin + 4] for begin in range(0, len(packet.fci), 8)]
    return packet.media_ssrc == ssrc or ssrc.to_bytes(4, "big") in entries
