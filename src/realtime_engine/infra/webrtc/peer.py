"""One WebRTC viewer of one session, from its SDP offer (WHEP, RFC 9725 style) to the end of its connection."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Sequence

from aiortc import RTCPeerConnection, RTCRtpSender, RTCSessionDescription

from ...core.clock import MONOTONIC, Clock
from ..frame import FrameId
from .codecs import DEFAULT_CODECS, Codec, codec_capabilities
from .controls import ControlsChannel, OnControls
from .errors import BadCandidateError, BadOfferError, PeerClosedError
from .ice import IceConfig, parse_fragment, to_candidate
from .identity import frame_message
from .internals import extend_headers
from .liveness import Liveness, Patience
from .offer import Offer, parse_offer
from .playout import IMMEDIATELY, URI
from .shared import SharedVideo
from .track import SentFrame, ViewerTrack

logger = logging.getLogger(__name__)

FrameMessage = Callable[[int, FrameId], "str | None"]

_MOST_CANDIDATES = 128


class CloseReason(str, enum.Enum):
    """Why a viewer's connection ended."""

    SERVER = "closed by the server"
    VIEWER = "closed by the viewer"
    VANISHED = "the viewer vanished"
    NEVER_CONNECTED = "the viewer never connected"
    SOURCE_ENDED = "the session ended"
    FAILED = "the video failed"


class ViewerPeer:
    """A viewer that is sent video and talks over the data channel ``controls``.

    Made by :meth:`accept`. All methods belong to the event loop that it was made on.

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
        message: FrameMessage | None,
        patience: Patience,
        clock: Clock,
    ) -> None:
        self.answer = ""
        self.codec = codec
        self._connection = connection
        self._offer = offer
        self._on_closed = on_closed
        self._on_sent = on_sent
        self._message = message
        self._patience = patience
        self._clock = clock
        self._candidates = 0
        self._closing: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._controls = ControlsChannel(on_controls)
        self._track = ViewerTrack(source, codec, on_sent=self._tell, on_ended=self._video_ended)
        transceiver = connection.addTransceiver(self._track, direction="sendonly")
        transceiver.setCodecPreferences(codec_capabilities([codec]))
        self._transceiver = transceiver
        self._sender: RTCRtpSender = transceiver.sender
        self._track.use(self._sender)
        connection.on("datachannel", self._controls.take)
        connection.on("connectionstatechange", self._state_changed)

    @classmethod
    async def accept(
        cls,
        offer_sdp: str,
        *,
        source: SharedVideo,
        on_controls: OnControls,
        on_closed: Callable[[CloseReason], None] | None = None,
        on_sent: Callable[[SentFrame], None] | None = None,
        codecs: Sequence[Codec] = DEFAULT_CODECS,
        ice: IceConfig | None = None,
        message: FrameMessage | None = frame_message,
        patience: Patience | None = None,
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
            patience: when to give a silent viewer up.

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
            patience=patience or Patience(),
            clock=clock,
        )
        try:
            await peer._negotiate(ice)
        except BaseException:
            peer._on_closed = None
            await peer.close()
            raise
        return peer

    @property
    def is_connected(self) -> bool:
        return self._connection.connectionState == "connected"

    @property
    def frames_sent(self) -> int:
        return self._track.frames_sent

    async def add_candidate(self, fragment: str) -> None:
        """Take candidates that the viewer found later (WHEP PATCH, ``application/trickle-ice-sdpfrag``).

        Errors: ``BadCandidateError`` for a malformed fragment or an ICE restart, ``PeerClosedError``.
        """
        if self._closing is not None:
            raise PeerClosedError("this viewer's connection is closed")
        parsed = parse_fragment(fragment)
        if parsed.ufrag not in (None, self._offer.ufrag):
            raise BadCandidateError("ICE restart is not supported: the fragment has another ice-ufrag than the offer")
        self._candidates += len(parsed.candidates)
        if self._candidates > _MOST_CANDIDATES:
            raise BadCandidateError(f"at most {_MOST_CANDIDATES} candidates are taken from one viewer")
        for value in parsed.candidates:
            await self._connection.addIceCandidate(to_candidate(value, self._offer.mid))

    def send(self, text: str) -> bool:
        """Send ``text`` over the data channel. False when it is not open or the viewer takes nothing."""
        return self._controls.send(text)

    async def close(self) -> None:
        """End the connection. May be called again; each call returns when it has ended."""
        await asyncio.shield(self._begin_close(CloseReason.SERVER))

    def _begin_close(self, reason: CloseReason) -> asyncio.Task[None]:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(reason), name="close a viewer")
        return self._closing

    async def _close(self, reason: CloseReason) -> None:
        if self._watching is not None:
            self._watching.cancel()
        self._track.stop()
        await self._connection.close()
        logger.info("a viewer's connection ended: %s", reason.value)
        if self._on_closed is not None:
            try:
                self._on_closed(reason)
            except Exception:
                logger.exception("the callback that was told of a viewer's end failed")

    async def _negotiate(self, ice: IceConfig) -> None:
        connection = self._connection
        try:
            await connection.setRemoteDescription(RTCSessionDescription(self._offer.sdp, "offer"))
        except Exception as error:  # aiortc names no common base for what it refuses
            raise BadOfferError(f"the SDP offer cannot be used: {error}") from error
        for transceiver in connection.getTransceivers():
            if transceiver is not self._transceiver:  # it would be decoded, and kept for somebody who reads it
                transceiver.direction = "inactive"
        if self._offer.playout_extension is not None:
            extend_headers(self._transceiver, self._offer.playout_extension, URI, IMMEDIATELY)
        self.answer = await ice.answer(connection)
        self._watching = asyncio.create_task(self._watch(), name="watch a viewer")

    async def _watch(self) -> None:
        liveness = Liveness(self._patience, self._clock.now_ns())
        while True:
            await asyncio.sleep(self._patience.poll_s)
            connected = self.is_connected
            received = await self._packets_received()
            if liveness.has_vanished(
                self._clock.now_ns(), connected=connected, sent=self.frames_sent, received=received
            ):
                self._begin_close(CloseReason.VANISHED if connected else CloseReason.NEVER_CONNECTED)
                return

    async def _packets_received(self) -> int:
        stats = await self._sender.getStats()
        return sum(entry.packetsReceived for entry in stats.values() if entry.type == "transport")

    def _state_changed(self) -> None:
        state = self._connection.connectionState
        if state == "closed":
            self._begin_close(CloseReason.VIEWER)
        elif state == "failed":
            self._begin_close(CloseReason.VANISHED)

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
