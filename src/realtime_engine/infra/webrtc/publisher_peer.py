"""One publisher of one session: a client that sends video by WebRTC, from its SDP offer (WHIP, RFC 9725) to its end."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple

import av
import numpy as np
from aiortc import MediaStreamTrack, RTCPeerConnection, RTCRtpReceiver
from aiortc.mediastreams import MediaStreamError
from numpy.typing import NDArray

from ...core.clock import MONOTONIC, NS_PER_S, Clock
from ...core.loglimit import LogLimiter
from ..color import to_rgb
from ..encoding.base import Codec
from ..video_input import VideoInput
from .aiortc_internals import bound_decoding, bound_sources, emit_at_marker, hear_extension, request_keyframe
from .codecs import codec_capabilities
from .ice import IceConfig
from .peer import Liveness, PeerTimeouts, RemotePeer, packets_received
from .sdp import COLOR_SPACE_URI, Colours, PublishOffer, label, parse_publish_offer, read_colours

_log = LogLimiter(logging.getLogger(__name__), MONOTONIC)


_MAX_WAITING_PIXELS = 8192 * 4096


class ReceivedPicture(NamedTuple):
    """A received frame.

    Attributes:
        pixels: (height, width, 3) uint8 RGB.
        media_ns: by the sender's clock, since its first frame, in nanoseconds.
        arrived_ns: when it was decoded, in monotonic nanoseconds.
    """

    pixels: NDArray[np.uint8]
    media_ns: int
    arrived_ns: int


class _Decoded(NamedTuple):
    image: av.VideoFrame
    media_ns: int
    arrived_ns: int


class FrameConverter:
    """Converts decoded frames off the event loop, one after the other, the oldest of those that wait first.

    Args:
        waiting: frames that may wait; when there are more, or more than 32 million pixels, the oldest is dropped.
        max_side: longer side of a picture in pixels at most.
        pool: threads to convert on.
        on_picture: called on the event loop with each picture.
        on_drop: called on the event loop for each frame that was dropped.
    """

    def __init__(
        self,
        waiting: int,
        max_side: int,
        pool: Executor | None,
        on_picture: Callable[[ReceivedPicture], None],
        on_drop: Callable[[], None],
    ) -> None:
        self._waiting: deque[_Decoded] = deque()
        self._most = waiting
        self._max_side = max_side
        self._pool = pool
        self._on_picture = on_picture
        self._on_drop = on_drop
        self._arrived = asyncio.Event()
        self._pixels = 0  # of what waits
        self.received = 0

    def put(self, image: av.VideoFrame, arrived_ns: int) -> None:
        """Take a decoded frame; does not block."""
        self._pixels += image.width * image.height
        while self._waiting and (len(self._waiting) >= self._most or self._pixels > _MAX_WAITING_PIXELS):
            self._take()
            self._on_drop()
        self.received += 1
        self._waiting.append(_Decoded(image, _media_ns(image), arrived_ns))
        self._arrived.set()

    def _take(self) -> _Decoded:
        decoded = self._waiting.popleft()
        self._pixels -= decoded.image.width * decoded.image.height
        return decoded

    async def run(self) -> None:
        """Convert until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            image, media_ns, arrived_ns = self._take()
            try:
                pixels = await loop.run_in_executor(self._pool, to_rgb, image, self._max_side)
            except Exception as error:  # a stranger's video may be anything
                self._on_drop()
                _log.error("a received frame could not be converted", error)
            else:
                self._on_picture(ReceivedPicture(pixels, media_ns, arrived_ns))


def _media_ns(image: av.VideoFrame) -> int:
    if image.pts is None or image.time_base is None:
        return 0
    return round(image.pts * image.time_base * NS_PER_S)


_MAX_UNDECODED = 16
_MAX_SOURCES = 32  # video, retransmissions and sound, again after each restart of an encoder
_BLIND_NS = NS_PER_S  # packets but no picture for so long: ask for a keyframe


class PublisherEnd(str, enum.Enum):
    """Why a publisher's connection ended."""

    SERVER = "closed by the server"
    PUBLISHER = "closed by the publisher"
    VANISHED = "the publisher vanished"
    NEVER_CONNECTED = "the publisher never connected"


class PublisherPeer(RemotePeer[PublisherEnd]):
    """A client that sends one video. Made by :meth:`from_offer`; belongs to the event loop that it was made on.

    Attributes:
        answer: the SDP answer for the publisher.
    """

    def __init__(
        self,
        connection: RTCPeerConnection,
        publication: PublishOffer,
        declared: VideoInput,
        *,
        on_picture: Callable[[ReceivedPicture], None],
        on_drop: Callable[[], None],
        on_closed: Callable[[PublisherEnd], None] | None,
        pool: Executor | None,
        timeouts: PeerTimeouts,
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
        self._timeouts = timeouts
        self._clock = clock
        self._intake = FrameConverter(declared.max_frames, declared.max_side, pool, on_picture, on_drop)
        transceiver = connection.addTransceiver("video", direction="recvonly")
        # H264 says in each stream which colours it means, VP8 only beside it, where the sender knows how
        transceiver.setCodecPreferences(codec_capabilities((Codec.H264, Codec.VP8)))
        self._transceiver = transceiver
        self._receiver: RTCRtpReceiver = transceiver.receiver
        self._colours: Colours | None = None
        bound_decoding(self._receiver, _MAX_UNDECODED, on_drop)
        emit_at_marker(self._receiver)
        connection.on("track", self._begin_reading)

    @classmethod
    async def from_offer(
        cls,
        offer_sdp: str,
        declared: VideoInput,
        *,
        on_picture: Callable[[ReceivedPicture], None],
        on_drop: Callable[[], None] = lambda: None,
        on_closed: Callable[[PublisherEnd], None] | None = None,
        ice: IceConfig | None = None,
        pool: Executor | None = None,
        timeouts: PeerTimeouts | None = None,
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
            timeouts: when to give a silent publisher up.

        Errors: ``BadOfferError`` when the offer cannot be answered, ``NoCandidatesError`` when this machine has no
        address to offer.
        """
        publication = parse_publish_offer(offer_sdp)
        ice = ice or IceConfig()
        peer = cls(
            ice.connection(),
            publication,
            declared,
            on_picture=on_picture,
            on_drop=on_drop,
            on_closed=on_closed,
            pool=pool,
            timeouts=timeouts or PeerTimeouts(),
            clock=clock,
        )
        await peer._negotiate(publication.sdp, ice)
        return peer

    def _prepare(self) -> None:
        for transceiver in self._connection.getTransceivers():
            if transceiver.kind == "audio":
                transceiver.direction = "inactive"
        bound_sources(self._receiver, _MAX_SOURCES)  # of the transport that all sections share from now on
        extension = self._publication.colour_extension
        if extension is not None:
            hear_extension(self._transceiver, extension, COLOR_SPACE_URI, self._hear_colours)

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
        liveness = Liveness(self._timeouts, self._clock.now_ns())
        polls = decoded = packets = 0
        seen_ns = self._clock.now_ns()
        while True:
            await asyncio.sleep(self._timeouts.poll_s)
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
