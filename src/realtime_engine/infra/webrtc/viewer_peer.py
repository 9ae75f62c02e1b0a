"""One WebRTC viewer of one session, from its SDP offer (WHEP, similar to RFC 9725) to the end of its connection."""

from __future__ import annotations

import asyncio
import enum
import json
from collections.abc import Callable, Sequence

from aiortc import RTCRtpSender

from ..controls import frame_message
from ..encoding.base import Codec
from ..frame import FrameId
from .aiortc_internals import send_extension
from .codecs import DEFAULT_CODECS, codec_capabilities
from .data_channel import ControlsChannel, OnControls
from .peer import CloseReasons, Liveness, PeerOptions, RemotePeer, packets_received
from .sdp import NO_PLAYOUT_DELAY, PLAYOUT_DELAY_URI, Offer, parse_offer
from .shared_video import SharedVideo
from .track import SentFrame, ViewerTrack

FrameText = Callable[[int, FrameId], "str | None"]

_to_json = json.JSONEncoder(separators=(",", ":")).encode


def frame_text(rtp: int, frame_id: FrameId) -> str:
    """The frame message of the controls protocol, as text."""
    return _to_json(frame_message(frame_id, rtp))


class ViewerCloseReason(str, enum.Enum):
    """Why a viewer's connection ended."""

    SERVER = "closed by the server"
    VIEWER = "closed by the viewer"
    VANISHED = "the viewer vanished"
    NEVER_CONNECTED = "the viewer never connected"
    SOURCE_ENDED = "the session ended"
    FAILED = "the video failed"


_REASONS = CloseReasons(ViewerCloseReason.SERVER, ViewerCloseReason.VIEWER, ViewerCloseReason.VANISHED)


class ViewerPeer(RemotePeer[ViewerCloseReason]):
    """A viewer that receives video and exchanges messages over the data channel ``controls``.

    Made by :meth:`from_offer`. All methods belong to the event loop on which it was made.

    Attributes:
        answer: the SDP answer for the viewer.
        codec: the codec of the video.
    """

    def __init__(
        self,
        offer: Offer,
        codec: Codec,
        source: SharedVideo,
        *,
        on_controls: OnControls,
        on_closed: Callable[[ViewerCloseReason], None] | None,
        on_sent: Callable[[SentFrame], None] | None,
        message: FrameText | None,
        options: PeerOptions,
    ) -> None:
        super().__init__(
            "viewer", mid=offer.mid, ufrag=offer.ufrag, on_closed=on_closed, reasons=_REASONS, options=options
        )
        self.codec = codec
        self._offer = offer
        self._on_sent = on_sent
        self._message = message
        self._controls = ControlsChannel(on_controls)
        self._track = ViewerTrack(source, codec, on_sent=self._on_frame_sent, on_ended=self._on_video_ended)
        transceiver = self._connection.addTransceiver(self._track, direction="sendonly")
        transceiver.setCodecPreferences(codec_capabilities([codec]))
        self._transceiver = transceiver
        self._sender: RTCRtpSender = transceiver.sender
        self._track.attach(self._sender)
        self._connection.on("datachannel", self._controls.attach)

    @classmethod
    async def from_offer(
        cls,
        offer_sdp: str,
        *,
        source: SharedVideo,
        on_controls: OnControls,
        on_closed: Callable[[ViewerCloseReason], None] | None = None,
        on_sent: Callable[[SentFrame], None] | None = None,
        codecs: Sequence[Codec] = DEFAULT_CODECS,
        message: FrameText | None = frame_text,
        options: PeerOptions | None = None,
    ) -> ViewerPeer:
        """Answer a viewer's offer.

        Args:
            offer_sdp: the offer, with one video section to receive and, for controls, a data channel.
            source: the session's video.
            on_controls: called with each text of the viewer; the texts that it returns are sent back.
            on_closed: called once, when the connection has ended.
            on_sent: called with each frame after it was sent.
            codecs: by preference; the first that the viewer decodes is used.
            message: makes the text that identifies a sent frame to the viewer, from its RTP timestamp and its identity;
                ``None``, or returning it, sends no text.
            options: settings of the connection.

        Raises:
            BadOfferError: the offer cannot be answered.
            NoCandidatesError: this machine has no address to offer.
        """
        offer = parse_offer(offer_sdp)
        peer = cls(
            offer,
            offer.choose_codec(codecs),
            source,
            on_controls=on_controls,
            on_closed=on_closed,
            on_sent=on_sent,
            message=message,
            options=options or PeerOptions(),
        )
        await peer._negotiate(offer.sdp)
        return peer

    @property
    def frames_sent(self) -> int:
        """Frames sent so far."""
        return self._track.frames_sent

    def send(self, text: str) -> bool:
        """Send ``text`` over the data channel; false when it is not open or the viewer does not read."""
        return self._controls.send(text)

    def _before_answer(self) -> None:
        for transceiver in self._connection.getTransceivers():
            if transceiver is not self._transceiver:  # aiortc would decode it and keep the frames
                transceiver.direction = "inactive"
        if self._offer.playout_extension is not None:
            send_extension(self._transceiver, self._offer.playout_extension, PLAYOUT_DELAY_URI, NO_PLAYOUT_DELAY)

    def _after_answer(self) -> None:
        self._start_task(self._watch(), "watch a viewer")

    def _before_close(self) -> None:
        self._track.stop()

    async def _watch(self) -> None:
        """Disconnect a viewer that has vanished."""
        timeouts = self._options.timeouts
        liveness = Liveness(timeouts, self._clock.now_ns())
        while True:
            await asyncio.sleep(timeouts.poll_s)
            connected = self.is_connected
            received = await packets_received(self._sender)
            if liveness.has_vanished(
                self._clock.now_ns(), connected=connected, sent=self.frames_sent, received=received
            ):
                self._start_close(ViewerCloseReason.VANISHED if connected else ViewerCloseReason.NEVER_CONNECTED)
                return

    def _on_video_ended(self, error: BaseException | None) -> None:
        self._start_close(ViewerCloseReason.SOURCE_ENDED if error is None else ViewerCloseReason.FAILED)

    def _on_frame_sent(self, sent: SentFrame) -> None:
        if self._on_sent is not None:
            self._on_sent(sent)
        if self._message is None or not self._controls.is_open:
            return
        text = self._message(sent.rtp, sent.encoded.id)
        if text is not None:
            self._controls.send(text)
