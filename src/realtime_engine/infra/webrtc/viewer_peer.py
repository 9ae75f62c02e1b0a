"""One WebRTC viewer of one session, from its SDP offer (WHEP, RFC 9725 style) to the end of its connection."""

from __future__ import annotations

import asyncio
import enum
import json
from collections.abc import Callable, Sequence

from aiortc import RTCPeerConnection, RTCRtpSender

from ...core.clock import MONOTONIC, Clock
from ..controls import frame_message
from ..encoding.base import Codec
from ..frame import FrameId
from .aiortc_internals import extend_headers
from .codecs import DEFAULT_CODECS, codec_capabilities
from .data_channel import ControlsChannel, OnControls
from .ice import IceConfig
from .peer import Liveness, PeerTimeouts, RemotePeer, packets_received
from .sdp import IMMEDIATELY, PLAYOUT_DELAY_URI, Offer, parse_offer
from .shared_video import SharedVideo
from .track import SentFrame, ViewerTrack

_to_json = json.JSONEncoder(separators=(",", ":")).encode

FrameText = Callable[[int, FrameId], "str | None"]


def frame_text(rtp: int, frame_id: FrameId) -> str:
    """The frame message of the controls protocol, as text."""
    return _to_json(frame_message(frame_id, rtp))


class CloseReason(str, enum.Enum):
    """Why a viewer's connection ended."""

    SERVER = "closed by the server"
    VIEWER = "closed by the viewer"
    VANISHED = "the viewer vanished"
    NEVER_CONNECTED = "the viewer never connected"
    SOURCE_ENDED = "the session ended"
    FAILED = "the video failed"


class ViewerPeer(RemotePeer[CloseReason]):
    """A viewer that is sent video and talks over the data channel ``controls``.

    Made by :meth:`from_offer`. All methods belong to the event loop that it was made on.

    Attributes:
        answer: the SDP answer for the viewer.
        codec: what it is sent.
    """

    def __init__(
        self,
        connection: RTCPeerConnection,
        offer: Offer,
        codec: Codec,
        source: SharedVideo,
        *,
        on_controls: OnControls,
        on_closed: Callable[[CloseReason], None] | None,
        on_sent: Callable[[SentFrame], None] | None,
        message: FrameText | None,
        timeouts: PeerTimeouts,
        clock: Clock,
    ) -> None:
        super().__init__(
            connection,
            "viewer",
            mid=offer.mid,
            ufrag=offer.ufrag,
            on_closed=on_closed,
            server=CloseReason.SERVER,
            gone=CloseReason.VIEWER,
            vanished=CloseReason.VANISHED,
        )
        self.codec = codec
        self._offer = offer
        self._on_sent = on_sent
        self._message = message
        self._timeouts = timeouts
        self._clock = clock
        self._controls = ControlsChannel(on_controls)
        self._track = ViewerTrack(source, codec, on_sent=self._tell, on_ended=self._video_ended)
        transceiver = connection.addTransceiver(self._track, direction="sendonly")
        transceiver.setCodecPreferences(codec_capabilities([codec]))
        self._transceiver = transceiver
        self._sender: RTCRtpSender = transceiver.sender
        self._track.use(self._sender)
        connection.on("datachannel", self._controls.attach)

    @classmethod
    async def from_offer(
        cls,
        offer_sdp: str,
        *,
        source: SharedVideo,
        on_controls: OnControls,
        on_closed: Callable[[CloseReason], None] | None = None,
        on_sent: Callable[[SentFrame], None] | None = None,
        codecs: Sequence[Codec] = DEFAULT_CODECS,
        ice: IceConfig | None = None,
        message: FrameText | None = frame_text,
        timeouts: PeerTimeouts | None = None,
        clock: Clock = MONOTONIC,
    ) -> ViewerPeer:
        """Answer a viewer's offer.

        Args:
            offer_sdp: the offer, with one video section to receive and, for controls, a data channel.
            source: the session's video.
            on_controls: called with each text of the viewer; the texts that it returns are sent back.
            on_closed: called once, when the connection has ended.
            on_sent: called with each frame after it was sent.
            codecs: by preference; the first that the viewer decodes is sent.
            ice: addresses and servers; by default only this machine's own addresses.
            message: makes the text that tells the viewer which frame it was sent, from the RTP timestamp and the
                frame's identity; ``None``, or returning it, tells nothing.
            timeouts: when to give a silent viewer up.

        Errors: ``BadOfferError`` when the offer cannot be answered, ``NoCandidatesError`` when this machine has no
        address to offer.
        """
        offer = parse_offer(offer_sdp)
        codec = offer.choose(codecs)
        ice = ice or IceConfig()
        peer = cls(
            ice.connection(),
            offer,
            codec,
            source,
            on_controls=on_controls,
            on_closed=on_closed,
            on_sent=on_sent,
            message=message,
            timeouts=timeouts or PeerTimeouts(),
            clock=clock,
        )
        await peer._negotiate(offer.sdp, ice)
        return peer

    @property
    def frames_sent(self) -> int:
        return self._track.frames_sent

    def send(self, text: str) -> bool:
        """Send ``text`` over the data channel. False when it is not open or the viewer takes nothing."""
        return self._controls.send(text)

    def _prepare(self) -> None:
        for transceiver in self._connection.getTransceivers():
            if transceiver is not self._transceiver:  # it would be decoded, and kept for somebody who reads it
                transceiver.direction = "inactive"
        if self._offer.playout_extension is not None:
            extend_headers(self._transceiver, self._offer.playout_extension, PLAYOUT_DELAY_URI, IMMEDIATELY)

    def _begin(self) -> None:
        self._start(self._watch(), "watch a viewer")

    def _let_go(self) -> None:
        self._track.stop()

    async def _watch(self) -> None:
        liveness = Liveness(self._timeouts, self._clock.now_ns())
        while True:
            await asyncio.sleep(self._timeouts.poll_s)
            connected = self.is_connected
            received = await packets_received(self._sender)
            if liveness.has_vanished(
                self._clock.now_ns(), connected=connected, sent=self.frames_sent, received=received
            ):
                self._begin_close(CloseReason.VANISHED if connected else CloseReason.NEVER_CONNECTED)
                return

    def _video_ended(self, error: BaseException | None) -> None:
        self._begin_close(CloseReason.SOURCE_ENDED if error is None else CloseReason.FAILED)

    def _tell(self, sent: SentFrame) -> None:
        if self._on_sent is not None:
            self._on_sent(sent)
        if self._message is None or not self._controls.is_open:
            return
        text = self._message(sent.rtp, sent.encoded.id)
        if text is not None:
            self._controls.send(text)
