"""What a viewer's RTCP packets mean for what it is sent."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

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

from .sent import SentPackets
from .viewer import Loss, VideoViewer


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
        sent: SentPackets | None,
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
