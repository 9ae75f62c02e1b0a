"""One publisher of one session: a client that sends video by WebRTC, from its SDP offer (WHIP, RFC 9725) to its end."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from concurrent.futures import Executor

import av
from aiortc import MediaStreamTrack, RTCPeerConnection, RTCRtpReceiver
from aiortc.mediastreams import MediaStreamError

from ...core.clock import MONOTONIC, NS_PER_S, Clock
from ..video_input import VideoInput
from . import colours
from .codecs import Codec, codec_capabilities
from .colours import Colours, label, read_colours
from .ice import IceConfig
from .intake import Intake, Picture
from .liveness import Liveness, Patience
from .publication import Publication, parse_publication
from .reception import bound_decoding, bound_sources, emit_at_marker, hear_extension, request_keyframe
from .remote import RemotePeer, packets_received

_MOST_UNDECODED = 16
_MOST_SOURCES = 32  # video, retransmissions and sound, again after each restart of an encoder
_BLIND_NS = NS_PER_S  # packets but no picture for so long: ask for a keyframe


class PublisherEnd(str, enum.Enum):
    """Why a publisher's connection ended."""

    SERVER = "closed by the server"
    PUBLISHER = "closed by the publisher"
    VANISHED = "the publisher vanished"
    NEVER_CONNECTED = "the publisher never connected"


class PublisherPeer(RemotePeer[PublisherEnd]):
    """A client that sends one video. Made by :meth:`accept`; belongs to the event loop that it was made on.

    Attributes:
        answer: the SDP answer for the publisher.
    """

    def __init__(
        self,
        connection: RTCPeerConnection,
        publication: Publication,
        declared: VideoInput,
        *,
        on_picture: Callable[[Picture], None],
        on_drop: Callable[[], None],
        on_closed: Callable[[PublisherEnd], None] | None,
        pool: Executor | None,
        patience: Patience,
        clock: Clock,
    ) -> None:
        super().__init__(
            connection,
            "publisher",
            mid=publication.mid,
            ufrag=publication.ufrag,
            on_closed=on_closed,
            server=PublisherEnd.SERVER,
            gone=PublisherEnd.PUBLISHER,
            vanished=PublisherEnd.VANISHED,
        )
        self._publication = publication
        self._patience = patience
        self._clock = clock
        self._intake = Intake(declared.held, declared.max_side, pool, on_picture, on_drop)
        transceiver = connection.addTransceiver("video", direction="recvonly")
        # H264 says in each stream which colours it means, VP8 only beside it, where the sender knows how
        transceiver.setCodecPreferences(codec_capabilities((Codec.H264, Codec.VP8)))
        self._transceiver = transceiver
        self._receiver: RTCRtpReceiver = transceiver.receiver
        self._colours: Colours | None = None
        bound_decoding(self._receiver, _MOST_UNDECODED, on_drop)
        emit_at_marker(self._receiver)
        connection.on("track", self._begin_reading)

    @classmethod
    async def accept(
        cls,
        offer_sdp: str,
        declared: VideoInput,
        *,
        on_picture: Callable[[Picture], None],
        on_drop: Callable[[], None] = lambda: None,
        on_closed: Callable[[PublisherEnd], None] | None = None,
        ice: IceConfig | None = None,
        pool: Executor | None = None,
        patience: Patience | None = None,
        clock: Clock = MONOTONIC,
    ) -> PublisherPeer:
        """Answer a publisher's offer.

        Args:
            offer_sdp: the offer, with one video section to send; VP8, or H264 of any profile.
            declared: how large pictures may be, and how many may wait to be converted.
            on_picture: called with each picture, in order.
            on_drop: called for each frame that was received and is not shown.
            on_closed: called once, when the connection has ended.
            ice: addresses and servers; by default only this machine's own addresses.
            pool: threads to convert pictures on; by default the event loop's own.
            patience: when to give a silent publisher up.

        Errors: ``BadOfferError`` when the offer cannot be answered, ``NoCandidatesError`` when this machine has no
        address to offer.
        """
        publication = parse_publication(offer_sdp)
        ice = ice or IceConfig()
        peer = cls(
            ice.connection(),
            publication,
            declared,
            on_picture=on_picture,
            on_drop=on_drop,
            on_closed=on_closed,
            pool=pool,
            patience=patience or Patience(),
            clock=clock,
        )
        await peer._negotiate(publication.sdp, ice)
        return peer

    def _prepare(self) -> None:
        for transceiver in self._connection.getTransceivers():
            if transceiver.kind == "audio":
                transceiver.direction = "inactive"
        bound_sources(self._receiver, _MOST_SOURCES)  # of the transport that all sections share from now on
        extension = self._publication.colour_extension
        if extension is not None:
            hear_extension(self._transceiver, extension, colours.URI, self._hear_colours)

    def _begin(self) -> None:
        self.answer = self._publication.answer(self.answer)
        self._start(self._intake.run(), "convert received frames")
        self._start(self._watch(), "watch a publisher")

    def _begin_reading(self, track: MediaStreamTrack) -> None:
        if track.kind == "video":
            self._start(self._read(track), "read received frames")

    async def _read(self, track: MediaStreamTrack) -> None:
        while True:
            try:
                image = await track.recv()
            except MediaStreamError:  # the publisher said goodbye, or the connection is lost
                self._begin_close(PublisherEnd.PUBLISHER)
                return
            assert isinstance(image, av.VideoFrame)
            label(image, self._colours)
            self._intake.put(image, self._clock.now_ns())

    def _hear_colours(self, value: bytes) -> None:
        self._colours = read_colours(value)

    async def _watch(self) -> None:
        """Give a silent publisher up, and ask one that cannot be decoded for a keyframe."""
        liveness = Liveness(self._patience, self._clock.now_ns())
        polls = decoded = packets = 0
        seen_ns = self._clock.now_ns()
        while True:
            await asyncio.sleep(self._patience.poll_s)
            polls += 1
            now_ns, connected = self._clock.now_ns(), self.is_connected
            received = await packets_received(self._receiver)
            # a publisher owes packets at any time, as if each look at it were a frame that it has to answer
            if liveness.has_vanished(now_ns, connected=connected, sent=polls, received=received):
                self._begin_close(PublisherEnd.VANISHED if connected else PublisherEnd.NEVER_CONNECTED)
                return
            if self._intake.received > decoded or received == packets:
                seen_ns = now_ns
            elif now_ns - seen_ns >= _BLIND_NS:
                seen_ns = now_ns
                await request_keyframe(self._receiver)
            decoded, packets = self._intake.received, received
