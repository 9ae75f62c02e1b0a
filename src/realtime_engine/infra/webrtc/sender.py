"""How one viewer is sent its packets: in small datagrams, spread over time, and again only where that helps.

Everything here hangs on private names of aiortc (see :mod:`.internals`); without one of them, aiortc does that part in
its own way.
"""

from __future__ import annotations

import asyncio

from aiortc import RTCRtpSender
from aiortc.rtp import RtcpReceiverInfo

from ...core.clock import NS_PER_S, Clock
from .aiortc_internals import hear_rtcp, is_answer, route_rtcp, sent_timestamp, take_payloads, watch_packets
from .packet_pacer import PacketPacer
from .rtcp_feedback import Feedback, RetransmissionHistory, is_intra_request
from .send_queue import EncodedFrame, VideoViewer

_MIN_WAIT_NS = NS_PER_S // 1000  # what an event loop can wait for
_DELAYS_PER_S = 65536
_INEXACT_S = 0.005


class Sending:
    """One sender. It is made before the connection, and sends from :meth:`begin` on.

    Attributes:
        blind: the viewer's reports cannot be heard.
        handed_ns: when the newest packet of the frame was handed to the network; ``None`` before the first one.
    """

    def __init__(self, sender: RTCRtpSender, clock: Clock) -> None:
        self._sender = sender
        self._clock = clock
        self._spread = PacketPacer(clock)
        self._sent = RetransmissionHistory(clock)
        self._feedback: Feedback | None = None
        self._payloads: list[bytes] = []
        self._begins_keyframe = False
        self._reported_ns: int | None = None
        self.handed_ns: int | None = None
        self.blind = not hear_rtcp(sender, self._hear)

    def begin(self, viewer: VideoViewer) -> None:
        """``viewer`` is what is sent from now on."""
        ssrc = self._sender._ssrc
        watched = watch_packets(self._sender, self._before, self._note_report)
        self._feedback = Feedback(viewer, ssrc, self._sent if watched else None, self._round_trip)
        route_rtcp(self._sender, lambda packet: is_intra_request(packet, ssrc))
        take_payloads(self._sender, lambda: self._payloads)

    def send(self, encoded: EncodedFrame, viewer: VideoViewer) -> None:
        """``encoded`` is what the sender sends next."""
        self.handed_ns = None
        self._payloads = list(encoded.payloads)
        self._begins_keyframe = encoded.packet.is_keyframe
        size, limit = encoded.packet.size, viewer.limit
        self._spread.begin(size, frame_s=viewer.frame_s, rate=viewer.sent_rate, limit=limit)

    @property
    def timestamp(self) -> int | None:
        """The RTP timestamp of the packet that was sent last, ``None`` if it cannot be known."""
        return sent_timestamp(self._sender)

    def _hear(self, packet: object) -> object | None:
        return packet if self._feedback is None else self._feedback.hear(packet)

    def _note_report(self) -> None:
        self._reported_ns = self._clock.now_ns()

    def _round_trip(self, report: RtcpReceiverInfo) -> float | None:
        """Seconds from a sender report to this answer to it, ``None`` if that cannot be known."""
        if self._reported_ns is None or not is_answer(self._sender, report):
            return None
        seconds = (self._clock.now_ns() - self._reported_ns) / NS_PER_S - report.dlsr / _DELAYS_PER_S
        return max(seconds, 0.0) if seconds > -_INEXACT_S else None  # it answered an older report

    async def _before(self, sequence_number: int, size: int) -> None:
        """Wait until a packet may be sent."""
        if not self._sent.note(sequence_number, begins_keyframe=self._begins_keyframe):
            return
        self._begins_keyframe = False
        wait_ns = self._spread.due_ns(size) - self._clock.now_ns()
        if wait_ns >= _MIN_WAIT_NS:
            await asyncio.sleep(wait_ns / NS_PER_S)
        self.handed_ns = self._clock.now_ns()
