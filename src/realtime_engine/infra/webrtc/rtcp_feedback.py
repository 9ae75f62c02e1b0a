"""RTCP feedback of one viewer: NACK, PLI, FIR, REMB and receiver reports, and which packets are retransmitted."""

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

HISTORY_SIZE = 128  # packets that aiortc's sender can retransmit
_STALE_NS = NS_PER_S // 2
_MAX_RETRANSMISSIONS = 4
_MIN_ROUND_TRIP_NS = NS_PER_S // 25  # allows for queues that built up since it was measured
_HALF = 0x8000


class NackDecision(NamedTuple):
    """The response to a generic NACK (RFC 4585).

    Attributes:
        retransmit: sequence numbers to send again.
        lost: the NACK names a packet that is needed and not retransmitted.
    """

    retransmit: list[int]
    lost: bool


class RetransmissionHistory:
    """Remembers the packets sent to one viewer by their sequence number, and decides which are retransmitted.

    A packet is lost when the sender has forgotten it, or when it is older than half a second: it would only replay the
    past. It is not needed when a keyframe has been sent since. It is not sent again within a round trip, as it may be
    on its way: a receiver that repeats its requests at each new loss would fill a bottleneck with retransmissions. And
    it is retransmitted four times at most, since a request of one datagram can name thousands.

    Args:
        clock: stamps packets.
        size: packets that are remembered.

    Attributes:
        round_trip_s: the round-trip time, in seconds; set from receiver reports.
    """

    def __init__(self, clock: Clock, size: int = HISTORY_SIZE) -> None:
        self._clock = clock
        self._sent_ns: deque[int] = deque(maxlen=size)
        self._retransmitted_ns: deque[list[int]] = deque(maxlen=size)  # of each of them
        self._newest: int | None = None
        self._keyframe: int | None = None
        self.round_trip_s = 0.0

    def record(self, sequence_number: int, *, starts_keyframe: bool = False) -> bool:
        """A packet is sent; false if it is a retransmission."""
        if self._newest is not None and not _is_after(sequence_number, self._newest):
            return False
        self._newest = sequence_number
        self._sent_ns.append(self._clock.now_ns())
        self._retransmitted_ns.append([])
        if starts_keyframe:
            self._keyframe = sequence_number
        elif self._keyframe is not None and _distance(self._keyframe, sequence_number) >= _HALF // 2:
            self._keyframe = None  # before the numbers wrap
        return True

    def decide(self, requested: Iterable[int]) -> NackDecision:
        """Decide on sequence numbers that the viewer misses. If one is lost, none is worth sending again.

        The packets to retransmit count as sent.
        """
        needed = []
        for number in dict.fromkeys(requested):
            if self._newest is None or _is_after(number, self._newest) or self._is_superseded(number):
                continue
            if self._is_lost(number, self._newest):
                return NackDecision([], True)
            needed.append(number)
        return NackDecision([number for number in needed if self._retransmit(number)], False)

    def _retransmit(self, number: int) -> bool:
        """Count a retransmission; false if there was one just now, or too many."""
        assert self._newest is not None
        times, now_ns = self._retransmitted_ns[-1 - _distance(number, self._newest)], self._clock.now_ns()
        round_trip_ns = max(round(self.round_trip_s * NS_PER_S), _MIN_ROUND_TRIP_NS)
        if len(times) >= _MAX_RETRANSMISSIONS or (times and now_ns - times[-1] < round_trip_ns):
            return False
        times.append(now_ns)
        return True

    def _is_superseded(self, number: int) -> bool:
        return self._keyframe is not None and number != self._keyframe and not _is_after(number, self._keyframe)

    def _is_lost(self, number: int, newest: int) -> bool:
        behind = _distance(number, newest)
        return behind >= len(self._sent_ns) or self._clock.now_ns() - self._sent_ns[-1 - behind] > _STALE_NS


class RtcpFeedback:
    """Passes what a receiver reports about the stream ``ssrc`` on to ``viewer``.

    Args:
        viewer: the viewer.
        ssrc: the stream.
        history: the packets sent to the viewer; ``None`` if they are not known: each NACK is then passed on.
        round_trip: seconds of the round trip that ends with a receiver report; ``None`` if unknown.
    """

    def __init__(
        self,
        viewer: VideoViewer,
        ssrc: int,
        history: RetransmissionHistory | None,
        round_trip: Callable[[RtcpReceiverInfo], float | None],
    ) -> None:
        self._viewer = viewer
        self._ssrc = ssrc
        self._history = history
        self._round_trip = round_trip

    def on_packet(self, packet: Any) -> Any | None:
        """Handle one RTCP packet; returns the packet for aiortc's sender to handle, if any."""
        if isinstance(packet, RtcpRtpfbPacket) and packet.fmt == RTCP_RTPFB_NACK:
            return self._on_nack(packet)
        if isinstance(packet, (RtcpRrPacket, RtcpSrPacket)):
            for report in packet.reports:
                if report.ssrc == self._ssrc:
                    self._on_report(report)
        elif isinstance(packet, RtcpPsfbPacket):
            self._on_payload_feedback(packet)
        return packet

    def _on_report(self, report: RtcpReceiverInfo) -> None:
        self._viewer.report_missing(report.fraction_lost / 256)
        seconds = self._round_trip(report)
        if seconds is not None:
            self._viewer.report_round_trip(seconds)
            if self._history is not None:
                self._history.round_trip_s = seconds

    def _on_nack(self, packet: RtcpRtpfbPacket) -> RtcpRtpfbPacket | None:
        """Reduce a generic NACK to what is retransmitted. One for a lost packet counts as a picture loss."""
        if self._history is None:
            return packet
        decision = self._history.decide(number & 0xFFFF for number in packet.lost)
        if decision.lost:
            self._viewer.report_loss(Loss.UNSERVED)
        if not decision.retransmit or self._viewer.needs_keyframe:
            return None
        return RtcpRtpfbPacket(packet.fmt, packet.ssrc, packet.media_ssrc, decision.retransmit)

    def _on_payload_feedback(self, packet: RtcpPsfbPacket) -> None:
        if packet.fmt == RTCP_PSFB_PLI or is_intra_request(packet, self._ssrc):
            self._viewer.report_loss()
        elif packet.fmt == RTCP_PSFB_APP:
            try:
                rate, ssrcs = unpack_remb_fci(packet.fci)
            except (ValueError, struct.error):
                return  # application layer feedback other than REMB
            if self._ssrc in ssrcs:
                self._viewer.report_rate(rate)


def is_intra_request(packet: Any, ssrc: int) -> bool:
    """Whether it is a full intra request (RFC 5104) for ``ssrc``, which its entries name, not its header."""
    if not isinstance(packet, RtcpPsfbPacket) or packet.fmt != RTCP_PSFB_FIR:
        return False
    entries = [packet.fci[start : start + 4] for start in range(0, len(packet.fci), 8)]
    return packet.media_ssrc == ssrc or ssrc.to_bytes(4, "big") in entries


def _distance(earlier: int, later: int) -> int:
    return (later - earlier) & 0xFFFF


def _is_after(number: int, other: int) -> bool:
    return 0 < _distance(other, number) < _HALF
