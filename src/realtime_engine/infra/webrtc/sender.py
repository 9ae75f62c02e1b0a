"""The sender of one viewer: existing RTP payloads, paced over time, retransmitted only where that helps.

It depends on private names of aiortc (see :mod:`.aiortc_internals`); where one is missing, aiortc's behavior remains.
"""

from __future__ import annotations

import asyncio

from aiortc import RTCRtpSender
from aiortc.rtp import RtcpReceiverInfo

from ...core.clock import NS_PER_S, Clock
from .aiortc_internals import (
    answers_last_report,
    intercept_rtcp,
    intercept_rtp,
    route_rtcp,
    send_payloads,
    sent_timestamp,
)
from .packet_pacer import PacketPacer
from .rtcp_feedback import RetransmissionHistory, RtcpFeedback, is_intra_request
from .send_queue import EncodedFrame, VideoViewer

_MIN_SLEEP_NS = NS_PER_S // 1000  # the resolution of event loop timers
_DELAYS_PER_S = 65536
_MAX_ERROR_S = 0.005


class PacedSender:
    """Controls aiortc's sender. It is made before the connection, and works from :meth:`start` on.

    Attributes:
        blind: the viewer's reports cannot be read.
        passed_ns: when the newest packet of the frame was passed to the network; ``None`` before the first one.
    """

    def __init__(self, sender: RTCRtpSender, clock: Clock) -> None:
        self._sender = sender
        self._clock = clock
        self._pacer = PacketPacer(clock)
        self._history = RetransmissionHistory(clock)
        self._feedback: RtcpFeedback | None = None
        self._payloads: list[bytes] = []
        self._starts_keyframe = False
        self._reported_ns: int | None = None
        self.passed_ns: int | None = None
        self.blind = not intercept_rtcp(sender, self._on_rtcp)

    def start(self, viewer: VideoViewer) -> None:
        """Pass feedback on to ``viewer``, whose frames are sent from now on. Call it when the sender is connected."""
        ssrc = self._sender._ssrc
        intercepts = intercept_rtp(self._sender, self._before_packet, self._on_sender_report)
        self._feedback = RtcpFeedback(viewer, ssrc, self._history if intercepts else None, self._round_trip)
        route_rtcp(self._sender, lambda packet: is_intra_request(packet, ssrc))
        send_payloads(self._sender, lambda: self._payloads)

    def prepare(self, encoded: EncodedFrame, viewer: VideoViewer) -> None:
        """Prepare for ``encoded``, which the sender sends next."""
        self.passed_ns = None
        self._payloads = list(encoded.payloads)
        self._starts_keyframe = encoded.packet.is_keyframe
        size, limit = encoded.packet.size, viewer.limit
        self._pacer.start_frame(size, frame_s=viewer.frame_s, rate=viewer.sent_rate, limit=limit)

    @property
    def timestamp(self) -> int | None:
        """The RTP timestamp of the newest packet sent; ``None`` if unknown."""
        return sent_timestamp(self._sender)

    def _on_rtcp(self, packet: object) -> object | None:
        return packet if self._feedback is None else self._feedback.on_packet(packet)

    def _on_sender_report(self) -> None:
        self._reported_ns = self._clock.now_ns()

    def _round_trip(self, report: RtcpReceiverInfo) -> float | None:
        """Seconds from a sender report to this answer to it; ``None`` if unknown."""
        if self._reported_ns is None or not answers_last_report(self._sender, report):
            return None
        seconds = (self._clock.now_ns() - self._reported_ns) / NS_PER_S - report.dlsr / _DELAYS_PER_S
        return max(seconds, 0.0) if seconds > -_MAX_ERROR_S else None  # negative: it answers an older report

    async def _before_packet(self, sequence_number: int, size: int) -> None:
        """Wait until a packet may be sent."""
        if not self._history.record(sequence_number, starts_keyframe=self._starts_keyframe):
            return
        self._starts_keyframe = False
        wait_ns = self._pacer.due_ns(size) - self._clock.now_ns()
        if wait_ns >= _MIN_SLEEP_NS:
            await asyncio.sleep(wait_ns / NS_PER_S)
        self.passed_ns = self._clock.now_ns()
